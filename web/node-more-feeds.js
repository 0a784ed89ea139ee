// How long an event took on average: the increase of a counter of seconds divided by that of a counter of events. Where nothing has
// happened, nothing is known: there is a gap, and no 0.

import { PRESENT } from "./table.js";
import { Track } from "./track.js";

/** Over at least this: the kernel counts such time in milliseconds. */
const WINDOW_SECONDS = 1;
/** Rows are aligned to the microsecond, doubles are not. */
const SLACK_SECONDS = 0.002;

export class TimeEach {
  /** `seconds` and `events` are names of counters. */
  constructor(seconds, events, instance, make = () => new Track()) {
    this.names = [seconds, events];
    this.instance = instance;
    this.make = make;
    this.track = make();
    this.tracks = [this.track];
    this.columns = [-1, -1];
    this.forget();
  }

  again(make) {
    return new TimeEach(...this.names, this.instance, make);
  }

  bind(table) {
    this.columns = this.names.map((name) => table.find(name, this.instance));
  }

  take(table, holes) {
    if (holes || this.columns.some((c) => c >= 0 && table.unknown(c))) this.forget();
    if (this.columns.some((c) => c < 0 || table.state[c] !== PRESENT)) return;
    const [seconds, events] = this.columns.map((c) => table.value[c]);
    const isFirst = Number.isNaN(this.time);
    if (!isFirst && table.time - this.time < WINDOW_SECONDS - SLACK_SECONDS) return;
    const [took, count] = [seconds - this.before[0], events - this.before[1]];
    if (took < 0 || count < 0) this.forget();
    else if (!isFirst && count === 0) this.track.gap();
    else if (!isFirst) this.track.push(table.time, took / count);
    this.before = [seconds, events];
    this.time = table.time;
  }

  forget() {
    this.track.gap();
    this.before = [NaN, NaN];
    this.time = NaN;
  }
}
