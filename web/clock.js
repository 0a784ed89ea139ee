// The node's clock as far as rows tell it: the right edge of every plot. It refuses to trust this browser's own
// wall clock, which may be hours off.

/** Rows arrive in batches of up to a sixtieth of a second and are shown this much later, without stutter. */
const DELAY_SECONDS = 0.05;
/** A row later than this is no slow network but a clock that was set. */
const STEP_SECONDS = 3;
/** How fast the estimate forgets its quickest row, seconds a second. */
const DRIFT = 0.002;

export class Clock {
  constructor() {
    this.offset = NaN;
    this.heard = 0;
  }

  /** A row stamped `time` arrived at `now` (milliseconds of performance.now()). */
  hear(time, now) {
    const offset = time - now / 1000;
    const expected = this.offset - ((now - this.heard) / 1000) * DRIFT;
    if (!(Math.abs(offset - expected) < STEP_SECONDS)) this.offset = offset;
    else this.offset = Math.max(expected, offset);
    this.heard = now;
  }

  /** The newest instant to show; NaN before the first row. */
  edge(now) {
    return now / 1000 + this.offset - DELAY_SECONDS;
  }
}
