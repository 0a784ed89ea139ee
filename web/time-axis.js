// The time axis below a plot: clock times, and beside them how long ago that was. It refuses to know what the plot shows.

import { clockText, timeMarks } from "./moment.js";

/** CSS pixels that a clock time takes, with some room. */
const MARK_PIXELS = 76;
/** With milliseconds it takes more. */
const FINE_MARK_PIXELS = 96;
const FINE_BELOW = 8;
/** What stands nearer to an edge than this share of the width stays inside, where the width is not known. */
const EDGE = 0.06;
/** A clock time fills this share of the pixels that it takes. */
const FILLED = 0.8;

const ago = (seconds) => (seconds >= 120 ? `−${Number((seconds / 60).toFixed(1))} min` : `−${seconds} s`);

/** Where round times are in a window `width` CSS pixels wide: [{share, text, edge}]; nearer than `edge` to an end a text would be cut in its middle. */
export function marksOf(from, to, width) {
  const pixels = to - from < FINE_BELOW ? FINE_MARK_PIXELS : MARK_PIXELS;
  const most = Math.max(2, Math.floor(width / pixels));
  const edge = width > 0 ? (FILLED * pixels) / 2 / width : EDGE;
  return timeMarks(from, to, most).map(({ time, text }) => ({ share: (time - from) / (to - from), text, edge }));
}

export class TimeAxis {
  constructor() {
    this.root = document.createElement("div");
    this.root.className = "times";
    this.root.setAttribute("aria-hidden", "true");
    this.texts = [];
  }

  /** The window of `span` seconds that ends now, at the clock time `to` (NaN: unknown). */
  showLive(span, to) {
    const clock = (back) => (Number.isNaN(to) ? "" : clockText(to - back, 1));
    this.show([
      { share: 0, text: clock(span), ago: ago(span) },
      { share: 0.5, text: clock(span / 2), ago: ago(span / 2) },
      { share: 1, text: clock(0), ago: "now" },
    ]);
  }

  /** `marks`: [{share of the width, text, ago, edge}]. */
  show(marks) {
    while (this.texts.length < marks.length) this.add();
    while (this.texts.length > marks.length) this.texts.pop().root.remove();
    marks.forEach((mark, i) => {
      const shown = this.texts[i];
      put(shown.clock, mark.text);
      put(shown.ago, mark.ago ?? "");
      const { share, edge = EDGE } = mark;
      if (shown.share === share && shown.edge === edge) return;
      Object.assign(shown, { share, edge });
      shown.root.style.left = `${share * 100}%`;
      const aside = share < edge ? 0 : share > 1 - edge ? 100 : 50;
      shown.root.style.transform = `translateX(${-aside}%)`;
    });
  }

  add() {
    const [root, clock, ago] = ["span", "b", "i"].map((tag) => document.createElement(tag));
    const [clockWords, agoWords] = [clock, ago].map((part) => part.appendChild(document.createTextNode("")));
    root.append(clock, ago);
    this.root.append(root);
    this.texts.push({ root, clock: clockWords, ago: agoWords, share: NaN });
  }
}

function put(node, text) {
  if (node.data !== text) node.data = text;
}
