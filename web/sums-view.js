// All nodes together over time: their sum, and how they are spread. One measure at a time, for all nodes or those of a
// group. It refuses to add up shares: of them it shows the mean.

import { linkViews } from "./measure-choice.js";
import { measureOf } from "./measures.js";
import { MEASURE_QUERIES, windowOf } from "./measure-queries.js";
import { element } from "./panel.js";
import { fillSpans, RangePanels, SPAN_DEFAULT, SPANS, stepOf } from "./range-panels.js";

/** The lines of the spread, from above. */
const SPREAD = [
  { label: "highest", of: (each) => `max(${each})` },
  { label: "95 % are below", of: (each) => `quantile(0.95, ${each})` },
  { label: "median", of: (each) => `quantile(0.5, ${each})` },
  { label: "5 % are below", of: (each) => `quantile(0.05, ${each})` },
  { label: "lowest", of: (each) => `min(${each})` },
];
const [SUM, MEAN, COUNT] = ["sum", "mean", "nodes"];

export class SumsView {
  constructor(root, asked, on) {
    this.root = root;
    this.on = on;
    this.ended = new AbortController();
    this.find = (selector) => root.querySelector(selector);
    const { signal } = this.ended;
    this.panels = new RangePanels(this.find(".sums-panels"), signal, { state: on.state, shown: () => {} });
    for (const list of [".span", ".sums-measure", ".sums-group"]) this.find(list).addEventListener("change", () => this.start(), { signal });
    this.find(".sums-measure").replaceChildren(...MEASURE_QUERIES.map(({ id, label }) => element("option", { value: id, text: label })));
    on.name("Sums");
    this.ask(asked);
  }

  close() {
    this.ended.abort();
    this.panels.root.replaceChildren();
  }

  repaint() {
    this.panels.repaint();
  }

  ask(asked) {
    const measure = asked.get("measure");
    fillSpans(this.find(".span"), asked.get("range"));
    this.find(".sums-measure").value = MEASURE_QUERIES.some(({ id }) => id === measure) ? measure : MEASURE_QUERIES[0].id;
    this.on.groups.fill(this.find(".sums-group"), asked.get("group") ?? "");
    this.start();
  }

  start() {
    this.showControls();
    const measure = MEASURE_QUERIES.find(({ id }) => id === this.find(".sums-measure").value);
    const span = SPANS[this.find(".span").value];
    const each = measure.of(this.only(), windowOf(stepOf(span)));
    const whole = measure.isShare ? { label: MEAN, query: `avg(${each})` } : { label: SUM, query: `sum(${each})` };
    const panels = [
      { title: `${measure.label}: ${measure.isShare ? "mean" : "sum"} of the nodes`, format: measure.format, order: [whole.label], queries: [whole] },
      { title: `${measure.label}: how the nodes are spread`, format: measure.format, order: SPREAD.map(({ label }) => label), queries: SPREAD.map(({ label, of }) => ({ label, query: of(each) })) },
      { title: "Nodes that have a number", format: String, order: [COUNT], queries: [{ label: COUNT, query: `count(${each})` }] },
    ];
    this.panels.show(panels, span);
  }

  /** A selector of the nodes of the group. */
  only() {
    const group = this.find(".sums-group").value;
    return group ? this.on.groups.selector(group) : "";
  }

  showControls() {
    const [measure, range, group] = [".sums-measure", ".span", ".sums-group"].map((list) => this.find(list).value);
    const hash = new URLSearchParams({ view: "sums", measure });
    if (range !== SPAN_DEFAULT) hash.set("range", range);
    if (group) hash.set("group", group);
    this.on.address(hash.toString());
    linkViews(this.find(".views"), "sums", { measure: measureOf(measure), group });
  }
}
