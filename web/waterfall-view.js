// The waterfall: all nodes and the last seconds or minutes of each, as a heat map that moves. It joins the stream of
// steps to the picture, and knows the choices: measure, rate, order, search. It refuses to draw.

import { ask } from "./ask.js";
import { fold } from "./hostlist.js";
import { linkViews } from "./measure-choice.js";
import { addressOf, formatOf, isBinary, measureOf } from "./measures.js";
import { label, NodesView, press, put, ROOM_MIN } from "./nodes-view.js";
import { TileScale } from "./tile-scale.js";
import { count, totalsOf, writeTotals } from "./totals.js";
import { CELL_WORDS, DOWN, KNOWN, NO_ROW, ROWS_MAX, WaterfallCells } from "./waterfall-cells.js";
import { WaterfallLayout } from "./waterfall-layout.js";
import { WaterfallPicture } from "./waterfall-picture.js";
import { WaterfallPointer } from "./waterfall-pointer.js";

const RATES = [1, 10, 100];
const RATE_DEFAULT = 10;
/** The server sends no more numbers a second (`NUMBERS_A_SECOND_MAX`): beyond it only nodes that are shown are asked for. */
const NUMBERS_A_SECOND_MAX = 65_536;
/** A hostlist in the address of a stream: longer ones are left out, and the server says what it takes. */
const HOSTS_MAX = 2_000;
/** Facts and tip are written this often at most: nobody reads faster. */
const WRITE_MS = 250;
/** Rows that are sorted by value get their order from the first numbers, and another one this long after; what the server remembers is here by then. */
const SETTLED_MS = 3_000;
/** A number counts as the newest of its node for as many steps, and as many seconds, whichever is longer. */
const CURRENT_STEPS = 3;
const CURRENT_SECONDS = 3;
/** Another search is asked of the server after this pause in the typing. */
const TYPED_MS = 400;
/** The waterfall of a row a second begins with what the server remembers of this time. */
const PAST_SECONDS = 600;
/** A sentence with names is cut after this many characters. */
const NAMES_TEXT_MAX = 300;
/** Room below the rows for times and notes (CSS pixels). */
const BELOW = 88;
const PARTS = { measure: ".measure", find: ".find", problem: ".fall-problem", group: ".group-choice", frame: ".fall", lists: [".measure"], sort: "order" };

export class WaterfallView extends NodesView {
  /** As NodesView. */
  constructor(root, asked, on) {
    super(root, asked, on, PARTS, {
      nodes: (data) => this.takeNodes(data),
      away: (data) => this.takeAway(data),
      steps: (data) => this.takeSteps(data),
      state: (state, reason) => this.takeState(state, reason),
    });
    this.cells = new WaterfallCells();
    this.picture = new WaterfallPicture(this.find(".fall"), this.cells, this.ended.signal);
    this.pointer = new WaterfallPointer(this.find(".fall"), this.picture, this.cells, this.ended.signal, {
      open: (node) => on.open(this.cells.names[node]),
      choose: (node) => this.choice.toggle(this.cells.names[node]),
      pause: () => this.setPaused(!this.paused),
      text: (node, back) => this.tell(node, back),
    });
    this.picture.choice = this.choice;
    /** The nodes of the stream, and all that there are. */
    this.names = [];
    this.all = [];
    this.paused = false;
    /** The address asks for a picture that stands still: it does so when it has the rows that the server remembers. */
    this.isToPause = false;
    this.wroteAt = -Infinity;
    on.name("Waterfall");
    this.hear(this.find(".fall-pause"), "click", () => this.setPaused(!this.paused));
    for (const button of this.rateButtons()) this.hear(button, "click", () => this.choose(this.measure, Number(button.dataset.hertz)));
    this.observe();
    this.ask(asked);
    this.readNames();
  }

  close() {
    super.close();
    clearTimeout(this.typing);
  }

  /** Colours, or what is chosen, have changed. */
  repaint() {
    this.picture?.repaint();
  }

  /** For paper, which waits for no frame. */
  paintNow() {
    this.picture.paint();
  }

  rateButtons() {
    return this.root.querySelectorAll("[data-hertz]");
  }

  /** Shows what the address says. */
  ask(asked) {
    const rate = Number(asked.get("rate"));
    const measure = measureOf(asked.get("measure"));
    this.askChoices(asked);
    this.fillMeasures(measure, asked.get("measure"));
    this.isToPause = asked.has("paused");
    this.choose(measure, RATES.includes(rate) ? rate : RATE_DEFAULT);
  }

  /** Another quantity or rate: what was known of the last one is not known of this. */
  choose(measure, rate = this.rate) {
    this.measure = measure;
    this.rate = rate;
    this.scale = new TileScale(measure);
    this.picture.scale = this.scale;
    this.paused = false;
    this.cells.begin([], 1);
    this.nodes = { names: [], values: new Float64Array(0), down: new Uint8Array(0), unit: "" };
    this.format = String;
    this.picture.repaint();
    this.open();
    this.showControls();
  }

  /** Asks for all nodes, or where they are too many at this rate, for those that are searched. */
  open() {
    // At higher rates a server remembers nothing that nobody has asked for.
    const past = this.rate === 1 ? PAST_SECONDS : 0;
    this.stream.open(addressOf(this.measure, { rate: this.rate, hosts: this.hosts(), past }));
  }

  /** True if the server sends the numbers of all nodes at this rate. */
  get isFew() {
    return this.all.length * this.rate <= NUMBERS_A_SECOND_MAX;
  }

  hosts() {
    if (this.isFew || (!this.search && !this.group)) return "";
    const hosts = fold(this.all.filter(this.matcher()));
    return hosts.length <= HOSTS_MAX ? hosts : "";
  }

  /** Which nodes there are: the stream may have only some of them. */
  async readNames() {
    try {
      const { nodes, period_ns_min: periodMin } = await ask("khz/v1/nodes?brief=1", this.ended.signal);
      this.all = nodes;
      // A reader may be allowed less.
      for (const button of this.rateButtons()) button.disabled = 1e9 / Number(button.dataset.hertz) < periodMin;
      if (!this.isFew && (this.search || this.group)) this.open();
    } catch {
      // The stream says what is wrong.
    }
  }

  chose(choice) {
    super.chose(choice);
    if (this.isFew || choice.sort) return;
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.open(), TYPED_MS);
  }

  /** Stands still, or goes on; what passes meanwhile was not received. */
  setPaused(paused) {
    this.paused = paused;
    this.isToPause = false;
    if (paused) {
      this.stream.close();
      this.on.state("paused");
    } else {
      this.open();
    }
    this.showControls();
  }

  showControls() {
    for (const button of this.rateButtons()) press(button, Number(button.dataset.hertz) === this.rate);
    const pause = this.find(".fall-pause");
    press(pause, this.paused);
    pause.textContent = this.paused ? "Resume" : "Pause";
    const hash = new URLSearchParams([["view", "waterfall"], ["measure", this.measure.id], ["rate", this.rate], ...this.showChoices(), ...(this.paused || this.isToPause ? [["paused", "1"]] : [])]);
    this.on.address(hash.toString());
    linkViews(this.find(".views"), "waterfall", { measure: this.measure, find: this.search, group: this.group });
  }

  takeNodes({ nodes, unit, period_ns: periodNs }) {
    const isSame = nodes.length === this.names.length && nodes.every((name, at) => name === this.names[at]);
    this.cells.begin(nodes, periodNs);
    this.names = nodes;
    this.nodes = { names: nodes, unit, values: new Float64Array(nodes.length).fill(NaN), down: new Uint8Array(nodes.length) };
    this.format = formatOf(unit);
    this.begunAt = performance.now();
    if (!isSame) this.pointer.clear();
    this.arrange();
  }

  takeAway(data) {
    this.cells.takeAway(data);
  }

  takeSteps(data) {
    const now = performance.now();
    this.cells.take(data);
    this.picture.refresh();
    this.on.seen();
    this.addCatalogue();
    if (this.isToPause && now - this.begunAt >= SETTLED_MS) this.setPaused(true);
    if (now - this.wroteAt < WRITE_MS && !this.paused) return;
    this.wroteAt = now;
    this.readNewest();
    const { top } = this.scale;
    this.scale.fit(this.nodes.values, isBinary(this.nodes.unit), now);
    if (this.scale.top !== top) this.picture.repaint();
    if (this.sort === "value" && now - this.begunAt < SETTLED_MS) this.arrange();
    this.write();
  }

  /** The newest number of every node, for scale and facts. */
  readNewest() {
    const { cells, nodes } = this;
    const steps = Math.max(CURRENT_STEPS, Math.ceil(CURRENT_SECONDS / cells.periodSeconds));
    for (let at = 0; at < cells.count; at++) {
      nodes.values[at] = cells.current(at, steps);
      nodes.down[at] = cells.away[at] === NO_ROW ? 0 : cells.away[at] - DOWN + 1;
    }
  }

  takeState(state, reason) {
    // Numbers that nobody renews are no longer what is now.
    if (state === "waiting") this.nodes.values.fill(NaN);
    this.isCurrent = state === "live";
    this.on.state(state, reason);
    if (state === "waiting") this.write();
  }

  /** Which rows are shown, and in which order. */
  arrange() {
    this.choosePositions(this.names);
    const rows = this.shown.filter((at) => at < ROWS_MAX);
    this.picture.arrange(new WaterfallLayout(this.blocks(rows), Math.max(this.room(BELOW), ROOM_MIN)));
    this.pointer.mark();
    this.write();
  }

  blocks(rows) {
    const { names, cells } = this;
    if (this.sort === "group") return this.groups.blocks(names, rows);
    if (this.sort === "name") return [{ label: "", nodes: this.sorted(rows, names) }];
    const means = new Map(rows.map((at) => [at, cells.mean(at, this.picture.shown)]));
    const rank = (at) => (Number.isNaN(means.get(at)) ? -Infinity : means.get(at));
    // Infinity minus itself is no order: those without numbers keep that of their names.
    return [{ label: "", nodes: rows.sort((a, b) => (rank(a) === rank(b) ? a - b : rank(b) - rank(a))) }];
  }

  write() {
    const facts = totalsOf(this.nodes, this.shown);
    this.facts = facts;
    writeTotals(this.nodes, this.shown.length, facts, this.isCurrent, this.format);
    this.writeScale();
    this.writeTimes();
    this.writeNote();
    this.pointer.write();
    const words = `${count(this.shown.length)} nodes over time by ${this.measure.label}: ${this.isCurrent ? count(facts.gone[0].length) : "nobody knows how many"} down, ${count(facts.unknown)} unknown`;
    label(this.picture.canvas, words);
  }

  /** How long ago the left edge, the middle and the right edge are. */
  writeTimes() {
    const seconds = this.picture.shown * this.cells.periodSeconds;
    const text = (s) => (s >= 120 ? `−${(s / 60).toFixed(1).replace(/\.0$/, "")} min` : `−${s.toFixed(s < 20 ? 1 : 0)} s`);
    const [left, middle, right] = this.root.querySelectorAll(".times span");
    put(left, this.nodes.unit ? text(seconds) : "");
    put(middle, this.nodes.unit ? text(seconds / 2) : "");
    put(right, this.paused ? "paused" : "now");
  }

  /** What the picture does not show, and why. */
  writeNote() {
    const cut = (text) => (text.length > NAMES_TEXT_MAX ? `${text.slice(0, NAMES_TEXT_MAX)}…` : text);
    const notes = [];
    const { astray } = this.cells;
    if (this.names.length > 0 && this.shown.length === 0) notes.push("No node has such a name.");
    if (this.names.length > ROWS_MAX) notes.push(`Only the first ${count(ROWS_MAX)} of ${count(this.names.length)} nodes have a row.`);
    if (astray.size > 0) {
      notes.push(`The clocks of some nodes are wrong, and their rows cannot be placed: ${cut(fold([...astray].map((at) => this.names[at])))}.`);
    }
    put(this.find(".fall-note"), notes.join(" "));
  }

  /** Node, time and value of a cell, as words. */
  tell(node, back) {
    const { cells } = this;
    const step = cells.edge - back;
    const { state, value } = cells.cell(node, step);
    const time = new Date(step * cells.periodSeconds * 1e3);
    const millis = this.rate > 1 ? `.${String(time.getMilliseconds()).padStart(3, "0").slice(0, this.rate > 10 ? 2 : 1)}` : "";
    return `${cells.names[node]}  ${time.toLocaleTimeString("en-GB")}${millis}  ${state === KNOWN ? this.format(value) : CELL_WORDS[state]}`;
  }

  /** For tests: the state and the number of a node's newest step but `back`, and where they are on the canvas. */
  cell(name, back = 0) {
    const node = this.cells.names.indexOf(name);
    if (node < 0 || node >= this.cells.count) return null;
    const found = this.cells.cell(node, this.cells.edge - back);
    return { ...found, word: CELL_WORDS[found.state], ...this.picture.place({ node, back }) };
  }
}
