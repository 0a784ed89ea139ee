// When a window is asked for: once it has stood still, and the present one now and then. It refuses to ask.

export class WindowWatch {
  /** `still`: a window that moves is due when it has stood still for this long (ms); `again`: the present one, and what failed, are due as often. */
  constructor(still, again) {
    Object.assign(this, { still, again });
    this.asked = this.seen = "";
    this.askedAt = this.seenAt = -Infinity;
  }

  /** Whether this window is due. A window of the past does not change: it is asked for once. */
  isDue(window, isPast, hasFailed) {
    const now = performance.now();
    if (window !== this.seen) [this.seen, this.seenAt] = [window, now];
    const isWanted = window !== this.asked || ((!isPast || hasFailed) && now - this.askedAt >= this.again);
    return isWanted && (!isPast || now - this.seenAt >= this.still);
  }

  /** This window was asked for, with or without success. */
  note(window) {
    [this.asked, this.askedAt] = [window, performance.now()];
  }
}
