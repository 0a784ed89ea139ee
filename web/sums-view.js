// All nodes together over time: their sum, and how they are spread. One measure at a time, for all nodes or those of a
// group. It refuses to add up shares: of them it shows the mean.

import { element } from "./element.js";
import { MEASURE_QUERIES, windowOf } from "./measure-queries.js";
import { measureOf } from "./measures.js";
import { NodeGroups } from "./node-groups.js";
import { RangeView } from "./range-view.js";

/** The lines of the spread, from above. */
const SPREAD = [
  { label: "highest", of: (each) => `max(${each})` },
  { label: "95 % are below", of: (each) => `quantile(0.95, ${each})` },
  { label: "median", of: (each) => `quantile(0.5, ${each})` },
  { label: "5 % are below", of: (each) => `quantile(0.05, ${each})` },
  { label: "lowest", of: (each) => `min(${each})` },
];
const [SUM, MEAN, COUNT] = ["sum", "mean", "nodes"];

export class SumsView extends RangeView {
  constructor(root, asked, on) {
    super("Sums", root, on);
    this.groups = new NodeGroups(on.groups);
    for (const list of [".sums-measure", ".sums-group"]) this.hear(list, () => this.start());
    this.find(".sums-measure").replaceChildren(...MEASURE_QUERIES.map(({ id, label }) => element("option", { value: id, text: label })));
    this.ask(asked);
  }

  ask(asked) {
    const measure = asked.get("measure");
    this.askSpan(asked);
    this.find(".sums-measure").value = MEASURE_QUERIES.some(({ id }) => id === measure) ? measure : MEASURE_QUERIES[0].id;
    this.groups.fill(this.find(".sums-group"), asked.get("group") ?? "");
    this.start();
  }

  start() {
    this.showControls();
    const measure = MEASURE_QUERIES.find(({ id }) => id === this.find(".sums-measure").value);
    const each = measure.of(this.only(), windowOf(this.step));
    const whole = measure.isShare ? { label: MEAN, query: `avg(${each})` } : { label: SUM, query: `sum(${each})` };
    const panels = [
      { title: `${measure.label}: ${measure.isShare ? "mean" : "sum"} of the nodes`, format: measure.format, metrics: measure.metrics, order: [whole.label], queries: [whole] },
      { title: `${measure.label}: how the nodes are spread`, format: measure.format, metrics: measure.metrics, order: SPREAD.map(({ label }) => label), queries: SPREAD.map(({ label, of }) => ({ label, query: of(each) })) },
      { title: "Nodes that have a number", format: String, metrics: [], order: [COUNT], queries: [{ label: COUNT, query: `count(${each})` }] },
    ];
    this.panels.show(panels, this.span);
  }

  /** A selector of the nodes of the group. */
  only() {
    const group = this.find(".sums-group").value;
    return group ? this.groups.selector(group) : "";
  }

  showControls() {
    const [measure, group] = [".sums-measure", ".sums-group"].map((list) => this.find(list).value);
    this.writeAddress("sums", { measure, ...(group ? { group } : {}) }, { measure: measureOf(measure), group });
  }
}
