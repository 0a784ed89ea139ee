// One panel of one's own: the lines of a pattern or a query as a picture, and the tools that change it. It refuses to know where on the
// page it is, and what time is shown.

import { formatOf, isBinary } from "./measures.js";
import { KINDS, titleOf } from "./own-spec.js";
import { element } from "./element.js";
import { Panel } from "./panel.js";
import { PastTrack } from "./past-track.js";
import { marksOf } from "./time-axis.js";
import { roundUp } from "./units.js";

/** Lines that can be told apart; a heat map has a row for each series. */
const LINES_MAX = 12;
const ROWS_MAX = 256;
const COLOURS = 6;
/** A live scale is looked at this often. */
const SCALE_MS = 500;
/** A legend of more names would be longer than the picture. */
const LABEL_MAX = 60;

export class OwnPanel {
  /**
   * `source`: PatternLines or QueryLines; `live`: what the stream brings of it, or null. `host` has attach(panel) and detach(panel);
   * `on` hears kind(kind), wide(), remove(), grab(event) and key(event) of the handle.
   */
  constructor(spec, source, live, host, on) {
    this.spec = spec;
    this.source = source;
    this.live = live;
    this.host = host;
    this.on = on;
    this.root = element("div", { classes: "own" });
    this.tools = this.buildTools();
    this.panel = null;
    this.shape = null;
    this.picture = null;
    this.liveLines = null;
    this.why = "";
    this.scaledAt = -Infinity;
    this.top = 1;
    this.build([]);
    this.showSpec();
  }

  /** Handle, kind, width, and the way out. */
  buildTools() {
    const title = titleOf(this.spec);
    const button = (text, classes, label) => element("button", { type: "button", classes: `own-tool ${classes}`, text, "aria-label": `${label}: ${title}`, title: label });
    this.handle = button("⠿", "own-handle", "Move with the arrow keys, or drag");
    this.kind = element("select", { classes: "own-kind", "aria-label": `Kind of picture: ${title}` }, ...Object.entries(KINDS).map(([value, text]) => element("option", { value, text })));
    this.width = button("↔", "own-width", "Wide");
    const away = button("×", "own-away", "Remove");
    this.kind.addEventListener("change", () => this.on.kind(this.kind.value));
    this.width.addEventListener("click", () => this.on.wide());
    away.addEventListener("click", () => this.on.remove());
    this.handle.addEventListener("pointerdown", (event) => this.on.grab(event));
    this.handle.addEventListener("keydown", (event) => this.on.key(event));
    return element("div", { classes: "own-tools" }, this.handle, this.kind, this.width, away);
  }

  showSpec() {
    const { kind, wide } = this.spec;
    this.root.classList.toggle("wide", wide);
    this.kind.value = kind;
    this.width.setAttribute("aria-pressed", String(wide));
  }

  /** Another kind or width. */
  change(spec) {
    this.spec = spec;
    this.picture = this.liveLines = null;
    this.showSpec();
  }

  /** Draws what the stream brings; `now`: {edge, tier, ms}. Returns whether it had to. */
  drawLive({ edge, tier, ms }) {
    if (!this.panel.shown) return false;
    const lines = this.source.live(this.live);
    if (lines !== this.liveLines) this.take(lines);
    this.liveLines = lines;
    this.picture = null;
    if (this.panel.heat && ms - this.scaledAt >= SCALE_MS) this.scale(edge, tier, ms);
    this.say(lines.length === 0, { isLoading: !this.source.isNone, why: "", lines });
    return this.panel.picture.draw(edge, tier, ms);
  }

  /** Which value has the highest colour of a heat map. */
  scale(edge, tier, ms) {
    this.scaledAt = ms;
    this.scaleTo(Math.max(0, ...this.lines.map(({ track }) => track?.extent(tier, edge) ?? 0)));
  }

  scaleTo(most) {
    this.top = roundUp(most * 1.02, isBinary(this.lines[0]?.unit));
    if (!this.panel.heat) return;
    this.panel.picture.scaleTo(this.top);
    this.panel.sayScale("0", this.format(this.top));
  }

  /** Draws a window of what the server has, and says what there is to say; returns whether it had to. */
  draw(window, now) {
    if (!this.panel.shown) return false;
    const got = this.source.ask(window, now);
    this.liveLines = null;
    const width = this.panel.frame.clientWidth;
    // While nothing has come, what is known of the window before is still true of its own time.
    if (got.lines.length > 0 || !got.isLoading) this.take(got.lines);
    const known = this.picture;
    const isSame = known && known.id === got.id && known.from === window.from && known.to === window.to && known.width === width;
    if (!isSame) this.picture = this.pictureOf(got, window, width);
    this.say(this.picture.isEmpty, got);
    if (!this.panel.picture.drawPast(this.picture)) return false;
    this.panel.axis.show(this.picture.marks);
    return true;
  }

  /** What the series of a panel are; another text needs another Panel. */
  shapeOf(lines) {
    return JSON.stringify([this.spec.kind, ...lines.map(({ label, unit }) => [label, unit])]);
  }

  /** Other lines: they need another Panel if they are called differently. */
  take(lines) {
    if (this.shapeOf(lines) !== this.shape || lines.some(({ track }, i) => track && this.keys[i] && track !== this.keys[i])) return this.build(lines);
    this.lines = lines.slice(0, this.lines.length);
  }

  build(lines) {
    const { kind } = this.spec;
    // A heat map without rows is no picture.
    const isHeat = kind === "heat" && lines.length > 0;
    const drawn = lines.slice(0, isHeat ? ROWS_MAX : LINES_MAX);
    // What stands for a line in its Panel: the track of the stream, or a key for which the picture of a window knows the values.
    this.keys = drawn.map(({ track }) => track ?? {});
    this.placeOf = new Map(this.keys.map((key, i) => [key, i]));
    const unit = drawn[0]?.unit ?? "";
    this.format = formatOf(unit);
    const series = drawn.map((line, i) => ({
      label: shorten(drawn.length === 1 ? "" : line.label),
      colour: i % COLOURS,
      dashed: i >= COLOURS,
      track: this.keys[i],
      format: formatOf(line.unit),
      gauge: line.gauge ?? true,
    }));
    this.lines = drawn;
    this.shape = this.shapeOf(lines);
    this.more = lines.length - drawn.length;
    const isStack = kind === "stack";
    const scale = isStack ? { exact: () => this.top } : { binary: isBinary(unit), signed: true };
    const plot = { style: isStack ? "stack" : "lines", scale, format: this.format, rows: 4 };
    const panel = new Panel({ title: titleOf(this.spec), series, plot, heat: isHeat, size: isHeat && drawn.length > 96 ? "many" : "tall", rows: { noun: "series", most: "highest" } });
    const hadFocus = this.tools.contains(document.activeElement) ? document.activeElement : null;
    panel.shown = this.panel?.shown ?? false;
    if (this.panel) this.host.detach(this.panel);
    panel.root.querySelector("header").append(this.tools);
    this.root.replaceChildren(panel.root);
    this.panel = panel;
    this.picture = null;
    this.host.attach(panel);
    hadFocus?.focus();
  }

  /** The lines in the columns of the picture. */
  pictureOf({ id }, window, width) {
    const { from, to } = window;
    let tracks = this.lines.map(({ samples }) => {
      const track = new PastTrack(from, to);
      samples?.fill(track);
      return track;
    });
    const own = tracks;
    if (this.spec.kind === "stack") tracks = aligned(tracks, from, to);
    const most = this.spec.kind === "stack" ? highestSum(tracks) : Math.max(0, ...tracks.map((track) => track.extent()));
    this.scaleTo(most);
    const trackOf = (key) => tracks[this.placeOf.get(key)] ?? new PastTrack(from, to);
    return { id, from, to, width, trackOf, ownOf: (key) => own[this.placeOf.get(key)], marks: marksOf(from, to, width), isEmpty: own.every((track) => track.isEmpty) };
  }

  say(isEmpty, { isLoading, why, lines }) {
    /** Why there is no answer; "": there is one. */
    this.why = why;
    this.panel.say(!isEmpty ? "" : why ? "no answer" : isLoading ? "loading…" : "no data");
    const more = this.more > 0 ? `${this.more} more of ${lines.length} series are not drawn` : "";
    const text = [why, more].filter((part) => part).join(" · ");
    if (this.panel.note.textContent !== text) this.panel.note.textContent = text;
  }

  /** The numbers of the legend: at a time, or, where that is NaN, the newest of a live picture and the means of a past one. */
  reader(time, isLive) {
    const of = (key) => this.picture?.ownOf(key);
    if (Number.isNaN(time)) return { value: (key) => (isLive ? of(key)?.last : of(key)?.average()) ?? NaN, range: () => null };
    return { value: (key) => of(key)?.at(time) ?? NaN, range: (key) => of(key)?.rangeAt(time) ?? null, margin: (key) => of(key)?.marginAt(time) ?? 0 };
  }

  /** `streamed`: how the numbers of the stream are read, where it is drawn; `span` and `to`: its window. */
  write(time, isLive, streamed, span, to) {
    if (!this.panel.shown) return;
    const isStreamed = this.liveLines && streamed;
    const { value } = isStreamed ? streamed : this.reader(time, isLive);
    if (isStreamed) this.panel.axis.showLive(span, to);
    this.panel.write(value);
    if (this.lines.length > 0) this.panel.describe(value);
  }

  close() {
    this.live?.stop();
    this.host.detach(this.panel);
    this.root.remove();
  }
}

const shorten = (text) => (text.length > LABEL_MAX ? `${text.slice(0, LABEL_MAX - 1)}…` : text);

/** The highest sum of tracks that have values at the same times. */
function highestSum(tracks) {
  let most = 0;
  for (let i = 0; i < (tracks[0]?.length ?? 0); i++) most = Math.max(most, tracks.reduce((sum, { mean }) => sum + mean[i], 0));
  return most;
}

/**
 * The same tracks with values at the same times, so that they can be stacked. A series without a number at a time is not in the stack
 * then; where none has one, there is a gap.
 */
function aligned(tracks, from, to) {
  const times = new Map();
  for (const track of tracks) for (let i = 0; i < track.length; i++) times.set(track.column(track.time[i]), track.time[i]);
  const fresh = tracks.map(() => new PastTrack(from, to));
  for (const time of [...times.values()].sort((a, b) => a - b)) {
    const values = tracks.map((track) => track.at(time));
    const isKnown = values.some((value) => !Number.isNaN(value));
    fresh.forEach((track, i) => (isKnown ? track.push(time, values[i] || 0) : track.gap()));
  }
  return fresh;
}
