// Feeds: how columns become tracks. A gauge is copied, a counter becomes a rate, CPU seconds become shares. They
// refuse to guess: a counter that went backwards, an unknown value or a hole in time gives a gap, never a number.

import { FAILED, PRESENT } from "./table.js";
import { Track } from "./track.js";

/** The kernel counts CPU time in ticks of 10 ms: shares over less than ten of them would mostly show rounding. */
const SHARE_WINDOW_SECONDS = 0.1;
/** Each reading is a whole number of ticks, so between two readings up to one more or one less may have passed. */
const TICK_SECONDS = 0.01;
/** Of a counter: that of the kernel where it counts in ticks, else none. */
const tickOf = (name) => (name.startsWith("cpu.") ? TICK_SECONDS : 0);

/** Lets `0.0999999` count as the whole window it is: rows are aligned to the microsecond, doubles are not. */
const SLACK_SECONDS = 0.002;

const liveTrack = () => new Track();

/** A column that feeds one track as it is. Every feed can be made `again` for other tracks, and has the `names` of its metrics. */
export class Gauge {
  constructor(name, instance, make = liveTrack) {
    this.name = name;
    this.names = [name];
    this.instance = instance;
    this.track = make();
    this.tracks = [this.track];
    this.column = -1;
  }

  again(make) {
    return new Gauge(this.name, this.instance, make);
  }

  bind(table) {
    this.column = table.find(this.name, this.instance);
  }

  take(table, holes) {
    const c = this.column;
    if (c < 0) return;
    if (holes) this.track.gap();
    // Of a longer time the table has lowest and highest, too.
    if (table.state[c] === PRESENT) this.track.push(table.time, table.value[c], table.low?.[c], table.high?.[c]);
    else if (table.unknown(c)) this.track.gap();
  }
}

/** A gauge computed from several gauge columns by `compute(values)`; unknown when one of them is. */
export class Computed {
  constructor(names, compute, make = liveTrack) {
    this.names = names;
    this.compute = compute;
    this.track = make();
    this.tracks = [this.track];
    this.columns = [];
    this.values = names.map(() => NaN);
  }

  again(make) {
    return new Computed(this.names, this.compute, make);
  }

  bind(table) {
    this.columns = this.names.map((name) => table.find(name));
  }

  take(table, holes) {
    if (holes) this.track.gap();
    for (let i = 0; i < this.columns.length; i++) {
      const c = this.columns[i];
      if (c < 0) return;
      if (table.unknown(c)) return this.track.gap();
      if (table.state[c] !== PRESENT) return;
      this.values[i] = table.value[c];
    }
    this.track.push(table.time, this.compute(this.values));
  }
}

/** Increase of a counter per second, over at least `window` seconds. */
export class Rate {
  constructor(name, instance, window = 0, make = liveTrack) {
    this.name = name;
    this.names = [name];
    this.instance = instance;
    this.window = window;
    this.tick = tickOf(name);
    this.track = make();
    this.tracks = [this.track];
    this.column = -1;
    this.value = NaN;
    this.time = NaN;
    /** The counter as last read. */
    this.total = NaN;
  }

  again(make) {
    return new Rate(this.name, this.instance, this.window, make);
  }

  bind(table) {
    this.column = table.find(this.name, this.instance);
  }

  take(table, holes) {
    const c = this.column;
    if (c < 0) return;
    if (table.unknown(c) || holes) this.forget();
    if (table.state[c] !== PRESENT) return;
    const value = table.value[c];
    const seconds = table.time - this.time;
    this.total = value;
    if (value < this.value) this.forget();
    if (Number.isNaN(this.value)) {
      this.value = value;
      this.time = table.time;
    } else if (seconds > 0 && seconds >= this.window - SLACK_SECONDS) {
      const rate = (value - this.value) / seconds;
      this.track.push(table.time, rate, rate, rate, this.tick / seconds);
      this.value = value;
      this.time = table.time;
    }
  }

  forget() {
    this.track.gap();
    this.value = NaN;
    this.time = NaN;
  }
}

/**
 * Shares of several counters of seconds in their sum, in percent: the modes of `cpu.all.*`, or of one CPU. Where none of them
 * has moved, nobody has counted: no share is known, neither of idling nor of work.
 */
export class Shares {
  /** `shown` are groups of names, a track for each; the sum is over all `names`. */
  constructor(names, shown, instance, make = liveTrack) {
    this.names = names;
    this.shown = shown;
    this.instance = instance;
    this.tracks = shown.map(() => make());
    this.groups = shown.map((group) => group.map((name) => names.indexOf(name)));
    this.before = new Float64Array(names.length).fill(NaN);
    this.time = NaN;
    this.columns = [];
  }

  again(make) {
    return new Shares(this.names, this.shown, this.instance, make);
  }

  bind(table) {
    // A kernel that does not know a mode simply has no such time; the others still share the whole.
    this.columns = this.names.map((name) => table.find(name, this.instance));
  }

  take(table, holes) {
    if (holes) this.forget();
    if (!this.columns.some((c) => c >= 0)) return;
    if (table.time - this.time < SHARE_WINDOW_SECONDS - SLACK_SECONDS) return;
    const first = Number.isNaN(this.time);
    const delta = this.names.map(() => 0);
    let sum = 0;
    let backwards = false;
    for (let i = 0; i < this.columns.length; i++) {
      const c = this.columns[i];
      if (c < 0) continue;
      // Absent means that this kernel does not count such time; failed, that the whole is not known.
      if (table.state[c] === FAILED) backwards = true;
      if (table.state[c] !== PRESENT) continue;
      delta[i] = table.value[c] - this.before[i];
      // A mode whose time ran backwards (iowait may), or that has just appeared, has no share this time.
      if (!(delta[i] >= 0)) backwards = true;
      else sum += delta[i];
      this.before[i] = table.value[c];
    }
    this.time = table.time;
    if (first) return;
    if (backwards || sum <= 0) return this.tracks.forEach((track) => track.gap());
    // A heat map of many CPUs shows no margins, and keeps none.
    const margin = this.instance === undefined ? (100 * TICK_SECONDS) / sum : 0;
    this.groups.forEach((group, g) => {
      let part = 0;
      for (const i of group) part += i < 0 ? 0 : delta[i];
      const share = (100 * part) / sum;
      this.tracks[g].push(table.time, share, share, share, margin);
    });
  }

  forget() {
    this.tracks.forEach((track) => track.gap());
    this.before.fill(NaN);
    this.time = NaN;
  }
}
