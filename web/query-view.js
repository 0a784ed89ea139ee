// The view of a query: a question in PromQL, asked over a time that ends now, as lines and a table. The address's fragment has
// the question, so that a link to it can be sent. It refuses to know who answers, and to evaluate anything.

import { askPrometheus } from "./ask.js";
import { clockText } from "./moment.js";
import { element, visible } from "./element.js";
import { problemOf, seriesOf, valueAt } from "./query-answer.js";
import { QueryChart } from "./query-chart.js";

/** The times that can be chosen, in seconds. */
export const RANGES = { "5m": 300, "15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "21d": 1_814_400 };
const RANGE_DEFAULT = "1h";
/** Lines that are drawn: as many as the colours tell apart, plain and dashed. */
export const LINES_MAX = 12;
const COLOURS = 6;
/** Rows of the table. */
const ROWS_MAX = 200;
/** A point takes this many CSS pixels. */
const POINT_PIXELS = 2;
/** Points of a line. */
const POINTS_MIN = 60;
const POINTS_MAX = 1_000;
/** Notes of the engine that are shown. */
const NOTES_MAX = 10;

export class QueryView {
  /** `asked`: what the address asks for. `on` hears name(name) and address(hash). */
  constructor(root, asked, on) {
    this.on = on;
    this.root = root;
    this.ended = new AbortController();
    this.running = null;
    /** idle, asking, shown or failed. */
    this.state = "idle";
    this.answer = null;
    this.field = root.querySelector("#question");
    this.range = root.querySelector("#range");
    this.frame = root.querySelector(".frame");
    this.chart = new QueryChart(root.querySelector(".trace"));
    this.cursor = root.querySelector(".cursor");
    const { signal } = this.ended;
    const hear = (target, name, then) => target.addEventListener(name, then, { signal });
    hear(root.querySelector("form"), "submit", (event) => {
      event.preventDefault();
      this.run();
    });
    hear(this.field, "keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.run();
    });
    hear(this.range, "change", () => this.run());
    hear(root.querySelector(".examples"), "click", ({ target }) => {
      if (!target.dataset.example) return;
      this.field.value = target.dataset.example;
      this.run();
    });
    hear(this.frame, "pointermove", (event) => this.point(event.clientX - this.frame.getBoundingClientRect().left));
    hear(this.frame, "pointerleave", () => this.point(NaN));
    this.resized = new ResizeObserver(() => this.repaint());
    this.resized.observe(this.frame);
    on.name("Query");
    this.ask(asked);
  }

  /** Takes everything back: another view follows. */
  close() {
    this.ended.abort();
    this.running?.abort();
    this.resized.disconnect();
    this.clear();
    this.say("");
  }

  /** Asks what an address asks for. */
  ask(asked) {
    this.field.value = asked.get("query") ?? "";
    const range = asked.get("range");
    this.range.value = Object.hasOwn(RANGES, range) ? range : RANGE_DEFAULT;
    if (this.field.value.trim()) this.run();
    else this.field.focus();
  }

  /** Asks; a question that still runs is not wanted any more. */
  async run() {
    const query = this.field.value.trim();
    this.running?.abort();
    this.clear();
    this.on.address(`query=${encodeURIComponent(query)}&range=${this.range.value}`);
    if (!query) {
      this.state = "idle";
      return this.say("");
    }
    const running = (this.running = new AbortController());
    this.state = "asking";
    this.say("asking…");
    const end = Math.floor(Date.now() / 1_000);
    const span = RANGES[this.range.value];
    const points = Math.min(POINTS_MAX, Math.max(POINTS_MIN, Math.floor(this.root.clientWidth / POINT_PIXELS)));
    const step = Math.max(1, Math.ceil(span / points));
    try {
      const asked = { query, start: end - span, end, step };
      const { answer, engine } = await askPrometheus("api/v1/query_range", asked, running.signal);
      if (running.signal.aborted) return;
      this.answer = { ...asked, series: seriesOf(answer.data, step), engine, notes: notesOf(answer) };
      this.state = "shown";
      this.show();
    } catch (error) {
      // Another question follows, or another view.
      if (running.signal.aborted) return;
      this.state = "failed";
      this.say("");
      this.fail(query, error);
    }
  }

  clear() {
    this.answer = null;
    for (const part of this.root.querySelectorAll(".query-problem, .query-notes, .query-result")) part.hidden = true;
    this.root.querySelector("tbody").replaceChildren();
    this.root.querySelector(".legend").replaceChildren();
    this.root.querySelector(".query-notes").replaceChildren();
    this.point(NaN);
  }

  say(text) {
    this.root.querySelector(".query-state").textContent = visible(text);
  }

  fail(query, error) {
    const { text, pointer } = problemOf(query, error.message);
    const problem = this.root.querySelector(".query-problem");
    problem.replaceChildren(element("p", { text }));
    if (pointer) problem.append(element("pre", {}, pointer.split("\n").map(visible).join("\n")));
    problem.hidden = false;
  }

  show() {
    const { series, start, end, step, engine, notes } = this.answer;
    const from = engine ? `answered by ${engine}` : "";
    const count = series.length === 1 ? "1 series" : `${series.length} series`;
    const counted = series.length ? `${count}, a point every ${step} s` : "no series has a sample in that time";
    this.say([counted, from].filter((part) => part).join(" · "));
    const list = this.root.querySelector(".query-notes");
    list.replaceChildren(...notes.slice(0, NOTES_MAX).map((text) => element("li", { text })));
    list.hidden = notes.length === 0;
    if (!series.length) return;
    this.root.querySelector(".query-result").hidden = false;
    const drawn = series.slice(0, LINES_MAX);
    this.lines = drawn.map(({ name, runs }, i) => ({ name, runs, colour: i % COLOURS, dashed: i >= COLOURS }));
    this.chart.show(this.lines, start, end);
    this.frame.setAttribute("aria-label", visible(`${this.answer.query}: ${counted}`));
    this.writeLegend();
    this.writeTable();
    const more = series.length - drawn.length;
    this.root.querySelector(".query-more").textContent = more ? `${more} more series are not drawn: topk(${LINES_MAX}, …) or a narrower selector chooses.` : "";
  }

  writeLegend() {
    const entries = this.lines.map((line) => {
      const value = element("b");
      line.shown = value;
      const swatch = element("i", { classes: `swatch s${line.colour}${line.dashed ? " dashed" : ""}` });
      return element("li", {}, swatch, element("span", { text: line.name }), " ", value);
    });
    this.root.querySelector(".legend").replaceChildren(...entries);
  }

  writeTable() {
    const { series, end, step } = this.answer;
    const rows = series.slice(0, ROWS_MAX).map(({ name, last }) => {
      const [time, value] = last ?? [NaN, "–"];
      // A series that has ended says when: its value is not one of now.
      const old = end - time > 2 * step ? clockText(time, end - time > 86_400 ? 86_400 : 1) : "";
      return element("tr", {}, element("td", { text: name }), element("td", { text: value }), element("td", { text: old }));
    });
    this.root.querySelector("tbody").replaceChildren(...rows);
    const more = series.length - rows.length;
    this.root.querySelector(".rows-more").textContent = more ? `${more} more series are not listed.` : "";
  }

  /** Shows the values at a place of the chart, NaN: none. */
  point(x) {
    const time = this.answer?.series.length ? this.chart.timeAt(x) : NaN;
    this.cursor.hidden = Number.isNaN(time);
    for (const line of this.answer ? (this.lines ?? []) : []) {
      const value = Number.isNaN(time) ? NaN : valueAt(line.runs, time, this.answer.step);
      line.shown.textContent = Number.isNaN(time) ? "" : Number.isNaN(value) ? "–" : String(Number(value.toPrecision(6)));
    }
    if (Number.isNaN(time)) return this.root.querySelector(".at").replaceChildren();
    this.cursor.style.transform = `translateX(${x}px)`;
    this.root.querySelector(".at").textContent = new Date(time * 1_000).toLocaleString();
  }

  /** Colours or the size have changed. */
  repaint() {
    if (this.answer?.series.length) this.chart.draw();
  }
}

const notesOf = ({ warnings, infos }) => [...(warnings ?? []), ...(infos ?? [])].map(String);
