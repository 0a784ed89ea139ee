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
  }

  /** Takes the numbers of `second`; seconds without numbers are unknown. */
  take(values, second) {
    if (this.count === 0) return;
    const from = this.newest < 0 ? second : Math.max(this.newest + 1, second - PAST_SECONDS + 1);
    for (let at = 0; at < this.count; at++) {
      for (let s = from; s <= second; s++) this.values[at * PAST_SECONDS + (s % PAST_SECONDS)] = s === second ? values[at] : NaN;
    }
    this.newest = Math.max(this.newest, second);
  }

  /** The number of a node `back` seconds before the newest; NaN is unknown. */
  at(node, back) {
    return this.newest < back || this.count === 0 ? NaN : this.values[node * PAST_SECONDS + ((this.newest - back) % PAST_SECONDS)];
  }
}
