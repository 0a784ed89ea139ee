// The tiles on their canvas: one paint for each message of the server, no element for any node. A node that is down
// is crossed out, one whose number is unknown is hollow, so that neither needs a colour to be told. It refuses to
// know where numbers come from.

import { fit, pathFor, shortened } from "./canvas.js";
import { colours } from "./theme-colours.js";
import { PAST_SECONDS } from "./tile-past.js";

/** Below this a cross has no room: a diagonal is drawn. */
const CROSS_MIN = 8;
const LABEL_FONT = "11px system-ui, sans-serif";
/** Between the edge of a tile and what stands in it. */
const INSET = 6;
/** Height of the bar of the second number, in tiles with names and in others. */
const MARK_HEIGHT = 4;
const MARK_HEIGHT_SMALL = 2;

/** Words for nodes that are not there, as `down` numbers them. */
export const GONE = ["", "down", "left", "missing"];

export class TileMap {
  /**
   * `nodes` has names, values (NaN is unknown), down; `signal` ends the map; `on` hears open(node), choose(node), and move()
   * when another tile is pointed at.
   */
  constructor(frame, nodes, signal, on) {
    this.frame = frame;
    this.nodes = nodes;
    this.on = on;
    this.canvas = frame.querySelector("canvas");
    this.cursor = frame.querySelector(".tile-cursor");
    this.layout = null;
    this.scale = null;
    /** The last minute of each node, and its second number, where there are such. */
    this.past = null;
    this.mark = null;
    /** The nodes that are chosen to be compared. */
    this.choice = null;
    this.format = String;
    /** Node pointed at; -1: none. The last one touched. */
    this.node = -1;
    this.touched = -1;
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
    hear("pointerleave", (event) => {
      // A finger that is lifted has left, too: what it pointed at stays, to be read.
      if (document.activeElement !== canvas && event.pointerType !== "touch") this.point(-1);
    });
    hear("blur", () => this.point(-1));
    hear("focus", () => {
      if (this.node < 0 && canvas.matches(":focus-visible")) this.point(this.layout?.order[0] ?? -1);
    });
    hear("click", (event) => {
      const node = this.nodeUnder(event);
      const isShown = event.pointerType !== "touch" || this.layout?.size.font || node === this.touched;
      this.touched = node;
      if (node < 0) return;
      if (event.shiftKey || this.choice?.isChoosing) {
        this.point(node);
        return this.on.choose(node);
      }
      // A finger sees the name first: in the tile, or in the tip after the first touch.
      if (isShown) this.on.open(node);
      else this.point(node);
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
    if (event.key === " " || (event.key === "Enter" && event.shiftKey)) {
      if (this.node >= 0) this.on.choose(this.node);
    } else if (event.key === "Enter") {
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
    this.frameTile();
    this.on.move();
  }

  /** Puts the frame around the tile that is pointed at. */
  frameTile() {
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
    this.frameTile();
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
    if (!this.layout || !this.scale || this.canvas.clientWidth === 0) return;
    const start = performance.now();
    this.draw(this.canvas);
    this.repaints++;
    this.paintMs += performance.now() - start;
  }

  /** Paints on a canvas. */
  draw(canvas) {
    const c = canvas.getContext("2d");
    const { layout } = this;
    fit(canvas);
    const density = canvas.width / canvas.clientWidth;
    c.setTransform(density, 0, 0, density, 0, 0);
    c.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    this.paintLabels(c);
    this.paintTiles(c);
    if (layout.size.font) {
      this.paintPast(c);
      this.paintTexts(c);
    }
    this.paintMarks(c);
    this.paintChoice(c);
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
    const path = (key) => paths.get(key) ?? paths.set(key, pathFor(c)).get(key);
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

  /** Colours of what stands in a tile. */
  inkOf(node) {
    const { down, values } = this.nodes;
    return down[node] || Number.isNaN(values[node]) ? colours.ink : colours.tiles[this.scale.step(values[node])].ink;
  }

  paintTexts(c) {
    const { layout, nodes } = this;
    const { font, value: place } = layout.size;
    const room = layout.width - 2 * INSET;
    const base = font + 4;
    layout.order.forEach((node, at) => {
      const [x, y] = layout.corner(at);
      const down = nodes.down[node];
      const value = nodes.values[node];
      const text = down ? GONE[down] : Number.isNaN(value) ? "unknown" : this.format(value);
      c.fillStyle = this.inkOf(node);
      c.font = `${font}px system-ui, sans-serif`;
      const width = place === "beside" ? c.measureText(text).width + INSET : 0;
      if (place === "beside") c.fillText(text, x + layout.width - width, y + base);
      if (place === "below") c.fillText(text, x + INSET, y + base + font + 2);
      c.font = `600 ${font}px system-ui, sans-serif`;
      c.fillText(shortened(c, nodes.names[node], room - width), x + INSET, y + base);
    });
  }

  /** The last minute as a line, from 0 to the end of the scale. What is unknown is a gap. */
  paintPast(c) {
    const { layout, nodes, past, scale } = this;
    if (!past || past.count !== nodes.names.length) return;
    const { font, value } = layout.size;
    const top = font + 8 + (value === "below" ? font + 2 : 0);
    const height = layout.height - top - (this.mark ? MARK_HEIGHT + 3 : 4);
    const step = (layout.width - 2 * INSET) / (PAST_SECONDS - 1);
    c.lineWidth = 1.25;
    c.lineJoin = "round";
    layout.order.forEach((node, place) => {
      const [x, y] = layout.corner(place);
      const line = pathFor(c);
      let isOpen = false;
      for (let back = PAST_SECONDS - 1; back >= 0; back--) {
        const number = past.at(node, back);
        const isKnown = !Number.isNaN(number);
        const [px, py] = [x + layout.width - INSET - back * step, y + top + height * (1 - Math.min(1, Math.max(0, number / scale.top)))];
        if (isKnown && isOpen) line.lineTo(px, py);
        else if (isKnown) line.moveTo(px - 0.5, py), line.lineTo(px, py);
        isOpen = isKnown;
      }
      c.strokeStyle = this.inkOf(node);
      c.globalAlpha = 0.75;
      c.stroke(line);
    });
    c.globalAlpha = 1;
  }

  /** A double frame around those that are chosen: one of its lines is seen on any colour. */
  paintChoice(c) {
    const { layout, nodes, choice } = this;
    if (!choice?.names.length) return;
    for (const node of layout.order.filter((at) => choice.has(nodes.names[at]))) {
      const [x, y] = layout.corner(layout.placeOf.get(node));
      for (const [inset, colour] of [[1, colours.ink], [2.5, colours.surface]]) {
        c.strokeStyle = colour;
        c.lineWidth = inset === 1 ? 2 : 1;
        c.strokeRect(x + inset, y + inset, layout.width - 2 * inset, layout.height - 2 * inset);
      }
    }
  }

  /** The second number as a bar at the lower edge. One that is 0 has a bar of a pixel, one that is unknown has none. */
  paintMarks(c) {
    const { layout, nodes, mark } = this;
    if (!mark?.fits(nodes.names)) return;
    const height = layout.size.font ? MARK_HEIGHT : MARK_HEIGHT_SMALL;
    layout.order.forEach((node, place) => {
      const share = nodes.down[node] ? NaN : mark.share(node);
      if (Number.isNaN(share)) return;
      const [x, y] = layout.corner(place);
      c.fillStyle = this.inkOf(node);
      c.fillRect(x, y + layout.height - height, Math.max(1, share * layout.width), height);
    });
  }
}

/** The mark of a node that is down: seen without colours, at any size. In a wide tile, which has words, it keeps to the lower right. */
function cross(path, x, y, width, height) {
  const isWide = width > 60;
  const size = isWide ? Math.min(18, height / 3.2) : Math.min(width, height) - 2;
  const [w, h] = isWide ? [size, size] : [width - 2, height - 2];
  const [left, top] = isWide ? [x + width - size - INSET, y + height - size - INSET + 2] : [x + 1, y + 1];
  path.moveTo(left, top);
  path.lineTo(left + w, top + h);
  if (width < CROSS_MIN) return;
  path.moveTo(left + w, top);
  path.lineTo(left, top + h);
}
