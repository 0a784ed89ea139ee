// The last minute of every node, for the lines in the tiles: a ring of as many numbers as seconds. It refuses more nodes
// than there can be tiles with a line.

/** Seconds of a line, and numbers of it: tiles come once a second. */
export const PAST_SECONDS = 60;
/** Tiles of more nodes than these have no room for a line. */
export const PAST_NODES_MAX = 1_024;

export class TilePast {
  constructor() {
    this.begin(0);
  }

  /** Another list of nodes: forgets everything. */
  begin(count) {
    this.count = count <= PAST_NODES_MAX ? count : 0;
    this.values = new Float32Array(this.count * PAST_SECONDS).fill(NaN);
    this.newest = -1;
    /** The first second in which the tiles had a number. */
    this.live = Infinity;
  }

  /** Takes the numbers of `second`; seconds without numbers are unknown. */
  take(values, second) {
    if (this.count === 0) return;
    const from = this.newest < 0 ? second : Math.max(this.newest + 1, second - PAST_SECONDS + 1);
    for (let at = 0; at < this.count; at++) {
      for (let s = from; s <= second; s++) this.values[at * PAST_SECONDS + (s % PAST_SECONDS)] = s === second ? values[at] : NaN;
    }
    this.newest = Math.max(this.newest, second);
    if (this.live === Infinity && values.some((value) => !Number.isNaN(value))) this.live = second;
  }

  /** A number from before, where there is none yet. */
  put(node, second, value) {
    if (node >= this.count) return;
    if (this.newest < 0) this.newest = second;
    const back = this.newest - second;
    if (back < 0 || back >= PAST_SECONDS || !Number.isNaN(this.at(node, back))) return;
    this.values[node * PAST_SECONDS + (second % PAST_SECONDS)] = value ?? NaN;
  }

  /** Asks `address` for the minute before the page was opened; `done` is called when it is there. A server that has none is no harm. */
  read(address, names, signal, done) {
    this.source?.close();
    const source = (this.source = new EventSource(address));
    const end = () => source.close();
    let messages = 0;
    signal.addEventListener("abort", end);
    source.onerror = end;
    source.addEventListener("nodes", (event) => {
      const { nodes } = JSON.parse(event.data);
      if (nodes.length !== names.length || nodes.some((name, at) => name !== names[at])) end();
    });
    source.addEventListener("steps", (event) => {
      const { steps } = JSON.parse(event.data);
      if (steps.length === 0) return;
      if (source !== this.source) return end();
      for (const { step, runs } of steps) {
        for (const [start, ...numbers] of runs) numbers.forEach((value, i) => this.put(start + i, step, value));
      }
      done();
      // These numbers come some seconds later than those of the tiles, which begin with the second row where they are rates.
      if (steps.at(-1).step >= this.live || ++messages >= PAST_SECONDS) end();
    });
  }

  /** The number of a node `back` seconds before the newest; NaN is unknown. */
  at(node, back) {
    return this.newest < back || this.count === 0 ? NaN : this.values[node * PAST_SECONDS + ((this.newest - back) % PAST_SECONDS)];
  }
}
