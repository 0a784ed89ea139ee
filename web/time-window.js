// The time that all panels show: what comes now, or a window of the past. It remembers the windows before, and refuses to show the
// future.

/** The shortest window: its columns are a tenth of a millisecond. */
export const SPAN_MIN = 0.1;
/** The longest: some years. */
export const SPAN_MAX = 100_000_000;
/** Windows that are remembered for the way back. */
const TRAIL_MAX = 50;
/** A window is another one when it differs by this share of its length. */
const SAME = 1e-4;

export class TimeWindow {
  /** `live()`: {from, to} of what is shown while nothing of the past is. `changed(how)` hears of another window: "step" or "slide". */
  constructor(live, changed) {
    this.live = live;
    this.changed = changed;
    /** {from, to} in seconds since 1970; null: now. */
    this.past = null;
    this.trail = [];
  }

  get shown() {
    return this.past ?? this.live();
  }

  /** Shows a window. `how`: "step" can be gone back; "slide" is a part of a movement; "given" came from outside. */
  show(from, to, how = "step") {
    const now = this.live().to;
    const span = Math.min(SPAN_MAX, Math.max(SPAN_MIN, to - from));
    // Around the middle of what was asked for, but not in the future, which nobody knows, nor before 1970.
    let end = (from + to) / 2 + span / 2;
    // An address may come before the node's time is known.
    if (end > now && how !== "given") end = now;
    if (end - span < 0) end = span;
    if (!Number.isFinite(end)) return;
    const next = { from: end - span, to: end };
    const before = this.past;
    if (before && isSame(before, next)) return;
    if (how === "step") this.remember(before);
    this.past = next;
    this.changed(how);
  }

  /** Remembers where a movement began, so that it is one step. */
  hold() {
    this.remember(this.past);
  }

  remember(window) {
    this.trail.push(window);
    if (this.trail.length > TRAIL_MAX) this.trail.shift();
  }

  /** Makes the window `factor` times as long; what is at `share` of its width stays there. */
  zoom(factor, share = 0.5, how = "step") {
    const { from, to } = this.shown;
    const span = Math.min(SPAN_MAX, Math.max(SPAN_MIN, (to - from) * factor));
    const fixed = from + share * (to - from);
    this.show(fixed - share * span, fixed + (1 - share) * span, how);
  }

  /** Moves the window by a share of its length; to the past is below 0. */
  pan(share, how = "step") {
    const { from, to } = this.shown;
    const by = share * (to - from);
    this.show(from + by, to + by, how);
  }

  /** Back to the window before; without one, to now. */
  back() {
    let before = this.trail.pop() ?? null;
    // A movement that ended where it began is no step.
    while (before && this.past && isSame(this.past, before)) before = this.trail.pop() ?? null;
    this.past = before;
    this.changed("step");
  }

  /** Now again. */
  goLive(how = "step") {
    if (!this.past) return;
    this.past = null;
    this.trail = [];
    this.changed(how);
  }
}

function isSame(a, b) {
  const close = (b.to - b.from) * SAME;
  return Math.abs(a.from - b.from) < close && Math.abs(a.to - b.to) < close;
}
