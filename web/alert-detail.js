// One opened alert: its texts, labels, rule and times, and a plot that begins before it. It refuses to list alerts; the server says
// what there is to draw.

import { numberText, seriesOfAlert } from "./alert-list.js";
import { ask, askPrometheus } from "./ask.js";
import { element, visible } from "./element.js";
import { addressText } from "./moment.js";
import { seriesOf } from "./query-answer.js";
import { QueryChart } from "./query-chart.js";
import { LINES_MAX, RANGES } from "./query-view.js";
import { duration } from "./units.js";

/** The plot begins this long before the alert, in seconds. */
const BEFORE = 900;
/** A link to the node shows no more than this, in seconds: around the beginning of the alert. */
const SHOWN_MAX = 4 * BEFORE;
/** Points of the plot: about one for two pixels. */
const POINTS = 300;
/** An open plot is asked again after this time. */
const AGAIN_MS = 60_000;
const COLOURS = 6;
/** The colour of the number that the series are compared with. */
const BOUND_COLOUR = 3;

export class AlertDetail {
  constructor(alert, rule) {
    this.ended = new AbortController();
    this.askedAt = -Infinity;
    /** asking, shown, empty or failed. */
    this.state = "asking";
    this.texts = element("dl", { classes: "alert-texts" });
    this.facts = element("dl", { classes: "alert-texts" });
    this.chart = new QueryChart(element("canvas", { classes: "trace", "aria-hidden": "true" }));
    this.frame = element("div", { classes: "frame", role: "img", "aria-label": "Plot" }, this.chart.canvas);
    this.said = element("p", { classes: "note plot-state", role: "status" });
    this.legend = element("ul", { classes: "legend" });
    this.query = element("a", { classes: "all", text: "Open in Query" });
    this.node = element("a", { classes: "all" });
    this.root = element(
      "div",
      { classes: "alert-detail" },
      this.texts,
      this.frame,
      this.said,
      this.legend,
      this.facts,
      element("p", { classes: "alert-links" }, this.query, this.node),
    );
    this.resized = new ResizeObserver(() => this.repaint());
    this.resized.observe(this.frame);
    this.alert = alert;
    this.rule = rule;
  }

  close() {
    this.ended.abort();
    this.resized.disconnect();
  }

  /** Writes what is known now (`now`: the server's time, ms); asks for the plot when it is old. */
  update(alert, rule, now) {
    Object.assign(this, { alert, rule });
    this.writeTexts(now);
    // What has shown nothing, or failed, is asked with the next list.
    if (this.state === "asking" && Number.isFinite(this.askedAt)) return;
    if (this.state === "shown" && performance.now() - this.askedAt < AGAIN_MS) return;
    this.askedAt = performance.now();
    if (this.state !== "shown") this.state = "asking";
    this.draw(now);
  }

  writeTexts(now) {
    const { alert, rule } = this;
    const moment = (time) => (Number.isNaN(time) ? "" : momentText(time, now));
    const labels = Object.entries(alert.labels).filter(([name]) => name !== "alertname");
    // The line above has the summary.
    const texts = Object.entries(alert.annotations).filter(([, text]) => text !== alert.summary);
    const facts = [
      ["There since", moment(alert.active)],
      ["Fires since", moment(alert.fired)],
      ["Series gone since", moment(alert.kept)],
      ["Value", alert.value],
      ["Rule", rule.query],
      ["For", rule.hold > 0 ? `${duration(rule.hold)} before it fires` : ""],
      ["Group", rule.group],
      ["Labels", labels.map(([name, value]) => `${name}=${value}`).join("  ")],
    ];
    const written = JSON.stringify([texts, facts]);
    if (written === this.written) return;
    this.written = written;
    const pairs = (all) =>
      all
        .filter(([, text]) => text)
        .flatMap(([name, text]) => [element("dt", { text: name }), element("dd", { classes: name === "Rule" ? "code" : "" }, ...linesOf(text))]);
    this.texts.replaceChildren(...pairs(texts));
    this.facts.replaceChildren(...pairs(facts));
  }

  /** Asks for the series around the beginning, and draws them. */
  async draw(now) {
    const { alert, rule } = this;
    const { signal } = this.ended;
    const end = Math.floor(now / 1_000);
    const start = Math.min(end, Math.floor((alert.active || now) / 1_000)) - BEFORE;
    const step = Math.max(1, Math.ceil((end - start) / POINTS));
    try {
      const picture = await pictureOf(rule.query, alert.labels.instance, signal);
      this.writeLinks(picture, start, end);
      const { answer } = await askPrometheus("api/v1/query_range", { query: picture.query, start, end, step }, signal);
      const result = answer.data?.resultType === "matrix" ? answer.data.result : [];
      this.show(seriesOf({ resultType: "matrix", result: seriesOfAlert(result, alert.labels) }, step), picture, start, end);
    } catch (error) {
      if (signal.aborted) return;
      this.state = "failed";
      this.say(`The plot cannot be drawn: ${error.message}`);
    }
  }

  show(series, { operator, bound }, start, end) {
    this.state = series.length ? "shown" : "empty";
    this.frame.hidden = !series.length;
    const drawn = series.slice(0, LINES_MAX);
    const lines = drawn.map(({ name, runs, last }, i) => ({ name, last, runs, colour: i % COLOURS === BOUND_COLOUR ? 4 : i % COLOURS, dashed: i >= COLOURS }));
    const level = Number(bound);
    if (bound !== undefined && Number.isFinite(level)) {
      lines.push({ name: `alert if ${operator} ${bound}`, last: null, runs: [[[start, level], [end, level]]], colour: BOUND_COLOUR, dashed: true });
    }
    const { active, fired } = this.alert;
    const moments = [active, fired].filter(Number.isFinite).map((time) => time / 1_000);
    if (series.length) this.chart.show(lines, start, end, moments);
    this.drawn = series.length ? lines.length : 0;
    this.legend.replaceChildren(
      ...(series.length ? lines : []).map(({ name, last, colour, dashed }) =>
        element("li", {}, element("i", { classes: `swatch s${colour}${dashed ? " dashed" : ""}` }), element("span", { text: name }), " ", element("b", { text: last ? numberText(last[1]) : "" })),
      ),
    );
    const more = series.length - drawn.length;
    this.say(!series.length ? "No series has a sample around this alert." : more ? `${more} more series are not drawn.` : "");
    this.frame.setAttribute("aria-label", visible(`Plot of ${drawn.map(({ name }) => name).join(", ")}`));
  }

  /** The node's page shows the time of the plot, or its beginning. */
  writeLinks({ query }, start, end) {
    const [range] = Object.entries(RANGES).find(([, seconds]) => seconds >= end - start) ?? Object.entries(RANGES).at(-1);
    this.query.href = `#query=${encodeURIComponent(query)}&range=${range}`;
    const { instance } = this.alert.labels;
    this.node.hidden = instance === undefined;
    if (instance === undefined) return;
    this.node.textContent = visible(`Node ${instance} at that time`);
    this.node.href = `#node=${encodeURIComponent(instance)}&from=${addressText(start)}&to=${addressText(Math.min(end, start + SHOWN_MAX))}`;
  }

  say(text) {
    const shown = visible(text);
    if (this.said.textContent !== shown) this.said.textContent = shown;
  }

  repaint() {
    if (this.drawn) this.chart.draw();
  }
}

/** What the server says there is to draw; the expression itself, if it does not say. */
async function pictureOf(query, instance, signal) {
  const asked = new URLSearchParams(instance === undefined ? { query } : { query, instance });
  try {
    return await ask(`khz/v1/rules/picture?${asked}`, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return { query };
  }
}

/** A text of several lines as text nodes with breaks between them. */
function linesOf(text) {
  return String(text)
    .split("\n")
    .flatMap((line, at) => (at ? [element("br"), visible(line)] : [visible(line)]));
}

/** A moment as it is read where the reader is; with its day, if that is not today. */
export function momentText(time, now) {
  const date = new Date(time);
  const clock = date.toLocaleTimeString(undefined, { hour12: false });
  return date.toDateString() === new Date(now).toDateString() ? clock : `${date.toLocaleDateString()} ${clock}`;
}
