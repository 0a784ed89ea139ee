// A view of all nodes by one measure: the choices that tiles and waterfall share (measure, search, group, order, nodes to
// compare), the stream, and the words of the scale. It refuses to know how nodes are drawn.

import { visible } from "./element.js";
import { byName, fold, matcher } from "./hostlist.js";
import { addCatalogue, fillMeasures, problemOf } from "./measure-choice.js";
import { measureOf } from "./measures.js";
import { NodeChoice } from "./node-choice.js";
import { NodeGroups } from "./node-groups.js";
import { TileStream } from "./tile-stream.js";

const SORTS = ["name", "value", "group"];
/** The least room that nodes have (CSS pixels). */
export const ROOM_MIN = 200;

export class NodesView {
  /**
   * `root` has the markup; `on` hears open(name), go(hash), state, notice, name and address as in main.js, and has the groups of
   * the configuration. `selectors`: {measure, find, problem, group, frame, lists, sort}; `lists` are those of measures, `sort` is an
   * attribute of buttons.
   * `heard`: what of the stream's messages is taken beside its notices.
   */
  constructor(root, asked, on, selectors, heard) {
    this.root = root;
    this.on = on;
    this.selectors = selectors;
    this.groups = new NodeGroups(on.groups);
    this.ended = new AbortController();
    this.find = (selector) => root.querySelector(selector);
    this.part = (name) => this.find(selectors[name]);
    this.nodes = { names: [], values: new Float64Array(0), down: new Uint8Array(0), unit: "" };
    /** Positions of the nodes that search and group leave. */
    this.shown = [];
    this.matches = () => true;
    this.format = String;
    this.choice = new NodeChoice(this.find(".choice-bar"), this.find(".choose"), this.ended.signal, {
      changed: () => this.repaint(),
      compare: (hash) => on.go(hash),
      notice: on.notice,
    });
    this.stream = new TileStream({ ...heard, notice: ({ nodes, text }) => on.notice(`${fold(nodes)}: ${text}`) });
    this.askChoices(asked);
    this.hearChoices();
    this.resized = new ResizeObserver(() => this.arrange());
  }

  close() {
    this.ended.abort();
    this.stream.close();
    this.resized.disconnect();
  }

  /** Begins to arrange as its frame has room. */
  observe() {
    this.resized.observe(this.part("frame"));
  }

  /** What the address says. */
  askChoices(asked) {
    /** Where there are groups, they are what people know. */
    this.sortUsual = this.groups.some ? "group" : "name";
    this.sort = SORTS.includes(asked.get("sort")) ? asked.get("sort") : this.sortUsual;
    this.groups.fill(this.part("group"), asked.get("group") ?? "");
    this.group = this.part("group").value;
    this.search = asked.get("find") ?? "";
    this.part("find").value = this.search;
  }

  /** Fills the list of measures; `asked` is what the address says. */
  fillMeasures(measure, asked) {
    const problem = problemOf(asked, measure);
    if (problem) this.on.notice(problem);
    fillMeasures(this.part("measure"), measure);
    this.isWhole = false;
  }

  /** Numbers are shown: now there is time for the list of every metric. */
  addCatalogue() {
    if (this.isWhole) return;
    this.isWhole = true;
    addCatalogue(this.selectors.lists.map(this.find), this.ended.signal).then((unknown) => {
      if (unknown.length > 0) this.on.notice(`No node can have the metric ${unknown.join(" or ")}: the catalogue does not name it.`);
    });
  }

  hearChoices() {
    this.hear(this.part("measure"), "change", ({ target }) => this.choose(measureOf(target.value)));
    this.hear(this.part("group"), "change", ({ target }) => this.chose({ group: target.value }));
    this.hear(this.part("find"), "input", ({ target }) => this.chose({ search: target.value }));
    for (const button of this.sortButtons()) this.hear(button, "click", () => this.chose({ sort: button.dataset[this.selectors.sort] }));
  }

  hear(target, event, then) {
    target.addEventListener(event, then, { signal: this.ended.signal });
  }

  sortButtons() {
    return this.root.querySelectorAll(`[data-${this.selectors.sort}]`);
  }

  /** Other nodes, or another order: {search}, {group} or {sort}. */
  chose(choice) {
    Object.assign(this, choice);
    this.arrange();
    this.showControls();
  }

  /** Marks the order, and returns what the address keeps of the choices. */
  showChoices() {
    for (const button of this.sortButtons()) press(button, button.dataset[this.selectors.sort] === this.sort);
    const { sort, sortUsual, group, search } = this;
    return [...(sort === sortUsual ? [] : [["sort", sort]]), ...(group ? [["group", group]] : []), ...(search ? [["find", search]] : [])];
  }

  /** Which nodes search and group leave; a search that cannot be understood says so, and the one before holds. */
  matcher() {
    const problem = this.part("problem");
    problem.textContent = "";
    try {
      this.matches = matcher(this.search);
    } catch (error) {
      problem.textContent = visible(error.message);
    }
    const inGroup = this.groups.matcher(this.group);
    const { matches } = this;
    return (name) => inGroup(name) && matches(name);
  }

  /** Chooses the nodes that are shown. */
  choosePositions(names) {
    const matches = this.matcher();
    this.shown = [];
    for (let at = 0; at < names.length; at++) if (matches(names[at])) this.shown.push(at);
  }

  /** Positions in the order of their names. */
  sorted(positions, names) {
    return positions.sort((a, b) => byName(names[a], names[b]));
  }

  /** Pixels below the frame's upper edge that are on the screen, without what stands below it. */
  room(below) {
    return innerHeight - (this.part("frame").getBoundingClientRect().top + scrollY) - below;
  }

  /** The words of the scale: its ends and its middle. */
  writeScale() {
    const marks = this.root.querySelectorAll(".scale-marks span");
    const { top, beyond } = this.scale;
    [0, top / 2, top].forEach((value, i) => {
      const round = this.format(value).replace(/\.0+(?=\D|$)/, "");
      put(marks[i], this.nodes.unit ? `${round}${i === 2 && beyond ? " or more" : ""}` : "");
    });
  }
}

/** Writes a text where it is another one. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function press(button, isPressed) {
  button.setAttribute("aria-pressed", String(isPressed));
}

/** What a screen reader says of a picture. */
export function label(canvas, text) {
  if (canvas.getAttribute("aria-label") !== text) canvas.setAttribute("aria-label", text);
}
