// A plot that is a file: the numbers of a chart, drawn, zoomed and read by the code of the page, without a server. `khz plot` writes
// the file; this is where it begins. It refuses to fetch anything.

import { element } from "./element.js";
import { exactText, spanText, windowText } from "./moment.js";
import { Panel } from "./panel.js";
import { PastTrack } from "./past-track.js";
import { Pointer } from "./pointer.js";
import { Samples } from "./samples.js";
import { readColours } from "./theme-colours.js";
import { marksOf } from "./time-axis.js";
import { TimeHands } from "./time-hands.js";
import { TimeWindow } from "./time-window.js";
import { bytes, percent, plain } from "./units.js";

const FORMATS = { bytes, percent, plain };
/** Lines of a panel: as many as there are colours. */
const COLOURS = 6;
const BUTTONS = {
  earlier: { text: "←", label: "Earlier", press: (time) => time.pan(-0.5) },
  later: { text: "→", label: "Later", press: (time) => time.pan(0.5) },
  in: { text: "+", label: "Zoom in", press: (time) => time.zoom(0.5) },
  out: { text: "−", label: "Zoom out", press: (time) => time.zoom(2) },
  back: { text: "↩", label: "Back to the window before", press: (time) => time.back() },
  whole: { text: "All", label: "The whole time", press: (time) => time.goLive() },
};

class PlotPage {
  /**
   * `data`: {title, subtitle, from, seconds, remarks, panels: [{title, axis, scale, series: [{label, at, mean, low, high, broken}]}]}. Without
   * a `from` each panel has a time of its own, and clocks begin at midnight.
   */
  constructor(data) {
    this.isCompared = data.from === null;
    const from = data.from ?? new Date(2001, 0, 1).getTime() / 1_000;
    this.whole = { from, to: from + data.seconds };
    this.time = new TimeWindow(
      () => this.whole,
      () => this.refresh(),
    );
    this.pointer = new Pointer(() => this.write());
    this.hands = new TimeHands(this.time, new AbortController().signal, {
      hold: () => {},
      settled: () => {},
      live: () => this.time.goLive(),
      keys: () => this.help.scrollIntoView(),
      focus: () => (Number.isNaN(this.pointer.share) ? 0.5 : this.pointer.share),
    });
    this.pending = 0;
    this.panels = data.panels.flatMap((panel) => this.panelsOf(panel));
    this.build(data);
    this.resized = new ResizeObserver(() => this.repaint());
    for (const { frame } of this.panels) this.resized.observe(frame);
    this.refresh();
  }

  /** A panel for as many lines as there are colours. */
  panelsOf({ title, axis, scale, series }) {
    const panels = [];
    for (let first = 0; first < series.length; first += COLOURS) {
      const lines = series.slice(first, first + COLOURS).map((line, colour) => ({ label: line.label, colour, track: samplesOf(line, this.whole.from), format: FORMATS[scale] }));
      panels.push(this.panelOf(axis, { title, series: lines, plot: { style: "lines", scale: { signed: true, binary: scale === "bytes" }, format: FORMATS[scale], rows: 4 } }));
    }
    return panels;
  }

  panelOf(axis, what) {
    const panel = new Panel(what);
    panel.ofAxis = axis;
    return panel;
  }

  build({ title, subtitle, remarks }) {
    const theme = element("button", { type: "button", classes: "boxed", "aria-label": "Theme: light or dark", text: "Theme" });
    theme.addEventListener("click", () => window.khzTheme.toggle());
    this.shownTime = element("b", { classes: "timebar-text" });
    this.help = element("p", { classes: "note", text: "Drag in a plot to zoom, drag the time axis or press Shift to move, double-click to go back. Keys: + − ← → Backspace, Home for all; in a plot ← → point at a time." });
    const buttons = Object.values(BUTTONS).map(({ text, label, press }) => {
      const button = element("button", { type: "button", classes: "boxed slim", "aria-label": label, text });
      button.addEventListener("click", () => press(this.time));
      return button;
    });
    document.body.append(
      element("header", { classes: "top" }, element("div", {}, element("h1", { text: title }), element("p", { classes: "note", text: subtitle })), theme),
      element("nav", { classes: "controls", "aria-label": "Controls" }, element("div", { classes: "timebar" }, element("p", { role: "status" }, this.shownTime), element("div", { classes: "timebar-buttons" }, ...buttons))),
      element("main", { classes: "group" }, element("div", { classes: "grid" }, ...this.panels.map(({ root }) => root)), this.help, ...remarks.map((text) => element("p", { classes: "note", text }))),
    );
    for (const panel of this.panels) {
      this.pointer.attach(panel);
      this.hands.attach(panel);
    }
  }

  /** Another window: drawn with the next frame, once however often it is asked. */
  refresh() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  draw() {
    const { from, to } = this.time.shown;
    this.shownTime.textContent = `${windowText(from, to, this.whole.to)} · ${spanText(to - from)}`;
    for (const panel of this.panels) panel.shownTracks = new Map(panel.tracks.map((samples) => [samples, pastTrack(samples, from, to)]));
    if (this.isCompared) this.shareScales();
    for (const panel of this.panels) {
      const tracks = panel.shownTracks;
      const marks = marksOf(from, to, panel.frame.clientWidth);
      panel.picture.drawPast({ trackOf: (samples) => tracks.get(samples), marks });
      panel.axis.show(marks);
      panel.say([...tracks.values()].every((track) => track.isEmpty) ? "no data" : "");
    }
    this.write();
  }

  /** What is compared is drawn to one scale: a panel of each axis reaches as high as the highest of them. */
  shareScales() {
    const highest = new Map();
    for (const { ofAxis, shownTracks } of this.panels) {
      const extents = [...shownTracks.values()].map((track) => Math.max(track.extent(1), track.extent(-1)));
      highest.set(ofAxis, Math.max(highest.get(ofAxis) ?? 0, ...extents));
    }
    for (const { ofAxis, picture } of this.panels) picture.scale.least = highest.get(ofAxis);
  }

  /** The numbers at the pointer, else the means of the window. */
  write() {
    const { from, to } = this.time.shown;
    const { share } = this.pointer;
    const time = from + share * (to - from);
    const isPointed = !Number.isNaN(share);
    for (const panel of this.panels) {
      const of = (samples) => panel.shownTracks?.get(samples);
      const value = (samples) => (isPointed ? of(samples)?.at(time) : of(samples)?.average()) ?? NaN;
      panel.write(value);
      panel.describe(value);
      const range = (samples) => (isPointed ? (of(samples)?.rangeAt(time) ?? null) : null);
      this.pointer.mark(panel, () => [exactText(time, to - from, this.whole.to), ...panel.describeOpen({ range })].join("\n"));
    }
  }

  repaint() {
    for (const panel of this.panels) panel.picture.refresh();
    this.refresh();
  }
}

function samplesOf({ at, mean, low = mean, high = mean, broken }, from) {
  const samples = new Samples();
  const gaps = new Set(broken);
  at.forEach((time, i) => {
    if (gaps.has(i)) samples.gap();
    samples.push(from + time, mean[i], low[i], high[i]);
  });
  return samples;
}

function pastTrack(samples, from, to) {
  const track = new PastTrack(from, to);
  samples.fill(track);
  return track;
}

readColours();
const data = document.querySelector("#plot-data");
if (data) {
  const page = new PlotPage(JSON.parse(data.textContent));
  window.khzPlot = { time: page.time, panels: page.panels };
  window.addEventListener("khz-theme", () => {
    readColours();
    page.repaint();
  });
}
