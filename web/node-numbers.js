// The numbers of a node's page: legends, the words beside the pointer, and what a screen reader says of the plots. They refuse to
// show as known what is no longer current.

import { exactText, spanText } from "./moment.js";
import { WINDOWS } from "./track.js";

/** Numbers change this often: faster, nobody can read them. */
const NUMBERS_MS = 250;
/** A number is no longer what is now when this many rows, and seconds, passed without it. */
const STALE_PERIODS = 3;
const STALE_SECONDS = 2;
/** Time from which on a distance to now is said in larger units than seconds. */
const LONG_SECONDS = 120;

export class NodeNumbers {
  /** `view`: {board, heading, pointer, time, tier, edge, past, more, shownOnes(), liveWindow()}. */
  constructor(view) {
    this.view = view;
    this.writtenAt = -Infinity;
  }

  /** The next frame writes them. */
  refresh() {
    this.writtenAt = -Infinity;
  }

  /** Writes them, unless it was done just now. */
  writeAt(now) {
    if (now - this.writtenAt >= NUMBERS_MS) this.write(now);
  }

  write(now = performance.now()) {
    const { board, heading, pointer, time, tier } = this.view;
    this.writtenAt = now;
    heading.write(!(board.time < this.since));
    const { from, to } = time.shown;
    const pointed = from + pointer.share * (to - from);
    for (const panel of this.view.shownOnes()) {
      const reader = this.reader(panel, pointed);
      panel.write(reader.value);
      if (!time.past) panel.axis.showLive(WINDOWS[tier].span, to);
      pointer.mark(panel, () => this.pointedText(panel, reader, pointed, to));
    }
    this.view.more?.write(pointed);
  }

  /** What a screen reader hears when it comes to a plot. */
  describe() {
    const { time, pointer } = this.view;
    const { from, to } = time.shown;
    for (const panel of this.view.shownOnes()) {
      const reader = time.past ? this.reader(panel, from + pointer.share * (to - from)) : this.newestReader();
      panel.describe(reader.value);
    }
  }

  /** Before this time (of the board) nothing is known any more. */
  get since() {
    const { board, edge } = this.view;
    return edge - Math.max(STALE_PERIODS * board.period, STALE_SECONDS);
  }

  /** How the legend of a panel reads a track: at a time, or, where that is NaN, what is known now or the mean of the window. */
  reader(panel, time) {
    if (this.view.time.past) return this.view.past?.reader(panel, time) ?? UNKNOWN;
    return this.liveReader(time);
  }

  /** How what the stream has brought is read: at a time, or, where that is NaN, what is known now. */
  liveReader(time) {
    const { board, tier } = this.view;
    if (Number.isNaN(time)) return this.newestReader();
    const at = time - board.offset;
    return { value: (track) => track.at(tier, at), range: (track) => track.rangeAt(tier, at), margin: (track) => track.marginAt(tier, at) };
  }

  /** What is known now. A rate of the last millisecond nobody can read; a gauge is what it is now. */
  newestReader() {
    const { since } = this;
    const newest = (track, gauge) => (track.lastTime < since - (track.slack ?? 0) ? NaN : gauge ? track.last : track.recent());
    return { value: newest, range: () => null };
  }

  /** The words beside the pointer. */
  pointedText(panel, { value, range, margin, before }, time, to) {
    const { pointer } = this.view;
    const isPast = this.view.time.past !== null;
    const span = to - this.view.time.shown.from;
    const words = panel.describeAt(value, pointer.height);
    const now = this.view.liveWindow().to;
    const clock = Number.isNaN(time) ? "" : exactText(time, span, now);
    const back = (isPast ? now : to) - time;
    const ago = isPast && back >= LONG_SECONDS ? `−${spanText(back)}` : `−${back.toFixed(span <= 10 ? 2 : 1)} s`;
    const lines = before ? panel.describeBefore(value, before) : [];
    const open = panel.describeOpen({ range, margin });
    return [[words, clock, ago].filter((part) => part).join(" · "), ...open, ...lines].join("\n");
  }
}

const UNKNOWN = { value: () => NaN, range: () => null };
