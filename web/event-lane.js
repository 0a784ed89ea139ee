// The lane of events below the time bar, and their thin marks in the plots. Both are places that are laid out once and then shifted, so
// that a frame costs one style each. It refuses to ask for events.

import { KINDS, marksOf, wordsOfMark } from "./event-list.js";
import { element, visible } from "./element.js";

const SVG = "http://www.w3.org/2000/svg";
/** A place that has moved by this share of its width is laid out again: its right end has marks only up to there. */
const FAR = 0.5;
/** Marks of one plot. */
const PLOT_MARKS_MAX = 128;
/** A window around an event: this many times as long as the event, and at least this many seconds. */
const AROUND = 3;
const AROUND_SECONDS_MIN = 60;

/** Something that is laid out for one window and shows others by shifting. */
class Place {
  constructor(root) {
    this.root = root;
    this.from = this.span = NaN;
    this.shift = "";
  }

  /** True if it has to be laid out for this window. */
  needs(from, to) {
    return !(Math.abs(to - from - this.span) < this.span * 1e-6 && Math.abs(from - this.from) < FAR * this.span);
  }

  lay(from, to) {
    this.from = from;
    this.span = to - from;
    this.move(from);
  }

  move(from) {
    const shift = `translateX(${((100 * (this.from - from)) / this.span).toFixed(3)}%)`;
    if (shift !== this.shift) this.root.style.transform = this.shift = shift;
  }
}

export class EventLane {
  /** `time`: the TimeWindow, `panels()`: the plots that are seen. */
  constructor(root, time, panels) {
    Object.assign(this, { time, panels });
    this.list = [];
    this.version = 0;
    this.words = element("p", { classes: "events-words", text: "Events: asking…" });
    this.spans = element("div", { classes: "lane-place" });
    this.marks = element("div", { classes: "lane-place", role: "toolbar", "aria-label": "Events" });
    this.tip = element("output", { classes: "lane-tip", hidden: "" });
    const moves = element("div", { classes: "lane-moves" }, this.spans, this.marks);
    this.lane = element("div", { classes: "lane" }, moves, this.tip);
    root.append(this.words, this.lane);
    /** Of the lane, in CSS pixels: to read it in each frame would have the page laid out each time. */
    this.width = 0;
    this.resized = new ResizeObserver(([{ contentRect }]) => (this.width = contentRect.width));
    this.resized.observe(this.lane);
    this.place = new Place(this.marks);
    this.spanPlace = new Place(this.spans);
    this.laid = "";
    /** Of each plot its place, and for what it was laid out. */
    this.plots = new WeakMap();
    this.lane.addEventListener("keydown", (event) => this.key(event));
    this.lane.addEventListener("pointerover", ({ target }) => this.tell(target.closest?.(".lane-mark")));
    this.lane.addEventListener("pointerleave", () => this.tell(null));
    this.lane.addEventListener("focusin", ({ target }) => this.tell(target));
    this.lane.addEventListener("focusout", () => this.tell(null));
  }

  close() {
    this.resized.disconnect();
  }

  /** Other events. */
  take(list) {
    const known = JSON.stringify(list);
    // What is pointed at stays.
    if (known === this.known) return;
    this.known = known;
    this.list = list;
    this.version++;
  }

  say(text) {
    const shown = visible(text);
    if (this.words.textContent !== shown) this.words.textContent = this.words.title = shown;
  }

  /** Shows the window of now, once a frame. */
  draw(now) {
    const { from, to } = this.time.shown;
    const { width } = this;
    if (!(to > from) || width === 0) return;
    this.now = now;
    const laid = `${this.version}|${width}`;
    if (laid !== this.laid || this.place.needs(from, to)) {
      this.laid = laid;
      this.layOut(from, to, width);
    }
    this.place.move(from);
    this.spanPlace.move(from);
    for (const panel of this.panels()) this.drawPlot(panel, from, to);
  }

  layOut(from, to, width) {
    this.place.lay(from, to);
    this.spanPlace.lay(from, to);
    const focused = this.marks.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    // A live window goes on to the right: what comes there is laid out already.
    const ahead = to + FAR * (to - from);
    this.shown = marksOf(this.list, from, ahead, (width * (ahead - from)) / (to - from)).map((mark) => ({ ...mark, share: (mark.share * (ahead - from)) / (to - from) }));
    this.spans.replaceChildren(...this.bars(from, to, "lane-span"));
    this.marks.replaceChildren(...this.shown.map((mark, at) => this.button(mark, at)));
    const button = focused !== null && [...this.marks.children].find(({ dataset }) => dataset.key === focused);
    if (button) button.focus();
    else this.tell(null);
  }

  /** What lasts, as bars. */
  bars(from, to, classes) {
    const share = (time) => (time - from) / (to - from);
    const lasting = this.list.filter((event) => event.until > event.from && event.from <= to && event.until >= from);
    return lasting.slice(-PLOT_MARKS_MAX).map((event) => {
      const left = Math.max(-1, share(event.from));
      const bar = element("i", { classes, "data-kind": event.kind });
      bar.style.left = `${100 * left}%`;
      // What goes on goes on to the right of the window, too.
      bar.style.width = `${100 * (Math.min(1 + FAR, share(event.until)) - left)}%`;
      return bar;
    });
  }

  button(mark, at) {
    const svg = document.createElementNS(SVG, "svg");
    const path = document.createElementNS(SVG, "path");
    svg.setAttribute("viewBox", "0 0 12 12");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", KINDS[mark.kind].sign);
    svg.append(path);
    const count = mark.events.length > 1 ? [String(mark.events.length)] : [];
    const words = wordsOfMark(mark, this.now);
    const button = element("button", { type: "button", classes: "lane-mark", "data-kind": mark.kind, "data-key": `${mark.kind}${mark.events[0].t}`, tabindex: at === 0 ? "0" : "-1" }, svg, ...count);
    button.setAttribute("aria-label", visible(words.replaceAll("\n", "; ")));
    button.style.left = `${100 * mark.share}%`;
    button.addEventListener("click", () => this.goTo(mark));
    return button;
  }

  /** The words of a mark, beside it. */
  tell(button) {
    const mark = button && this.shown?.[[...this.marks.children].indexOf(button)];
    this.tip.hidden = !mark;
    if (!mark) return;
    this.tip.textContent = wordsOfMark(mark, this.now).split("\n").map(visible).join("\n");
    const [lane, box] = [this.lane, button].map((part) => part.getBoundingClientRect());
    const middle = box.left + box.width / 2 - lane.left;
    this.tip.style.left = `${Math.max(0, Math.min(lane.width - this.tip.offsetWidth, middle - this.tip.offsetWidth / 2))}px`;
  }

  /** Shows the time around the events of a mark. */
  goTo({ events }) {
    const { to: now } = this.time.live();
    const from = Math.min(...events.map((event) => event.from));
    const until = Math.max(...events.map((event) => Math.min(event.until, now)));
    const span = Math.max(AROUND_SECONDS_MIN, AROUND * (until - from));
    const middle = (from + until) / 2;
    this.time.show(middle - span / 2, middle + span / 2);
  }

  key(event) {
    const buttons = [...this.marks.children];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "Escape") this.tell(null);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = buttons[Math.min(buttons.length - 1, Math.max(0, to))];
    for (const button of buttons) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  }

  drawPlot(panel, from, to) {
    const known = this.plots.get(panel.frame);
    if (this.list.length === 0 && !known) return;
    const plot = known ?? this.addPlot(panel.frame);
    if (plot.version !== this.version || plot.place.needs(from, to)) {
      plot.version = this.version;
      plot.place.lay(from, to);
      plot.place.root.replaceChildren(...this.bars(from, to, "plot-span"), ...this.lines(from, to));
    }
    plot.place.move(from);
  }

  addPlot(frame) {
    const root = element("div", { classes: "plot-marks", "aria-hidden": "true" });
    frame.append(root);
    const plot = { place: new Place(root), version: -1 };
    this.plots.set(frame, plot);
    return plot;
  }

  lines(from, to) {
    const seen = this.list.filter((event) => event.from >= from && event.from <= to + FAR * (to - from));
    return seen.slice(-PLOT_MARKS_MAX).map((event) => {
      const line = element("i", { classes: "plot-mark", "data-kind": event.kind });
      line.style.left = `${(100 * (event.from - from)) / (to - from)}%`;
      return line;
    });
  }
}
