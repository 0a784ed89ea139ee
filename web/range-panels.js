// Panels of the past: queries over a time that ends now, each a chart with some lines, asked again as time passes. One
// instant is pointed at in all of them. It refuses to know what is asked.

import { askPrometheus } from "./ask.js";
import { clockText } from "./moment.js";
import { element } from "./element.js";
import { runsOf, valueAt } from "./query-answer.js";
import { QueryChart } from "./query-chart.js";
import { UNKNOWN_TEXT } from "./units.js";

/** Asked again after this long, and not before another point is there. */
const AGAIN_MS = 5_000;
/** Points of a line. */
const POINTS = 300;
/** Colours of lines; further ones have them again, dashed. */
const COLOURS = 6;
/** Lines of a panel. */
export const LINES_MAX = 12;
/** One press of an arrow key moves by this share of the time. */
const KEY_STEP = 0.01;

/** Times that can be chosen (s). */
export const SPANS = { "5m": 300, "15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800 };
export const SPAN_DEFAULT = "5m";
export const stepOf = (span) => Math.max(1, Math.ceil(span / POINTS));

export class RangePanels {
  /** `on` hears state("connecting" | "live" | "waiting", reason) and shown() after each round. */
  constructor(root, signal, on) {
    this.root = root;
    this.signal = signal;
    this.on = on;
    this.panels = [];
    this.turn = 0;
    this.time = NaN;
    /** Rounds that were answered. */
    this.rounds = 0;
    signal.addEventListener("abort", () => this.stop());
    this.resized = new ResizeObserver(() => this.repaint());
    this.resized.observe(root);
  }

  /** `panels`: [{title, format, order, queries: [{query, label?}]}]; without a label a line is called after its instance. `order`: labels, in theirs. */
  show(panels, span) {
    this.stop();
    this.span = span;
    this.step = stepOf(span);
    this.panels = panels.map((panel) => this.build(panel));
    this.root.replaceChildren(...this.panels.map(({ section }) => section));
    this.on.state("connecting");
    this.round(this.turn);
  }

  stop() {
    this.turn++;
    clearTimeout(this.timer);
    if (this.signal.aborted) this.resized.disconnect();
  }

  build(panel) {
    const canvas = element("canvas", { classes: "trace", "aria-hidden": "true" });
    const cursor = element("div", { classes: "cursor", hidden: "" });
    const frame = element(
      "div",
      { classes: "frame tall", tabindex: "0", role: "group", "aria-roledescription": "chart", "aria-label": panel.title, "aria-description": "Left and right move the time, Escape takes it away" },
      canvas,
      cursor,
    );
    const legend = element("ul", { classes: "legend" });
    const note = element("p", { classes: "note", text: "asking…" });
    const section = element("section", { classes: "panel", "aria-label": panel.title }, element("header", {}, element("h3", { text: panel.title }), legend), frame, note);
    const built = { ...panel, section, frame, cursor, legend, note, lines: [], chart: new QueryChart(canvas) };
    frame.addEventListener("pointermove", (event) => this.point(built.chart.timeAt(event.clientX - frame.getBoundingClientRect().left)));
    frame.addEventListener("pointerleave", () => this.point(NaN));
    frame.addEventListener("blur", () => this.point(NaN));
    frame.addEventListener("keydown", (event) => this.key(event));
    return built;
  }

  key(event) {
    const by = { ArrowLeft: -KEY_STEP, ArrowRight: KEY_STEP }[event.key];
    if (by === undefined && event.key !== "Escape") return;
    event.preventDefault();
    if (by === undefined) return this.point(NaN);
    const start = Number.isNaN(this.time) ? this.end : this.time;
    this.point(Math.min(this.end, Math.max(this.end - this.span, start + by * this.span * (event.shiftKey ? 10 : 1))));
  }

  /** Asks for all panels, one after the other: a server evaluates few queries at a time. */
  async round(turn) {
    // The server's clock: this browser's may be wrong.
    const end = Math.floor((Date.now() - (this.ahead ?? 0)) / 1_000);
    let failed = "";
    for (const panel of this.panels) {
      try {
        const answers = [];
        for (const { query, label } of panel.queries) {
          const form = { query, start: end - this.span, end, step: this.step };
          const { answer, now } = await askPrometheus("api/v1/query_range", form, this.signal);
          if (turn !== this.turn) return;
          this.ahead = Date.now() - now;
          answers.push(...answer.data.result.map(({ metric, values }) => ({ label: label ?? metric.instance ?? "", runs: runsOf(values, this.step) })));
        }
        this.end = end;
        this.fill(panel, answers);
      } catch (error) {
        if (turn !== this.turn) return;
        failed = error.message;
        panel.isOld = true;
        this.write(panel);
        panel.note.textContent = failed;
      }
    }
    if (failed) this.on.state("waiting", failed);
    else this.on.state("live");
    this.rounds++;
    this.on.shown();
    this.timer = setTimeout(() => this.round(turn), Math.max(AGAIN_MS, this.step * 1_000));
  }

  fill(panel, answers) {
    const place = ({ label }) => (panel.order.indexOf(label) + 1 || LINES_MAX + 1) - 1;
    panel.isOld = false;
    // What has no numbers keeps its place: that nothing is known of it is worth a word.
    const known = new Set(answers.map(({ label }) => label));
    const unknown = panel.order.filter((label) => !known.has(label)).map((label) => ({ label, runs: [] }));
    const lines = [...answers, ...unknown].sort((a, b) => place(a) - place(b)).slice(0, LINES_MAX);
    // A node has its colour in all panels, also where others have no numbers.
    panel.lines = lines.map((line) => ({ ...line, colour: place(line) % COLOURS, dashed: place(line) >= COLOURS }));
    panel.note.textContent = lines.some(({ runs }) => runs.length > 0) ? "" : "Nobody has such numbers in this time.";
    panel.chart.show(panel.lines, this.end - this.span, this.end);
    const entries = panel.lines.map((line) => {
      line.shown = element("b", {});
      return element("li", {}, element("i", { classes: `swatch s${line.colour}${line.dashed ? " dashed" : ""}` }), element("span", { text: line.label }), " ", line.shown);
    });
    panel.legend.replaceChildren(...entries);
    this.write(panel);
  }

  point(time) {
    this.time = time;
    for (const panel of this.panels) this.write(panel);
  }

  /** The numbers at the time that is pointed at, else the newest ones; those that nobody renews are no longer what is now. */
  write(panel) {
    const isPointed = !Number.isNaN(this.time);
    panel.cursor.hidden = !isPointed;
    if (isPointed) panel.cursor.style.transform = `translateX(${panel.chart.x(this.time)}px)`;
    const words = panel.lines.map((line) => {
      const value = isPointed ? valueAt(line.runs, this.time, this.step) : panel.isOld ? NaN : valueAt(line.runs, this.end, 3 * this.step);
      line.shown.textContent = Number.isFinite(value) ? panel.format(value) : UNKNOWN_TEXT;
      return `${line.label} ${line.shown.textContent}`;
    });
    const at = isPointed ? ` at ${clockText(this.time, 1)}` : "";
    panel.frame.setAttribute("aria-label", `${panel.title}${at}: ${words.join(", ") || panel.note.textContent}`);
    if (panel.lines.length > 0) panel.note.textContent = isPointed ? clockText(this.time, 1) : panel.lines.some(({ runs }) => runs.length) ? "" : panel.note.textContent;
  }

  /** Colours or the size have changed. */
  repaint() {
    for (const panel of this.panels) panel.chart.draw();
  }
}

/** Fills a list of times. */
export function fillSpans(list, chosen) {
  const words = { m: "min", h: "h", d: "d" };
  list.replaceChildren(...Object.keys(SPANS).map((value) => element("option", { value, text: `${value.slice(0, -1)} ${words[value.at(-1)]}` })));
  list.value = Object.hasOwn(SPANS, chosen) ? chosen : SPAN_DEFAULT;
}
