// The view of all nodes: what they are coloured by, which are shown and in which order, and the facts above them.
// It joins the stream of tiles to the map; it refuses to draw.

import { fold } from "./hostlist.js";
import { linkViews } from "./measure-choice.js";
import { addressOf, formatOf, isBinary, measureOf, MEASURE_DEFAULT } from "./measures.js";
import { label, NodesView, put, ROOM_MIN } from "./nodes-view.js";
import { groupsByName, Layout } from "./tile-layout.js";
import { GONE, TileMap } from "./tile-map.js";
import { TileMark } from "./tile-mark.js";
import { PAST_SECONDS, TilePast } from "./tile-past.js";
import { TileScale } from "./tile-scale.js";
import { count, totalsOf, writeTotals } from "./totals.js";

/** Tiles that change places faster than this cannot be followed. */
const RESORT_MS = 5_000;
/** The list of nodes that are down is cut after this many characters. */
const DOWN_TEXT_MAX = 300;
/** Below this width a screen is a phone (CSS pixels). */
const PHONE = 600;
/** Room below the tiles (CSS pixels). */
const BELOW = 96;
const PARTS = { measure: "#metric", find: "#find", problem: "#find-problem", group: "#group", frame: ".tiles", lists: ["#metric", "#mark"], sort: "sort" };

export class ClusterView extends NodesView {
  /** As NodesView. */
  constructor(root, asked, on) {
    super(root, asked, on, PARTS, {
      nodes: (data) => this.takeNodes(data),
      tiles: (data) => this.takeTiles(data),
      state: (state, reason) => this.takeState(state, reason),
    });
    this.sortedAt = -Infinity;
    /** Since when numbers come; NaN while there are none, and who is down is not known either. */
    this.currentSince = NaN;
    /** Messages with numbers since the view was opened. */
    this.messages = 0;
    this.past = new TilePast();
    this.map = new TileMap(this.find(".tiles"), this.nodes, this.ended.signal, {
      open: (node) => on.open(this.nodes.names[node]),
      choose: (node) => this.choice.toggle(this.nodes.names[node]),
      move: () => this.writeTip(),
    });
    Object.assign(this.map, { choice: this.choice, past: this.past });
    on.name("All nodes");
    this.find("[data-sort='group']").hidden = !this.groups.some;
    const measure = measureOf(asked.get("metric"));
    this.fillMeasures(measure, asked.get("metric"));
    this.observe();
    this.choose(measure);
    this.mark = new TileMark(this.find("#mark"), asked.get("mark"), this.ended.signal, {
      chosen: () => this.showControls(),
      changed: () => this.show(),
    });
    this.showControls();
  }

  /** Colours, or what is chosen, have changed. */
  repaint() {
    this.map?.refresh();
  }

  /** For paper, which waits for no frame. */
  paintNow() {
    this.map.paint();
  }

  /** Shows another quantity: what was known of the last one is not known of this. */
  choose(measure) {
    this.measure = measure;
    this.scale = new TileScale(measure);
    this.map.scale = this.scale;
    this.forget();
    this.stream.open(addressOf(measure));
    this.showControls();
  }

  showControls() {
    const hash = new URLSearchParams(this.showChoices());
    if (this.measure !== MEASURE_DEFAULT) hash.set("metric", this.measure.id);
    if (this.mark?.measure) hash.set("mark", this.mark.measure.id);
    this.on.address(hash.toString());
    linkViews(this.find(".views"), "tiles", { measure: this.measure, find: this.search, group: this.group });
  }

  takeNodes({ nodes: names, unit }) {
    const pointed = this.nodes.names[this.map.node];
    Object.assign(this.nodes, { names, unit, values: new Float64Array(names.length).fill(NaN), down: new Uint8Array(names.length) });
    this.currentSince = NaN;
    this.past.begin(names.length);
    this.isPastWanted = this.past.count > 0;
    this.map.format = this.format = formatOf(unit);
    this.map.node = names.indexOf(pointed);
    this.arrange();
  }

  takeTiles({ t, v, down, left = [], missing = [] }) {
    const { nodes } = this;
    const before = nodes.down.slice();
    this.messages++;
    for (let i = 0; i < nodes.values.length; i++) nodes.values[i] = v[i] ?? NaN;
    nodes.down.fill(0);
    for (const at of down) nodes.down[at] = 1;
    for (const at of left) nodes.down[at] = 2;
    for (const at of missing) nodes.down[at] = 3;
    this.past.take(nodes.values, Math.floor(Number(t)));
    const now = performance.now();
    this.scale.fit(nodes.values, isBinary(nodes.unit), now);
    if (Number.isNaN(this.currentSince)) this.currentSince = now;
    // The first numbers come one after the other: until all are there, order is worth more than rest.
    const isSettling = now - this.currentSince < RESORT_MS;
    const isOther = nodes.down.some((down, at) => (down === 0) !== (before[at] === 0));
    if (isOther || (this.sort === "value" && (isSettling || now - this.sortedAt > RESORT_MS))) this.arrange();
    this.show();
    this.on.seen();
    this.addCatalogue();
    if (this.isPastWanted) this.readPast();
  }

  /** What is now comes first: then there is time for the minute before. */
  readPast() {
    this.isPastWanted = false;
    this.past.read(addressOf(this.measure, { rate: 1, past: PAST_SECONDS }), this.nodes.names, this.ended.signal, () => this.show());
  }

  takeState(state, reason) {
    // Numbers that nobody renews are no longer what is now.
    if (state === "waiting") this.forget();
    this.on.state(state, reason);
  }

  forget() {
    this.nodes.values.fill(NaN);
    this.nodes.down.fill(0);
    this.currentSince = NaN;
    this.show();
  }

  /** Which nodes are shown, and where. */
  arrange() {
    const { names, values, down } = this.nodes;
    this.choosePositions(names);
    const rank = (at) => (Number.isNaN(values[at]) ? -1 : values[at]);
    const up = this.shown.filter((at) => !down[at]);
    const gone = this.sorted(this.shown.filter((at) => down[at]), names);
    const groups = {
      value: () => [{ label: "", nodes: up.sort((a, b) => rank(b) - rank(a)) }],
      name: () => groupsByName(names, up),
      group: () => this.groups.blocks(names, up),
    }[this.sort]();
    // What is wrong comes first.
    if (gone.length > 0) groups.unshift({ label: `down  ·  ${count(gone.length)}`, nodes: gone });
    this.sortedAt = performance.now();
    const width = this.find(".tiles").clientWidth;
    // A phone scrolls anyway: names are worth a screen of their own.
    const least = width < PHONE ? innerHeight : ROOM_MIN;
    this.map.arrange(new Layout(groups, width, Math.max(this.room(BELOW), least)));
    this.writeFacts();
  }

  show() {
    this.writeFacts();
    this.writeLegend();
    this.writeTip();
    this.map.refresh();
  }

  writeFacts() {
    const { names } = this.nodes;
    const isCurrent = !Number.isNaN(this.currentSince);
    const facts = totalsOf(this.nodes, this.shown);
    const { known, unknown, highest, gone } = facts;
    const [fell, left, missing] = gone;
    Object.assign(this, { known, unknown, down: isCurrent ? fell.length : NaN, missing: missing.length, highest: names[highest] });
    writeTotals(this.nodes, this.shown.length, facts, isCurrent, this.format);
    // Down ones stand alone; those that left, and those that were never seen, say so.
    const parts = gone.map((some, at) => (some.length === 0 ? "" : `${at === 0 ? "" : `${GONE[at + 1]}: `}${fold(some)}`));
    const folded = parts.filter((part) => part !== "").join("; ");
    const cut = ` ${folded.length > DOWN_TEXT_MAX ? `${folded.slice(0, DOWN_TEXT_MAX)}…` : folded}`;
    const list = this.find(".down-list");
    list.hidden = folded === "";
    if (list.lastChild.data !== cut) list.lastChild.data = cut;
    this.find(".down-swatch").lastChild.data = `down (${count(this.down)})`;
    this.find(".unknown-swatch").lastChild.data = `unknown (${count(unknown)})`;
    const words = `${count(this.shown.length)} nodes coloured by ${this.measure.label}: ${isCurrent ? count(fell.length) : "nobody knows how many"} down, ${count(unknown)} unknown${left.length > 0 ? `, ${count(left.length)} left` : ""}${missing.length > 0 ? `, ${count(missing.length)} missing` : ""}`;
    label(this.map.canvas, words);
  }

  writeLegend() {
    const { mark } = this;
    this.map.mark = mark?.measure ? mark : null;
    const key = this.find(".mark-key");
    key.hidden = !mark?.measure;
    if (mark?.measure) {
      const text = ` ${mark.measure.label}, 0 to ${mark.format(mark.scale.top)}${mark.scale.beyond ? " or more" : ""}`;
      if (key.lastChild.data !== text) key.lastChild.data = text;
    }
    this.writeScale();
  }

  /** Name and value of the tile pointed at. */
  writeTip() {
    const { node, layout } = this.map;
    const tip = this.find(".tile-tip");
    const place = layout?.placeOf.get(node);
    if (tip.hidden !== (place === undefined)) tip.hidden = place === undefined;
    if (place === undefined) return;
    const { names, values, down } = this.nodes;
    const value = down[node] ? GONE[down[node]] : Number.isNaN(values[node]) ? "unknown" : this.format(values[node]);
    const { mark } = this;
    const second = mark?.fits(names) && !down[node] ? `  ·  ${mark.measure.label} ${mark.format(mark.values[node])}` : "";
    const text = `${names[node]}  ${value}${second}${this.map.touched === node && !layout.size.font ? "  ·  touch again to open" : ""}`;
    put(tip, text);
    const [x, y] = layout.corner(place);
    const width = this.find(".tiles").clientWidth;
    tip.style.left = `${Math.min(Math.max(0, x + layout.width / 2 - tip.offsetWidth / 2), Math.max(0, width - tip.offsetWidth))}px`;
    tip.style.top = `${y + layout.height + 6}px`;
  }

  /** For tests: the number that a node's line has `back` seconds ago. */
  before(name, back) {
    return this.past.at(this.nodes.names.indexOf(name), back);
  }

  /** For tests: where the tile of a node is, in CSS pixels of the canvas, and what it shows. */
  tile(name) {
    const at = this.nodes.names.indexOf(name);
    const place = this.map.layout?.placeOf.get(at);
    if (place === undefined) return null;
    const [x, y] = this.map.layout.corner(place);
    const { width, height } = this.map.layout;
    return { x, y, width, height, value: this.nodes.values[at], down: this.nodes.down[at] !== 0, step: this.scale.step(this.nodes.values[at]), font: this.map.layout.size.font ?? 0, mark: this.map.mark?.fits(this.nodes.names) ? this.mark.share(at) : null };
  }
}
