// What the page of one node has beyond its first picture: more panels of devices, tables of who uses the node, and panels of one's own.
// It comes when the first rows are there, so that these are seen soon. It refuses to know the parts.

import { MorePanels } from "./node-more-panels.js";
import { MoreTable } from "./node-more-table.js";
import { LivePatterns } from "./own-live.js";
import { OwnPanels } from "./own-panels.js";
import { readPanels, spec, splitPattern, writePanels } from "./own-spec.js";
import { loadStyle } from "./own-style.js";
import { element } from "./element.js";

export class NodeMore {
  /** `view`: the NodeView, whose time, pointer and line are shared; `asked`: what the address asks for. */
  constructor(view, asked) {
    this.view = view;
    const { board } = view;
    const { signal } = view.ended;
    loadStyle("node-more.css");
    this.panels = new MorePanels(view, signal);
    this.table = new MoreTable(view.node, signal, () => view.writeAddress());
    board.disk.root.after(this.table.root);
    this.buildOwn(signal);
    this.ask(asked);
  }

  buildOwn(signal) {
    const { board, node, on } = this.view;
    this.grid = element("div", { classes: "own-grid" });
    this.add = element("button", { type: "button", classes: "boxed", text: "Add a panel", title: "Ctrl-K" });
    this.add.addEventListener("click", () => document.querySelector("#palette-open").click());
    this.open = element("button", { type: "button", classes: "boxed", text: "Open as a board", "data-palette": "Open these panels as a board" });
    this.open.addEventListener("click", () => on.go(`#view=board&${writePanels(this.elsewhere())}`));
    const root = element("section", { classes: "own-group", "aria-label": "Your panels" }, element("h2", { text: "Your panels" }), this.grid, element("div", { classes: "own-buttons" }, this.add, this.open));
    board.root.append(root);
    this.live = new LivePatterns(this.view, signal);
    this.own = new OwnPanels(this.grid, node, signal, {
      live: this.live,
      attach: (panel) => this.view.addPanel(panel),
      detach: (panel) => this.view.dropPanel(panel),
      changed: () => {
        this.showOwn();
        this.view.writeAddress(true);
      },
      notice: on.notice,
    });
  }

  /** The panels as they are understood on a page that is not about this node. */
  elsewhere() {
    const { node } = this.view;
    return this.own.specs.map((panel) => (node && panel.match && !splitPattern(panel.match).hosts ? spec({ ...panel, match: `${node}:${panel.match}` }) : panel));
  }

  /** Shows the panels that an address asks for. */
  ask(asked) {
    const { panels, leftOut } = readPanels(asked);
    if (leftOut > 0) this.view.on.notice(`${leftOut} panels of this address are not shown: a page has room for fewer.`);
    this.own.show(panels);
    this.table.choose(asked.get("top"));
    this.showOwn();
  }

  showOwn() {
    this.open.hidden = this.own.panels.length === 0;
  }

  addPanel(spec) {
    return this.own.add(spec);
  }

  /** What the address says of these parts, with `&` in front. */
  get address() {
    const parts = [this.table.address, writePanels(this.own.specs)].filter((part) => part);
    return parts.map((part) => `&${part}`).join("");
  }

  /** The stream has other columns. */
  bind(table) {
    this.panels.bind(table);
    this.live.bind(table);
  }

  tidy() {
    this.panels.tidy();
  }

  draw(now) {
    const { time, pointer } = this.view;
    const { from, to } = time.shown;
    const pointed = from + pointer.share * (to - from);
    const isLive = time.past === null;
    this.table.show(Number.isNaN(pointed) && !isLive ? to : pointed, this.view.liveWindow().to, now);
    const { edge, tier } = this.view;
    const live = isLive && !Number.isNaN(edge) ? { edge, tier, reader: this.view.numbers.liveReader(pointed) } : null;
    return this.own.draw({ from, to, now: this.view.liveWindow().to }, isLive, pointed, now, live);
  }

  /** Another instant is pointed at. */
  write(pointed) {
    this.own.write(pointed, performance.now(), this.view.time.past ? null : this.view.numbers.liveReader(pointed));
    for (const own of this.own.panels) {
      const reader = own.liveLines ? this.view.numbers.liveReader(pointed) : own.reader(pointed, false);
      this.view.pointer.mark(own.panel, () => this.view.numbers.pointedText(own.panel, reader, pointed, this.view.time.shown.to));
    }
  }

  /** The panels of one's own, for paper. */
  get ownPanels() {
    return this.own.panels.map(({ panel }) => panel);
  }

  repaint() {
    this.own.repaint();
  }
}
