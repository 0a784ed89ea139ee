// The overview: one quantity over all the time that the server still has, with the shown window as a handle that can be moved and
// resized by mouse, finger and keys. It refuses to guess how far the past goes: the server is asked.

import { askLines } from "./ask.js";
import { busyFeed } from "./board.js";
import { Computed, Gauge, Rate } from "./feeds.js";
import { exactText, windowText } from "./moment.js";
import { PastRows, PastTable } from "./past-rows.js";
import { PastTrack } from "./past-track.js";
import { Plot } from "./plot.js";
import { Samples } from "./samples.js";
import { marksOf, TimeAxis } from "./time-axis.js";
import { SAME } from "./time-bar.js";
import { percent, perSecond, plain } from "./units.js";

/** Points that are asked for, at most. */
const POINTS = 300;
/** A point is never shorter (seconds): most nodes have a row a second, and a point without a row is a gap. */
const POINT_SECONDS_MIN = 2;
/** The present end is asked for again after this number of points, at least RENEW_MS_MIN and at most RENEW_MS_MAX later. */
const RENEW_POINTS = 2;
const RENEW_MS_MIN = 30_000;
const RENEW_MS_MAX = 600_000;
/** Live rows may come before those that are kept. */
const START_MS = 1_500;
/** The strip is drawn again this often while it goes on to now. */
const REDRAW_MS = 1_000;
/** A key moves by this share of the strip, with Shift ten times as far. */
const KEY_STEP = 0.005;
/** The handle is never narrower (CSS pixels), so that it can be held. */
const HANDLE_MIN = 14;
/** A past shorter than this (seconds) is no past yet. */
const SPAN_MIN = 10;

const pressure = (resource) => ({
  id: `${resource}-pressure`,
  label: `${{ cpu: "CPU", memory: "Memory", io: "I/O" }[resource]} pressure`,
  make: (track) => new Gauge(`pressure.${resource}.some.avg10`, undefined, track),
  scale: { least: 1 },
  format: percent,
});

/** What can be shown: `make` makes the feed of a track. */
const MEASURES = [
  { id: "cpu", label: "CPU busy", make: busyFeed, scale: { fixed: 100 }, format: percent },
  { id: "load", label: "Load, 1 min", make: (track) => new Gauge("load.1m", undefined, track), scale: { least: 1 }, format: plain },
  {
    id: "memory",
    label: "Memory used",
    make: (track) => new Computed(["mem.total", "mem.available"], ([total, available]) => (100 * (total - available)) / total, track),
    scale: { fixed: 100 },
    format: percent,
  },
  { id: "running", label: "Running tasks", make: (track) => new Gauge("tasks.running", undefined, track), scale: { least: 1 }, format: plain },
  { id: "switches", label: "Context switches", make: (track) => new Rate("kernel.context_switches", undefined, 0, track), scale: { least: 10 }, format: perSecond },
  pressure("cpu"),
  pressure("memory"),
  pressure("io"),
];

export class Overview {
  /**
   * `time`: the TimeWindow. `on` hears settled(): a movement has ended, and begins(time): when the past begins, 0 if that is not known. isPaused(): the page
   * asks for nothing.
   */
  constructor(root, node, time, signal, on) {
    this.node = node;
    this.time = time;
    this.on = on;
    this.signal = signal;
    this.root = root;
    this.strip = root.querySelector(".strip");
    this.window = root.querySelector(".strip-window");
    this.note = root.querySelector(".strip-note");
    this.end = root.querySelector(".strip-why");
    this.select = root.querySelector("#overviewed");
    this.axis = new TimeAxis();
    this.strip.after(this.axis.root);
    signal.addEventListener("abort", () => this.close());
    this.parts = [...root.querySelectorAll("[role=slider]")];
    this.measure = MEASURES[0];
    this.samples = null;
    this.from = NaN;
    this.why = "";
    this.isStarted = false;
    this.timer = 0;
    this.asking = null;
    this.drag = null;
    this.drawnAt = this.describedAt = -Infinity;
    this.select.replaceChildren(...MEASURES.map(({ id, label }) => new Option(label, id)));
    this.select.addEventListener("change", () => this.choose(this.select.value), { signal });
    this.makePlot();
    this.hear(signal);
  }

  makePlot() {
    const { scale, format } = this.measure;
    this.plot = new Plot(this.strip, { style: "lines", series: [{ track: this, colour: 0 }], scale, format, rows: 1 });
  }

  choose(id) {
    this.measure = MEASURES.find((measure) => measure.id === id) ?? MEASURES[0];
    this.samples = null;
    // What all data begin with may be another quantity.
    this.isOther = true;
    this.makePlot();
    this.say("loading…");
    this.ask();
  }

  /** The page has got its first rows: now there is time for the past. */
  start() {
    if (this.isStarted) return;
    this.isStarted = true;
    this.say("loading…");
    // A khz that has just begun has its first row of a second in a moment. Who asked for a time of the past waits for nothing.
    this.timer = setTimeout(() => this.ask(), this.time.past ? 0 : START_MS);
  }

  close() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.axis.root.remove();
    for (const canvas of this.strip.querySelectorAll("canvas")) canvas.width = canvas.width;
    this.window.hidden = true;
    this.end.textContent = "";
    this.say("");
  }

  async ask() {
    this.asking?.abort();
    clearTimeout(this.timer);
    const asking = (this.asking = new AbortController());
    try {
      const feed = this.measure.make(() => new Samples());
      const first = new PastRows(await this.fetch(feed, 0, 1, asking.signal));
      if (first.time.length > 0) {
        this.from = this.isOther ? Math.min(this.from || first.since, first.since) : first.since;
        this.isOther = false;
        this.on.begins(this.from);
        const rows = new PastRows(await this.fetch(feed, this.from, this.points(), asking.signal));
        new PastTable([rows]).feed([feed]);
        [this.samples] = feed.tracks;
      } else if (Number.isNaN(this.from)) {
        this.on.begins(0);
      }
      this.say(first.time.length > 0 ? "" : "nothing of this is kept");
    } catch (error) {
      if (asking.signal.aborted) return;
      this.say(error.message);
      // Panels may still get something, or say why not.
      if (Number.isNaN(this.from)) this.on.begins(0);
    }
    this.drawnAt = -Infinity;
    this.wait();
  }

  /** Asks again after a while, unless nobody would see it. */
  wait() {
    const point = (1_000 * (this.to - this.from)) / this.points() || 0;
    const pause = Math.min(RENEW_MS_MAX, Math.max(RENEW_MS_MIN, RENEW_POINTS * point));
    this.timer = setTimeout(() => (document.hidden || this.on.isPaused() ? this.wait() : this.ask()), pause);
  }

  /** How many points the past has room for. */
  points() {
    const span = (this.to || Date.now() / 1_000) - this.from;
    return Math.min(POINTS, Math.max(1, Math.floor(span / POINT_SECONDS_MIN)));
  }

  fetch({ names }, from, points, signal) {
    const query = new URLSearchParams(names.map((name) => ["match", this.node ? `${this.node}:${name}` : name]));
    query.append("from", from);
    query.append("points", points);
    return askLines(`khz/v1/range?${query}`, signal);
  }

  /** Asks once why there is nothing before the beginning: the server says it of a time of which it has nothing. */
  async askWhy() {
    if (this.why || this.isAskingWhy || Number.isNaN(this.from)) return;
    this.isAskingWhy = true;
    const query = new URLSearchParams({ match: this.node ? `${this.node}:load.1m` : "load.1m", newest: "1", from: 0, to: this.from - 1 });
    try {
      await askLines(`khz/v1/range?${query}`, this.signal);
      this.why = "nothing older is stored";
    } catch (error) {
      this.why = error.message;
    }
    this.isAskingWhy = false;
    this.end.textContent = `No data before ${exactText(this.from, this.to - this.from, this.to)}: ${this.why}`;
  }

  say(text) {
    if (this.note.textContent !== text) this.note.textContent = text;
  }

  /** Draws what there is up to `now`, and where the shown window is. */
  draw(now, at) {
    const span = now - this.from;
    if (!this.samples || !(span > SPAN_MIN)) {
      this.window.hidden = true;
      return false;
    }
    this.to = now;
    this.place(at);
    const width = this.strip.clientWidth;
    if (this.width === width && at - this.drawnAt < REDRAW_MS) return false;
    this.drawnAt = at;
    this.width = width;
    const track = new PastTrack(this.from, now);
    this.samples.fill(track);
    const marks = marksOf(this.from, now, width);
    this.axis.show(marks);
    return this.plot.drawPast({ trackOf: () => track, marks });
  }

  repaint() {
    this.plot.refresh();
    this.drawnAt = -Infinity;
  }

  /** Puts the handle where the shown window is. */
  place(now) {
    const { from, to } = this.time.shown;
    if (this.time.past && from < this.from - SAME * (to - from)) this.askWhy();
    const width = this.strip.clientWidth;
    const at = (time) => Math.min(1, Math.max(0, (time - this.from) / (this.to - this.from))) * width;
    const wide = Math.max(HANDLE_MIN, at(to) - at(from));
    const left = Math.min(width - wide, Math.max(0, (at(from) + at(to)) / 2 - wide / 2));
    const placed = `${left.toFixed(1)}|${wide.toFixed(1)}`;
    if (placed !== this.placed) {
      this.placed = placed;
      this.window.style.left = `${left}px`;
      this.window.style.width = `${wide}px`;
    }
    this.window.hidden = false;
    const shown = `${from}|${to}`;
    // The window of now moves all the time: that is not worth a word each frame.
    if (shown === this.described || (!this.time.past && now - this.describedAt < REDRAW_MS)) return;
    this.described = shown;
    this.describedAt = now;
    for (const part of this.parts) {
      const { name, text } = this.valueOf(part, from, to);
      part.setAttribute("aria-valuemin", Math.round(this.from));
      part.setAttribute("aria-valuemax", Math.round(this.to));
      part.setAttribute("aria-valuenow", Math.round(name));
      part.setAttribute("aria-valuetext", text);
    }
  }

  valueOf({ dataset: { part } }, from, to) {
    if (part === "from") return { name: from, text: exactText(from, to - from, this.to) };
    if (part === "to") return { name: to, text: exactText(to, to - from, this.to) };
    return { name: (from + to) / 2, text: windowText(from, to, this.to) };
  }

  hear(signal) {
    const { strip } = this;
    const hear = (name, then) => strip.addEventListener(name, then, { signal });
    hear("pointerdown", (event) => this.press(event));
    hear("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) hear(name, () => this.release());
    hear("keydown", (event) => this.key(event));
  }

  press(event) {
    if (event.button !== 0 || this.window.hidden) return;
    const box = this.strip.getBoundingClientRect();
    const part = event.target.dataset?.part ?? "";
    const { from, to } = this.time.shown;
    this.drag = { part: part || "body", x: event.clientX, box, from, to, isMoving: part === "" };
    this.strip.setPointerCapture(event.pointerId);
    if (part) return;
    this.time.hold();
    // A press beside the handle brings it there.
    const middle = this.from + ((event.clientX - box.left) / box.width) * (this.to - this.from);
    Object.assign(this.drag, { from: middle - (to - from) / 2, to: middle + (to - from) / 2 });
    this.time.show(this.drag.from, this.drag.to, "slide");
  }

  move(event) {
    if (!this.drag) return;
    const { part, x, box, from, to } = this.drag;
    const by = ((event.clientX - x) / box.width) * (this.to - this.from);
    if (by === 0) return;
    if (!this.drag.isMoving) this.time.hold();
    this.drag.isMoving = true;
    this.shift(part, from, to, by);
  }

  shift(part, from, to, by, how = "slide") {
    const inside = (time) => Math.min(this.to, Math.max(this.from, time));
    if (part === "from") return this.time.show(...ordered(inside(from + by), to), how);
    if (part === "to") return this.time.show(...ordered(from, inside(to + by)), how);
    // It stays on the strip, with its length.
    const most = Math.max(0, this.to - to);
    const least = Math.min(0, this.from - from);
    const moved = Math.min(most, Math.max(least, by));
    this.time.show(from + moved, to + moved, how);
  }

  release() {
    const { drag } = this;
    this.drag = null;
    if (drag?.isMoving) this.on.settled();
  }

  key(event) {
    const { part } = event.target.dataset;
    if (!part || event.ctrlKey || event.altKey || event.metaKey) return;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    const ends = { Home: -1, End: 1 }[event.key];
    if (!steps && !ends) return;
    event.preventDefault();
    const { from, to } = this.time.shown;
    const all = this.to - this.from;
    this.shift(part, from, to, ends ? ends * all : steps * (event.shiftKey ? 10 : 1) * KEY_STEP * all, "step");
  }
}

const ordered = (a, b) => [Math.min(a, b), Math.max(a, b)];
