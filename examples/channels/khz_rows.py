"""Rows of a khz as they come, and numbers for it: what the examples beside this file need. Only Python's own library.

docs/http.md has the stream, docs/publish.md the socket. It neither connects again nor speaks TLS: a program in real use does.
"""

import json
import os
import socket
import urllib.error
import urllib.parse
import urllib.request

# A khz sends something each second.
SILENCE_MAX = 10
# A datagram of the socket holds no more (docs/publish.md).
DATAGRAM_MAX = 8192


class Row:
    """A row: its node, its time in seconds since 1970, and its values by name: `mem.free`, `job.queue[rank=1]`."""

    def __init__(self, node, time, values, lost):
        self.node, self.time, self.values, self.lost = node, time, values, lost


def rows(url, **terms):
    """Yields every row of a stream. `terms` are the parameters of GET /khz/v1/stream; a list gives one several times."""
    query = urllib.parse.urlencode(terms, doseq=True)
    columns = {}
    for kind, body in _events(f"{url.rstrip('/')}/khz/v1/stream?{query}"):
        if kind == "columns":
            columns[body["node"]] = [_name(column) for column in body["columns"]]
        elif kind == "rows":
            lost = body["lost"]
            for row in body["rows"]:
                # A reading without a value is an object that says why: it is left out, and never 0.
                values = {
                    name: float(reading)
                    for name, reading in zip(columns[body["node"]], row["v"])
                    if isinstance(reading, str)
                }
                yield Row(body["node"], float(row["t"]), values, lost)
                lost = 0
        elif kind == "dropped":
            raise SystemExit(f"{url}: the stream has ended: {body['error']}")


def _events(url):
    """The events of a stream. The response is closed when nobody iterates any more."""
    with _open(url) as response:
        kind = None
        for line in response:
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                yield kind, json.loads(line[6:])
    raise SystemExit(f"{url}: the khz has closed the stream")


def _open(url):
    try:
        return urllib.request.urlopen(url, timeout=SILENCE_MAX)
    except urllib.error.HTTPError as refused:
        raise SystemExit(f"{url}: {refused.code}: {refused.read().decode(errors='replace').strip()}") from None
    except OSError as error:
        raise SystemExit(f"{url}: {error}; start `khz`, or name another: http://HOST:PORT") from None


def _name(column):
    parts = [column["instance"]] if column.get("instance") else []
    parts += [f"{name}={value}" for name, value in sorted(column.get("labels", {}).items())]
    return column["name"] + (f"[{','.join(parts)}]" if parts else "")


def own_number(url, family):
    """A number that the khz at this URL has of itself, out of its /metrics; `None` if it has none of this name."""
    with _open(f"{url.rstrip('/')}/metrics") as response:
        for line in response.read().decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name == family:
                return float(value)
    return None


def sum_of_nodes(url, metric):
    """The sum of a metric over the nodes that this khz knows, as they are now."""
    query = urllib.parse.urlencode({"match": metric, "age": "100ms"})
    with _open(f"{url.rstrip('/')}/khz/v1/query?{query}") as response:
        nodes = json.load(response)["nodes"]
    found = [sample["value"] for node in nodes for sample in node["series"] if "value" in sample]
    return sum(map(float, found)) if found else None


class Publisher:
    """Publishes numbers at the khz of this machine: `publish("queue[rank=1]=17", ...)`."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.path = next(filter(os.path.exists, _sockets()), None)
        if self.path is None:
            raise SystemExit(f"no khz takes numbers here ({', '.join(_sockets())}): start `khz` or `khz agent`")

    def publish(self, *lines):
        datagram = "\n".join(lines).encode()
        assert len(datagram) <= DATAGRAM_MAX, "more than a datagram holds"
        try:
            self.socket.sendto(datagram, self.path)
        except BlockingIOError:
            pass  # The agent knows enough for now; it gets the next one.


def _sockets():
    """Where publish.sock may be, the own one first."""
    if "KHZ_RUN_DIR" in os.environ:
        folders = [os.environ["KHZ_RUN_DIR"]]
    else:
        own = os.environ.get("XDG_RUNTIME_DIR")
        folders = [os.path.join(own, "khz")] if own else [f"/tmp/khz-{os.getuid()}"]
        folders = ([] if os.getuid() == 0 else folders) + ["/run/khz"]
    return [os.path.join(folder, "publish.sock") for folder in folders]
