// The beat of the page: one callback an animation frame, and the count of frames that the browser dropped. It
// refuses to run while the page is hidden, and does not count that time as dropped. Others of the same view draw in the same callback.

/** An interval this much longer than a frame means that at least one was not shown. */
const DROPPED_BEYOND = 1.5;
/** Intervals from which the display's own frame time is computed. */
const SAMPLE = 61;

export class Frames {
  /** Calls `draw(now)` every frame until `signal` is aborted. */
  constructor(draw, signal) {
    this.draws = [draw];
    /** Frames in which something was painted. */
    this.drawn = 0;
    /** All frames since the start of counting. */
    this.seen = 0;
    this.dropped = 0;
    this.frameMs = 1000 / 60;
    /** Milliseconds spent in the callback. */
    this.busyMs = 0;
    this.last = NaN;
    this.intervals = [];
    const beat = (now) => {
      if (signal.aborted) return;
      this.count(now);
      const start = performance.now();
      // Each draws, although another one has drawn already.
      if (this.draws.map((draw) => draw(now)).includes(true)) this.drawn++;
      this.busyMs += performance.now() - start;
      requestAnimationFrame(beat);
    };
    document.addEventListener("visibilitychange", () => (this.last = NaN), { signal });
    requestAnimationFrame(beat);
  }

  /** Calls `draw(now)` too. */
  add(draw) {
    this.draws.push(draw);
  }

  count(now) {
    const interval = now - this.last;
    this.last = now;
    if (!(interval > 0)) return;
    this.seen++;
    if (interval > this.frameMs * DROPPED_BEYOND) {
      this.dropped += Math.round(interval / this.frameMs) - 1;
    }
    this.intervals.push(interval);
    if (this.intervals.length === SAMPLE) {
      this.frameMs = this.intervals.sort((a, b) => a - b)[SAMPLE >> 1];
      this.intervals.length = 0;
    }
  }

  /** Starts counting again from 0. */
  reset() {
    this.drawn = this.seen = this.dropped = this.busyMs = 0;
  }
}
