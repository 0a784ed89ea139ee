// A past track: one drawn quantity between two times, in as many columns as a plot has. Samples that share a column become its mean,
// lowest and highest; others keep their own time. Of the samples outside, it keeps the one before and the one after, so that lines
// lead in and out. It refuses samples that go back in time.

import { BUCKETS, marginOfBoth } from "./track.js";

/** A column for each bucket, one that begins at the right edge, and the two samples outside. */
const SAMPLES_MAX = BUCKETS + 3;

export class PastTrack {
  /** Of the time from `from` to `to` (seconds). */
  constructor(from, to) {
    this.from = from;
    this.to = to;
    this.step = (to - from) / BUCKETS;
    this.length = 0;
    this.time = new Float64Array(SAMPLES_MAX);
    /** The first and the last time that a sample speaks of. */
    this.begin = new Float64Array(SAMPLES_MAX);
    this.end = new Float64Array(SAMPLES_MAX);
    this.count = new Float64Array(SAMPLES_MAX);
    this.mean = new Float64Array(SAMPLES_MAX);
    this.low = new Float64Array(SAMPLES_MAX);
    this.high = new Float64Array(SAMPLES_MAX);
    this.broken = new Uint8Array(SAMPLES_MAX);
    /** How far the truth may lie above or below each mean; null: no sample had a margin. */
    this.margin = null;
    this.isBroken = true;
    /** How many values it was given within its time. */
    this.given = 0;
    /** The newest value before `to`, NaN when it is unknown. */
    this.last = NaN;
    this.isFull = false;
  }

  /** A value at `time`, or what a longer time had: mean, lowest, highest, and the margin of the mean. It is joined to the one before unless a gap was declared. */
  push(time, value, low = value, high = value, margin = 0) {
    if (this.isFull || (this.length > 0 && time < this.end[this.length - 1])) return;
    const broken = this.isBroken;
    this.isBroken = false;
    if (time < this.from) {
      // Only the last one before is kept.
      this.length = 0;
      return this.open(time, value, low, high, broken, margin);
    }
    if (time > this.to) {
      this.isFull = true;
      return this.open(time, value, low, high, broken, margin);
    }
    this.last = value;
    this.given++;
    const at = this.length - 1;
    // A gap within a column cannot be seen.
    if (at < 0 || this.column(this.end[at]) !== this.column(time)) return this.open(time, value, low, high, broken, margin);
    this.time[at] = this.from + (this.column(time) + 0.5) * this.step;
    this.end[at] = time;
    this.mean[at] += (value - this.mean[at]) / ++this.count[at];
    this.low[at] = Math.min(this.low[at], low);
    this.high[at] = Math.max(this.high[at], high);
    if (this.margin) this.margin[at] = marginOfBoth(this.margin[at], margin);
  }

  /** Nothing is known from here on. */
  gap() {
    this.isBroken = true;
    if (!this.isFull) this.last = NaN;
  }

  column(time) {
    return Math.floor((time - this.from) / this.step);
  }

  open(time, value, low, high, broken, margin) {
    const at = this.length++;
    this.time[at] = this.begin[at] = this.end[at] = time;
    this.count[at] = 1;
    this.mean[at] = value;
    this.low[at] = low;
    this.high[at] = high;
    this.broken[at] = broken ? 1 : 0;
    if (margin > 0) this.margin ??= new Float64Array(SAMPLES_MAX);
    if (this.margin) this.margin[at] = margin;
  }

  /** Fills `points` with all there is; places are counted in columns from the left edge. */
  collect(points) {
    const n = Math.min(this.length, points.bucket.length);
    for (let i = 0; i < n; i++) {
      points.bucket[i] = (this.time[i] - this.from) / this.step - 0.5;
      points.mean[i] = this.mean[i];
      points.low[i] = this.low[i];
      points.high[i] = this.high[i];
      points.broken[i] = this.broken[i];
    }
    points.length = n;
    points.hasMargins = this.margin !== null;
    if (points.hasMargins) points.margin.set(this.margin.subarray(0, n));
  }

  /** The sample that speaks of `time`: the one there, or the next one that its line leads to; -1: nothing is known. */
  sampleAt(time) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] < time) low = middle + 1;
      else high = middle;
    }
    if (low === this.length) return this.length > 0 && time - this.end[this.length - 1] <= this.step ? this.length - 1 : -1;
    return this.broken[low] && time < this.begin[low] - this.step ? -1 : low;
  }

  /** The mean at a time; NaN: unknown. */
  at(time) {
    const i = this.sampleAt(time);
    return i < 0 ? NaN : this.mean[i];
  }

  /** The lowest and the highest value at a time, where one column has several; else null. */
  rangeAt(time) {
    const i = this.sampleAt(time);
    return i < 0 || this.low[i] === this.high[i] ? null : [this.low[i], this.high[i]];
  }

  /** How far the truth may lie from the mean at a time; 0: it is exact, or unknown. */
  marginAt(time) {
    const i = this.sampleAt(time);
    return i < 0 ? 0 : (this.margin?.[i] ?? 0);
  }

  /** The mean of the whole time; NaN: unknown. */
  average() {
    let [sum, count] = [0, 0];
    for (let i = 0; i < this.length; i++) {
      if (this.time[i] < this.from || this.time[i] > this.to) continue;
      sum += this.mean[i] * this.count[i];
      count += this.count[i];
    }
    return sum / count;
  }

  /** How high a scale must reach so that nothing is cut off: here nobody waits for the next peak. With `sign` -1: how deep. */
  extent(sign = 1) {
    let most = 0;
    for (let i = 0; i < this.length; i++) most = Math.max(most, sign > 0 ? this.high[i] : -this.low[i]);
    return most;
  }

  /** True when it knows nothing of its time. */
  get isEmpty() {
    return this.given === 0;
  }
}
