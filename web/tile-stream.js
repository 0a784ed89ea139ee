// The line that brings the tiles: one number of every node a second, again and again with growing pauses when the
// server is gone. It refuses to keep numbers: its listeners learn when they are no longer true.

/** Pause before trying again: from the first to the longest. */
const RETRY_MS = [500, 1_000, 2_000, 4_000];
/** Tiles come once a second; this much silence means that nobody is there any more. */
const SILENCE_MS = 8_000;

export class TileStream {
  /**
   * `on` hears nodes({unit, nodes}), tiles({v, down, left, missing}), notice(data) and state("connecting" | "live" | "waiting", reason);
   * of steps away({down, left, missing}) and steps({now, steps}) in place of tiles.
   */
  constructor(on) {
    this.on = on;
    this.address = "";
    this.source = null;
    this.failures = 0;
  }

  /** Asks for other numbers. */
  open(address) {
    this.address = address;
    this.close();
    this.on.state("connecting");
    const source = new EventSource(address);
    this.source = source;
    this.guard();
    const heard = (name, then) =>
      source.addEventListener(name, (event) => {
        if (source !== this.source) return;
        this.guard();
        then(JSON.parse(event.data));
      });
    heard("nodes", (data) => this.on.nodes(data));
    heard("notice", (data) => this.on.notice(data));
    heard("away", (data) => this.on.away?.(data));
    for (const name of ["tiles", "steps"]) {
      heard(name, (data) => {
        this.failures = 0;
        this.on[name](data);
        // Whoever heard it may have closed the stream.
        if (source === this.source) this.on.state("live");
      });
    }
    heard("dropped", ({ error }) => this.retry(error));
    source.onerror = () => {
      if (source === this.source) this.retry("the server closed the stream or cannot be reached");
    };
  }

  close() {
    clearTimeout(this.watch);
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  guard() {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => this.retry("the stream fell silent"), SILENCE_MS);
  }

  retry(reason) {
    this.close();
    const pause = RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)];
    this.on.state("waiting", reason);
    if (this.failures === 1) this.askWhy();
    this.timer = setTimeout(() => this.open(this.address), pause);
  }

  /** A browser does not tell what a stream was refused for: asks once more, and reads the sentence. */
  async askWhy() {
    const { address } = this;
    const ended = new AbortController();
    try {
      const response = await fetch(address, { signal: ended.signal });
      const why = response.ok ? "" : (await response.json()).error;
      if (why && !this.source && address === this.address) this.on.state("waiting", why);
    } catch {
      // It cannot be reached, which is said already.
    } finally {
      ended.abort();
    }
  }
}
