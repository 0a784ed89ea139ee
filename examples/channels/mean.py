#!/usr/bin/env python3
"""Running means over a second of data at 100 Hz, computed at the nodes, and the bytes that this saves on the link.

    mean.py [HUB [SECONDS]]         HUB: the address of a hub's page [http://127.0.0.1:7070]

The hub counts what it receives of its nodes. The script reads that count over some seconds in which nobody follows anything, in which
it follows means, and in which it follows the rows. What is sent without a reader (base rows, beats) is subtracted.
"""

import sys
import time

from khz_rows import own_number, rows

SERIES = ["cpu.*", "kernel.*", "mem.*", "net.*"]
# Seconds to wait until what comes without a reader has become steady.
CALM_MAX = 15
RECEIVED = "khz_hub_received_bytes_total"


def received(hub):
    bytes_so_far = own_number(hub, RECEIVED)
    if bytes_so_far is None:
        raise SystemExit(f"{hub}: it has no {RECEIVED}: means are sent over a link to a hub; name a `khz hub`")
    return bytes_so_far


def wait_until_calm(hub):
    """An agent that has just come sends its schema, and rows that the hub has missed."""
    before, received_before = None, received(hub)
    for _ in range(CALM_MAX):
        time.sleep(1)
        now = received(hub)
        rate, received_before = now - received_before, now
        if before is not None and rate > before / 2:
            return
        before = rate


def rate_of(hub, seconds, **terms):
    """Bytes and rows a second that come to the hub while a stream of these terms is followed, and the series of a row."""
    stream = rows(hub, match=SERIES, rate="100Hz", exact=1, **terms)
    next(stream)  # The lane exists now, and the hub has its schema.
    begun, before, count = time.monotonic(), received(hub), 0
    for row in stream:
        count += 1
        took = time.monotonic() - begun
        if took >= seconds:
            break
    bytes_a_second = (received(hub) - before) / took
    stream.close()
    return bytes_a_second, count / took, len(row.values)


def main():
    words = sys.argv[1:]
    hub = words[0] if words else "http://127.0.0.1:7070"
    seconds = float(words[1]) if len(words) > 1 else 10.0

    wait_until_calm(hub)
    before = received(hub)
    time.sleep(seconds)
    idle = (received(hub) - before) / seconds
    print(f"nobody reads            {idle:12,.0f} B/s")
    # The means first: what is left of a lane after its reader must not count for them.
    means, often, series = rate_of(hub, seconds, each="mean 1s", every="1s")
    print(f"means over 1 s          {means:12,.0f} B/s   {often:6.1f} rows/s of {series} series")
    raw, often, series = rate_of(hub, seconds)
    print(f"every row at 100 Hz     {raw:12,.0f} B/s   {often:6.1f} rows/s of {series} series")
    saved = 1 - (means - idle) / (raw - idle)
    print(f"saved                   {100 * saved:12.1f} %")


main()
