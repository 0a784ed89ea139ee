// Up to eight nodes side by side: a panel for each measure, with a line for each node, and how alike the lines are. The
// address has the nodes. It refuses to choose nodes: tiles and waterfall do.

import { correlation } from "./correlation.js";
import { element } from "./element.js";
import { fold, hostlistNames } from "./hostlist.js";
import { instances, MEASURE_QUERIES, windowOf } from "./measure-queries.js";
import { measureOf } from "./measures.js";
import { NODES_MAX } from "./node-choice.js";
import { RangeView } from "./range-view.js";
import { UNKNOWN_TEXT } from "./units.js";

export class CompareView extends RangeView {
  constructor(root, asked, on) {
    super("Compare", root, on);
    this.hear(".correlate", () => this.setCorrelated(!this.isCorrelated), "click");
    this.ask(asked);
  }

  shown() {
    this.writeCorrelations();
  }

  ask(asked) {
    this.nodes = hostlistNames(asked.get("nodes") ?? "", NODES_MAX);
    this.askSpan(asked);
    this.isCorrelated = asked.get("correlation") === "1";
    this.start();
  }

  /** Asks for the nodes and the time that are chosen. */
  start() {
    const { nodes } = this;
    this.writeNodes();
    this.showControls();
    const over = windowOf(this.step);
    const panels = MEASURE_QUERIES.map(({ label, format, metrics, of }) => ({ title: label, format, metrics, order: nodes, queries: [{ query: of(instances(nodes), over) }] }));
    this.panels.show(nodes.length > 0 ? panels : [], this.span);
    if (nodes.length === 0) {
      this.panels.stop();
      this.on.state("paused");
    }
  }

  setCorrelated(isCorrelated) {
    this.isCorrelated = isCorrelated;
    this.showControls();
    this.writeCorrelations();
  }

  /** The nodes, each with a link to its view and a button that takes it away. */
  writeNodes() {
    const chips = this.nodes.map((node) => {
      const away = element("button", { type: "button", "aria-label": `Take ${node} away`, text: "×" });
      away.addEventListener("click", () => {
        this.nodes = this.nodes.filter((other) => other !== node);
        this.start();
      });
      return element("li", {}, element("a", { href: `#node=${encodeURIComponent(node)}`, text: node }), away);
    });
    this.find(".chips").replaceChildren(...chips);
    this.find(".compare-empty").hidden = this.nodes.length > 0;
    this.find(".correlate").disabled = this.nodes.length < 2;
  }

  showControls() {
    this.find(".correlate").setAttribute("aria-pressed", String(this.isCorrelated));
    this.writeAddress("compare", { nodes: fold(this.nodes), ...(this.isCorrelated ? { correlation: "1" } : {}) }, { measure: measureOf("") });
  }

  /** Below each panel a table: how alike the lines of two nodes are. */
  writeCorrelations() {
    for (const panel of this.panels.panels) {
      panel.section.querySelector("table")?.remove();
      if (!this.isCorrelated || panel.lines.length < 2) continue;
      const { lines } = panel;
      const head = element("tr", {}, element("td", {}), ...lines.map(({ label }) => element("th", { scope: "col", text: label })));
      const rows = lines.map((line, i) =>
        element("tr", {}, element("th", { scope: "row", text: line.label }), ...lines.map((other, j) => element("td", { text: i === j ? "" : numberOf(correlation(line.runs, other.runs)) }))),
      );
      const caption = element("caption", { text: `Correlation of ${panel.title}` });
      panel.section.append(element("table", { classes: "correlations" }, caption, element("thead", {}, head), element("tbody", {}, ...rows)));
    }
  }
}

const numberOf = (r) => (Number.isNaN(r) ? UNKNOWN_TEXT : `${r < -0.005 ? "−" : ""}${Math.abs(r).toFixed(2)}`);
