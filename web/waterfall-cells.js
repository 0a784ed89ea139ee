// The numbers of the waterfall: a ring of the last steps for every node, in fixed memory. A cell has a number or says
// why it has none; nothing is unknown by being 0. It refuses to draw.

/** Cells in all: 2,048 steps of 2,048 nodes, or 1,024 of 4,096; 38 MB with their picture. */
const CELLS_MAX = 1 << 22;
/** Nodes in all: more rows than that have no pixel each on any screen. */
export const ROWS_MAX = 4_096;
/** Steps of each: as many as a screen has pixels side by side. A power of two, so that an index is one mask. */
const COLUMNS_MAX = 2_048;
/** The picture goes on so long (s) after the newest row, so that silence is seen... */
const LAG_SECONDS = 0.5;
/** ...and after as many steps at least: the rows of the last one are under way. */
const LAG_STEPS = 2;
/** A row that is as much (s) ahead of the hub's clock, or more, has the time of a wrong clock. */
const AHEAD_SECONDS = 1;

/** What a cell is. Those from DOWN on are nodes that were not there. */
export const [NO_ROW, KNOWN, UNKNOWN, NOT_RECEIVED, DOWN, LEFT, MISSING] = [0, 1, 2, 3, 4, 5, 6];
/** The words for them. */
export const CELL_WORDS = ["no row", "", "unknown", "not received", "down", "left", "missing"];

export class WaterfallCells {
  constructor() {
    this.begin([], 1e9);
    /** Whether steps come; those that pass while they do not are none that a node failed to send. */
    this.following = false;
  }

  /** Another list of nodes or another period: at the same period, nodes that stay keep their rows. */
  begin(names, periodNs) {
    this.following = false;
    if (this.names && periodNs === this.periodNs && names.length === this.names.length && names.every((name, at) => name === this.names[at])) return;
    const before = periodNs === this.periodNs && this.edge >= 0 ? { ...this } : null;
    this.forget(names, periodNs);
    if (before) this.keep(before);
  }

  forget(names, periodNs) {
    this.names = names;
    this.periodNs = periodNs;
    this.count = Math.min(names.length, ROWS_MAX);
    this.columns = columnsFor(this.count);
    this.mask = this.columns - 1;
    this.values = new Float32Array(this.count * this.columns);
    this.states = new Uint8Array(this.count * this.columns);
    /** Who is not there: the state of a cell of theirs, else NO_ROW. */
    this.away = new Uint8Array(this.count);
    /** The newest number of each node, and its step. */
    this.newest = new Float64Array(this.count).fill(NaN);
    this.heard = new Float64Array(this.count).fill(-Infinity);
    /** Nodes whose rows have times that cannot be. */
    this.astray = new Set();
    /** The newest step; -1: there is none yet. */
    this.edge = -1;
    /** The oldest step that there is. */
    this.first = 0;
    /** The oldest step that has changed since `seen` was called. */
    this.changed = Infinity;
  }

  /** Takes over the rows of nodes that are still there; those of others were not received. */
  keep(before) {
    this.edge = before.edge;
    this.first = Math.max(before.first, this.edge - this.columns + 1);
    this.states.fill(NOT_RECEIVED);
    const places = new Map(before.names.slice(0, before.count).map((name, at) => [name, at]));
    for (let at = 0; at < this.count; at++) {
      const old = places.get(this.names[at]);
      if (old === undefined) continue;
      this.newest[at] = before.newest[old];
      this.heard[at] = before.heard[old];
      for (let step = this.first; step <= this.edge; step++) {
        const from = old * before.columns + (step & before.mask);
        const to = at * this.columns + (step & this.mask);
        this.states[to] = before.states[from];
        this.values[to] = before.values[from];
      }
    }
    this.changed = this.first;
  }

  get periodSeconds() {
    return this.periodNs / 1e9;
  }

  takeAway({ down, left, missing }) {
    this.away.fill(NO_ROW);
    for (const [places, state] of [[down, DOWN], [left, LEFT], [missing, MISSING]]) {
      for (const at of places) if (at < this.count) this.away[at] = state;
    }
  }

  /** Takes an event `steps` of the server. */
  take({ now, steps }) {
    const lag = Math.max(LAG_STEPS, Math.ceil(LAG_SECONDS / this.periodSeconds));
    const limit = now + Math.max(1, Math.ceil(AHEAD_SECONDS / this.periodSeconds));
    const newest = steps.reduce((edge, { step }) => (step <= limit ? Math.max(edge, step) : edge), now - lag);
    // The first steps may begin with what the server remembers.
    const oldest = this.edge < 0 ? steps.reduce((first, { step }) => Math.min(first, step), newest) : newest;
    this.advance(newest, oldest);
    for (const { step, runs } of steps) {
      for (const [start, ...numbers] of runs) numbers.forEach((value, i) => this.put(step, start + i, value));
    }
  }

  /** Goes on to `edge`: the cells of the steps between have no row yet. The first time it begins at `oldest`. */
  advance(edge, oldest = edge) {
    if (edge <= this.edge) return;
    const { columns, mask, states, away, following } = this;
    const isFirst = this.edge < 0;
    const from = Math.max(isFirst ? oldest : this.edge + 1, edge - columns + 1);
    for (let at = 0; at < this.count; at++) {
      for (let step = from; step <= edge; step++) states[at * columns + (step & mask)] = following || step === edge ? away[at] : NOT_RECEIVED;
    }
    if (isFirst) this.first = from;
    this.changed = Math.min(this.changed, from);
    this.edge = edge;
    this.first = Math.max(this.first, edge - columns + 1);
    this.following = true;
  }

  put(step, at, value) {
    if (at >= this.count) return;
    if (step > this.edge || step <= this.edge - this.columns) {
      this.astray.add(at);
      return;
    }
    this.astray.delete(at);
    // A row from before the first step: its place is older than the picture.
    if (step < this.first) return;
    const cell = at * this.columns + (step & this.mask);
    this.states[cell] = value === null ? UNKNOWN : KNOWN;
    this.values[cell] = value ?? NaN;
    this.changed = Math.min(this.changed, step);
    if (step < this.heard[at]) return;
    this.heard[at] = step;
    this.newest[at] = value ?? NaN;
  }

  /** State and number of a cell. */
  cell(at, step) {
    if (step < this.first || step > this.edge) return { state: NOT_RECEIVED, value: NaN };
    const cell = at * this.columns + (step & this.mask);
    const state = this.states[cell];
    return { state, value: state === KNOWN ? this.values[cell] : NaN };
  }

  /** The newest number of a node, while it is not older than `steps`. */
  current(at, steps) {
    return this.away[at] === NO_ROW && this.edge - this.heard[at] <= steps ? this.newest[at] : NaN;
  }

  /** The mean of a node's numbers over the last `steps`; NaN: there is none. */
  mean(at, steps) {
    let [sum, known] = [0, 0];
    for (let step = Math.max(this.first, this.edge - steps + 1); step <= this.edge; step++) {
      const cell = at * this.columns + (step & this.mask);
      if (this.states[cell] !== KNOWN) continue;
      sum += this.values[cell];
      known++;
    }
    return known > 0 ? sum / known : NaN;
  }

  /** The oldest step that has changed since the last call; Infinity: none has. */
  seen() {
    const { changed } = this;
    this.changed = Infinity;
    return changed;
  }
}

/** Steps that fit: the largest power of two. */
function columnsFor(rows) {
  let columns = COLUMNS_MAX;
  while (columns * rows > CELLS_MAX) columns /= 2;
  return columns;
}
