// A track: the recent past of one drawn quantity, in fixed space whatever the rate. It holds buckets (mean,
// lowest, highest) on three time scales, one for each window that the page offers, in rings of typed arrays.
// It refuses to keep single rows and to invent values: a bucket without a sample stays empty.

/** Buckets in a window: about as many as a plot has pixel columns. */
export const BUCKETS = 1000;
/** Slots of a ring: the window and a little more, a power of two so that an index is one mask. */
const SLOTS = 1024;
const MASK = SLOTS - 1;
/** Finest buckets are 10 ms long; the coarser ones whole multiples of that. */
const FINE_PER_SECOND = 100;
const FACTORS = [1, 6, 60];

/** The windows on offer: `span` seconds, shown from the ring number `tier`. */
export const WINDOWS = FACTORS.map((factor, tier) => ({
  tier,
  step: factor / FINE_PER_SECOND,
  span: (factor * BUCKETS) / FINE_PER_SECOND,
}));

/** The bucket of `time` (seconds) on a time scale. */
export const bucketAt = (tier, time) => Math.floor(fineBucket(time) / FACTORS[tier]);
const fineBucket = (time) => Math.floor(time * FINE_PER_SECOND);

/** Peaks above this share of all are cut off at the top of a plot. */
const PEAKS_SHOWN = 0.95;
const peaks = new Float64Array(SLOTS + 1);

/** The margin of the mean over two stretches of time: it is the same tick, over the time of both. */
export const marginOfBoth = (one, other) => (one > 0 && other > 0 ? 1 / (1 / one + 1 / other) : Math.max(one, other));

class Ring {
  constructor() {
    this.head = -1;
    this.count = new Uint16Array(SLOTS);
    this.broken = new Uint8Array(SLOTS);
    this.mean = new Float64Array(SLOTS);
    this.low = new Float64Array(SLOTS);
    this.high = new Float64Array(SLOTS);
    /** How far the truth may lie above or below each mean; null: no sample had a margin. */
    this.margin = null;
  }

  /** Adds a sample to bucket `at`, which is not older than the head. */
  add(at, value, broken, margin) {
    const i = at & MASK;
    if (at > this.head) this.open(at);
    const n = this.count[i];
    if (margin > 0) this.margin ??= new Float64Array(SLOTS);
    if (this.margin) this.margin[i] = n === 0 ? margin : marginOfBoth(this.margin[i], margin);
    if (n === 0) {
      this.mean[i] = this.low[i] = this.high[i] = value;
      this.broken[i] = broken ? 1 : 0;
    } else {
      this.mean[i] += (value - this.mean[i]) / (n + 1);
      if (value < this.low[i]) this.low[i] = value;
      if (value > this.high[i]) this.high[i] = value;
    }
    // 600 samples at most at 1,000 Hz; beyond 65,534 the newest would just weigh a little more.
    if (n < 65_535) this.count[i] = n + 1;
  }

  /** Moves the head to bucket `at` and empties what lies between. */
  open(at) {
    const from = this.head < 0 || at - this.head >= SLOTS ? at - SLOTS + 1 : this.head + 1;
    for (let b = from; b <= at; b++) this.count[b & MASK] = 0;
    this.head = at;
  }
}

export class Track {
  constructor() {
    this.clear();
  }

  /** Forgets everything. */
  clear() {
    this.rings = FACTORS.map(() => new Ring());
    /** The newest value, NaN when it is unknown. */
    this.last = NaN;
    /** When it was sampled; NaN before the first. */
    this.lastTime = NaN;
    this.broken = true;
  }

  /** A value at `time` (seconds), known up to `margin`. It is joined to the one before unless a gap was declared. */
  push(time, value, low = value, high = value, margin = 0) {
    const fine = fineBucket(time);
    if (fine < this.rings[0].head) return;
    for (let tier = 0; tier < FACTORS.length; tier++) {
      this.rings[tier].add(Math.floor(fine / FACTORS[tier]), value, this.broken, margin);
    }
    this.broken = false;
    this.last = value;
    this.lastTime = time;
  }

  /** Nothing is known from here on: the line ends, and a later value starts a new one. */
  gap() {
    this.broken = true;
    this.last = NaN;
  }

  /** The newest bucket with a sample at or before bucket `at`, not more than `reach` back; -1 if none. */
  before(tier, at, reach = SLOTS) {
    const ring = this.rings[tier];
    let b = Math.min(at, ring.head);
    const end = Math.max(ring.head - SLOTS + 1, at - reach);
    for (; b >= end; b--) if (ring.count[b & MASK] > 0) return b;
    return -1;
  }

  /**
   * How high a scale must reach for the window that ends at `edge`: above every mean, and above all but the
   * rarest peaks, since one packet in one millisecond would press everything else flat. With `sign` -1: how deep.
   */
  extent(tier, edge, sign = 1) {
    const ring = this.rings[tier];
    let mean = 0;
    let n = 0;
    for (let b = Math.max(bucketAt(tier, edge) - BUCKETS, ring.head - SLOTS + 1); b <= ring.head; b++) {
      const i = b & MASK;
      if (ring.count[i] === 0) continue;
      mean = Math.max(mean, sign * ring.mean[i]);
      peaks[n++] = sign > 0 ? ring.high[i] : -ring.low[i];
    }
    if (n === 0) return 0;
    const usual = peaks.subarray(0, n).sort()[Math.floor((n - 1) * PEAKS_SHOWN)];
    return Math.max(mean, usual);
  }

  /** The mean of the last second, for a number that can be read; NaN when the newest value is unknown. */
  recent() {
    if (Number.isNaN(this.last)) return NaN;
    const ring = this.rings[0];
    let sum = 0;
    let count = 0;
    for (let b = ring.head; b > ring.head - FINE_PER_SECOND; b--) {
      const i = b & MASK;
      if (ring.count[i] === 0) continue;
      sum += ring.count[i] * ring.mean[i];
      count += ring.count[i];
      if (ring.broken[i]) break;
    }
    return sum / count;
  }

  /** Fills `points` from the bucket before `from` (so that lines join) to `to`. */
  collect(points, tier, from, to) {
    const ring = this.rings[tier];
    const first = this.before(tier, from);
    let b = first < 0 ? from : first;
    b = Math.max(b, ring.head - SLOTS + 1);
    let n = 0;
    for (; b <= Math.min(to, ring.head) && n < SLOTS; b++) {
      const i = b & MASK;
      if (ring.count[i] === 0) continue;
      points.bucket[n] = b;
      points.mean[n] = ring.mean[i];
      points.low[n] = ring.low[i];
      points.high[n] = ring.high[i];
      points.broken[n] = ring.broken[i];
      n++;
    }
    points.length = n;
    points.hasMargins = ring.margin !== null;
    if (points.hasMargins) for (let j = 0; j < n; j++) points.margin[j] = ring.margin[points.bucket[j] & MASK];
  }

  /** Calls `then(time, mean, low, high, broken)` for each bucket that has samples, with the time of its middle. */
  each(tier, then) {
    const ring = this.rings[tier];
    for (let b = ring.head - SLOTS + 1; b <= ring.head; b++) {
      const i = b & MASK;
      if (ring.count[i] > 0) then((b + 0.5) * WINDOWS[tier].step, ring.mean[i], ring.low[i], ring.high[i], ring.broken[i] === 1);
    }
  }

  /** The lowest and the highest value of the bucket at `time`, where it has several; else null. */
  rangeAt(tier, time) {
    const ring = this.rings[tier];
    const b = bucketAt(tier, time);
    const i = b & MASK;
    if (b > ring.head || b <= ring.head - SLOTS || ring.count[i] === 0 || ring.low[i] === ring.high[i]) return null;
    return [ring.low[i], ring.high[i]];
  }

  /** How far the truth may lie from the mean of the bucket at `time`; 0: it is exact, or there is none. */
  marginAt(tier, time) {
    const ring = this.rings[tier];
    const b = bucketAt(tier, time);
    const i = b & MASK;
    return b > ring.head || b <= ring.head - SLOTS || ring.count[i] === 0 ? 0 : (ring.margin?.[i] ?? 0);
  }

  /** The mean shown at `time`: of the bucket there, or the next newer one that its line leads to; else NaN. */
  at(tier, time) {
    const ring = this.rings[tier];
    const want = bucketAt(tier, time);
    for (let b = Math.max(want, ring.head - SLOTS + 1); b <= ring.head; b++) {
      const i = b & MASK;
      if (ring.count[i] === 0) continue;
      return b === want || ring.broken[i] === 0 ? ring.mean[i] : NaN;
    }
    return NaN;
  }
}

/** Scratch for one pass over a track: where its samples are, counted in buckets, and their values. */
export class Points {
  constructor() {
    this.length = 0;
    this.bucket = new Float64Array(SLOTS);
    this.mean = new Float64Array(SLOTS);
    this.low = new Float64Array(SLOTS);
    this.high = new Float64Array(SLOTS);
    this.broken = new Uint8Array(SLOTS);
    this.margin = new Float64Array(SLOTS);
    this.hasMargins = false;
  }

  /** Asks `track`, a live or a past one. */
  collect(track, tier, from, to) {
    track.collect(this, tier, from, to);
    return this;
  }
}
