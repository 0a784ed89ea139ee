// The tiles on their canvas: one paint for each message of the server, no element for any node. A node that is down
// is crossed out, one whose number is unknown is hollow, so that neither needs a colour to be told. It refuses to
// know where numbers come from.

import { fit } from "./plot.js";
import { colours } from "./theme-colours.js";

/** Below this a cross has no room: a diagonal is drawn. */
const CROSS_MIN = 8;
const LABEL_FONT = "11px system-ui, sans-serif";
const NAME_FONT = "600 12px system-ui, sans-serif";
const VALUE_FONT = "12px system-ui, sans-serif";

/** Words for nodes that are not there, as `down` numbers them. */
export const GONE = ["", "down", "left", "missing"];

export class TileMap {
  /**
   * `nodes` has names, values (NaN is unknown), down; `signal` ends the map; `on` hears open(node), and move() when
   * another tile is pointed at.
   */
  constructor(frame, nodes, signal, on) {
    this.frame = frame;
    this.nodes = nodes;
    this.on = on;
    this.canvas = frame.querySelector("canvas");
    this.context = this.canvas.getContext("2d");
    this.cursor = frame.querySelector(".tile-cursor");
    this.layout = null;
    this.scale = null;
    this.format = String;
    /** Node pointed at; -1: none. */
    this.node = -1;
    this.repaints = 0;
    /** Milliseconds that all of them took. */
    this.paintMs = 0;
    this.pending = 0;
    /** Nodes that the last paint crossed out. */
    this.crosses = 0;
    this.listen(signal);
  }

  listen(signal) {
    const { canvas } = this;
    const hear = (name, then) => canvas.addEventListener(name, then, { signal });
    hear("pointermove", (event) => this.point(this.nodeUnder(event)));
    hear("pointerleave", () => {
      if (document.activeElement !== canvas) this.point(-1);
    });
    hear("blur", () => this.point(-1));
    hear("focus", () => {
      if (this.node < 0 && canvas.matches(":focus-visible")) this.point(this.layout?.order[0] ?? -1);
    });
    hear("click", (event) => {
      const node = this.nodeUnder(event);
      if (node >= 0) this.on.open(node);
    });
    hear("keydown", (event) => this.key(event));
    signal.addEventListener("abort", () => cancelAnimationFrame(this.pending));
  }

  nodeUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const place = this.layout?.at(event.clientX - box.left, event.clientY - box.top) ?? -1;
    return place < 0 ? -1 : this.layout.order[place];
  }

  key(event) {
    if (!this.layout?.order.length || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter") {
      if (this.node >= 0) this.on.open(this.node);
    } else if (event.key === "Escape") {
      this.point(-1);
    } else if (/^(Arrow|Home$|End$)/.test(event.key)) {
      const place = this.layout.placeOf.get(this.node);
      const next = place === undefined ? 0 : this.layout.neighbour(place, event.key);
      this.point(this.layout.order[next]);
      this.cursor.scrollIntoView({ block: "nearest" });
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Points at a node. */
  point(node) {
    if (node === this.node) return;
    this.node = node;
    this.mark();
    this.on.move();
  }

  /** Puts the frame around the tile that is pointed at. */
  mark() {
    const place = this.layout?.placeOf.get(this.node);
    this.cursor.hidden = place === undefined;
    if (place === undefined) return;
    const [x, y] = this.layout.corner(place);
    const { style } = this.cursor;
    style.transform = `translate(${x}px, ${y}px)`;
    style.width = `${this.layout.width}px`;
    style.height = `${this.layout.height}px`;
  }

  /** Another arrangement of the tiles. */
  arrange(layout) {
    this.layout = layout;
    this.frame.style.height = `${Math.max(1, layout.total)}px`;
    if (!layout.placeOf.has(this.node)) this.point(-1);
    this.mark();
    this.refresh();
  }

  /** Paints with the next frame, once however often it is asked. */
  refresh() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.paint();
    });
  }

  paint() {
    const { canvas, context: c, layout } = this;
    if (!layout || !this.scale || canvas.clientWidth === 0) return;
    const start = performance.now();
    fit(canvas);
    const density = canvas.width / canvas.clientWidth;
    c.setTransform(density, 0, 0, density, 0, 0);
    c.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    this.paintLabels(c);
    this.paintTiles(c);
    if (layout.size.text) this.paintTexts(c);
    this.repaints++;
    this.paintMs += performance.now() - start;
  }

  paintLabels(c) {
    c.font = LABEL_FONT;
    c.fillStyle = colours.muted;
    c.textBaseline = "alphabetic";
    for (const { label, top } of this.layout.blocks) if (label) c.fillText(label, 0, top - 6);
  }

  /** Tiles of one colour are one path: four thousand rectangles cost some two milliseconds. */
  paintTiles(c) {
    const { layout, nodes, scale } = this;
    const { width, height } = layout;
    const paths = new Map();
    this.crosses = 0;
    const path = (key) => paths.get(key) ?? paths.set(key, new Path2D()).get(key);
    layout.order.forEach((node, place) => {
      const [x, y] = layout.corner(place);
      if (nodes.down[node]) {
        path("down").rect(x, y, width, height);
        this.crosses++;
        cross(path("cross"), x, y, width, height);
      } else if (Number.isNaN(nodes.values[node])) {
        path("unknown").rect(x + 0.5, y + 0.5, width - 1, height - 1);
      } else {
        path(scale.step(nodes.values[node])).rect(x, y, width, height);
      }
    });
    for (const [key, shape] of paths) {
      if (key === "cross" || key === "unknown") continue;
      c.fillStyle = key === "down" ? colours.downSurface : colours.tiles[key].fill;
      c.fill(shape);
    }
    c.lineWidth = 1;
    c.strokeStyle = colours.faint;
    if (paths.has("unknown")) c.stroke(paths.get("unknown"));
    c.lineWidth = Math.min(2, Math.max(1.25, height / 12));
    c.strokeStyle = colours.down;
    if (paths.has("cross")) c.stroke(paths.get("cross"));
  }

  paintTexts(c) {
    const { layout, nodes } = this;
    const room = layout.width - 12;
    layout.order.forEach((node, place) => {
      const [x, y] = layout.corner(place);
      const down = nodes.down[node];
      const value = nodes.values[node];
      const known = !down && !Number.isNaN(value);
      c.fillStyle = known ? colours.tiles[this.scale.step(value)].ink : colours.ink;
      c.font = NAME_FONT;
      c.fillText(shortened(c, nodes.names[node], room), x + 6, y + layout.height / 2 - 4);
      c.font = VALUE_FONT;
      c.fillText(down ? GONE[down] : known ? this.format(value) : "unknown", x + 6, y + layout.height / 2 + 12);
    });
  }
}

/** The mark of a node that is down: seen without colours, at any size. */
function cross(path, x, y, width, height) {
  const inset = width > 60 ? 0 : 1;
  const right = x + width - inset;
  // In a wide tile, which has words, the mark keeps to the right.
  const left = width > 60 ? right - height : x + inset;
  path.moveTo(left + (width > 60 ? 10 : 0), y + inset + (width > 60 ? 10 : 0));
  path.lineTo(right - (width > 60 ? 10 : 0), y + height - inset - (width > 60 ? 10 : 0));
  if (width < CROSS_MIN) return;
  path.moveTo(right - (width > 60 ? 10 : 0), y + inset + (width > 60 ? 10 : 0));
  path.lineTo(left + (width > 60 ? 10 : 0), y + height - inset - (width > 60 ? 10 : 0));
}

/** The end of a name tells nodes apart, so the front gives way. */
export function shortened(c, text, room) {
  if (c.measureText(text).width <= room) return text;
  let from = 1;
  while (from < text.length && c.measureText(`…${text.slice(from)}`).width > room) from++;
  return `…${text.slice(from)}`;
}
