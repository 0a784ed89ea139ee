// The picture of the waterfall: a row a node, time to the left. A hidden image has one pixel a cell; a cell is written
// there once, when its row comes. The canvas is shifted by copying itself, and only the steps that are new or changed are
// copied from the image. It refuses to know where numbers come from.

import { fit, shortened } from "./canvas.js";
import { colours } from "./theme-colours.js";
import { DOWN, KNOWN, LEFT, MISSING, UNKNOWN } from "./waterfall-cells.js";

/** CSS pixels of a step, by its length (s): some minutes, a minute, ten seconds are on a screen. */
const STEP_PIXELS = [[0.5, 4], [0.04, 2], [0, 1]];
const FONT = "11px system-ui, sans-serif";
/** Where names have room (CSS pixels), on a screen and on a phone. */
const NAMES_WIDTH = 132;
const NAMES_WIDTH_SMALL = 78;
const SMALL = 500;
/** Rows from this height on (CSS pixels) are set apart by a line. */
const LINED_FROM = 8;

export class WaterfallPicture {
  /** `frame` has the canvases; `cells` are shown; `signal` ends it. */
  constructor(frame, cells, signal) {
    this.frame = frame;
    this.cells = cells;
    this.canvas = frame.querySelector(".fall-cells");
    this.context = this.canvas.getContext("2d");
    this.names = frame.querySelector(".fall-names");
    this.image = document.createElement("canvas");
    this.imageContext = this.image.getContext("2d");
    this.layout = null;
    this.scale = null;
    /** The nodes that are chosen to be compared. */
    this.choice = null;
    this.stale = true;
    /** The newest step that is painted. */
    this.painted = -1;
    this.pending = 0;
    /** Paints of everything, and those that copied what was there. */
    this.repaints = 0;
    this.copies = 0;
    signal.addEventListener("abort", () => cancelAnimationFrame(this.pending));
  }

  /** CSS pixels of a step. */
  get stepWidth() {
    return STEP_PIXELS.find(([seconds]) => this.cells.periodSeconds >= seconds)[1];
  }

  /** Steps that the canvas has room for. */
  get shown() {
    return Math.min(this.cells.columns, Math.floor(this.canvas.clientWidth / this.stepWidth));
  }

  /** Another order or height of the rows. */
  arrange(layout) {
    this.layout = layout;
    const width = this.frame.clientWidth < SMALL ? NAMES_WIDTH_SMALL : NAMES_WIDTH;
    this.namesWidth = width;
    // The times below keep to the right of the names, too.
    this.frame.parentElement.style.setProperty("--names", `${width}px`);
    this.frame.style.height = `${Math.max(1, layout.total)}px`;
    this.repaint();
  }

  /** Everything is to be painted: colours, scale or order are others. */
  repaint() {
    this.stale = true;
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
    const { canvas, cells, layout } = this;
    if (!layout || !this.scale || canvas.clientWidth === 0 || layout.order.length === 0) return;
    if (fit(canvas)) this.stale = true;
    this.density = canvas.width / canvas.clientWidth;
    this.stepPixels = Math.max(1, Math.round(this.stepWidth * this.density));
    const oldest = cells.edge - this.shown + 1;
    let from = Math.min(cells.seen(), this.painted + 1);
    if (this.stale || this.painted < oldest) {
      from = oldest;
      this.context.clearRect(0, 0, canvas.width, canvas.height);
      this.paintNames();
      this.repaints++;
    } else {
      this.shift(cells.edge - this.painted);
      this.copies++;
    }
    from = Math.max(from, oldest, cells.first);
    if (this.stale) this.makeImage();
    this.writeImage(this.stale ? Math.max(cells.first, cells.edge - cells.columns + 1) : from, cells.edge);
    this.paintSteps(from, cells.edge);
    this.painted = cells.edge;
    this.stale = false;
  }

  /** Moves what is painted to the left. */
  shift(steps) {
    if (steps === 0) return;
    const c = this.context;
    c.globalCompositeOperation = "copy";
    c.drawImage(this.canvas, -steps * this.stepPixels, 0);
    c.globalCompositeOperation = "source-over";
  }

  makeImage() {
    const { image, cells, layout } = this;
    const rows = layout.order.length;
    if (image.width === cells.columns && image.height === rows && this.pixels) return;
    image.width = cells.columns;
    image.height = rows;
    this.pixels = this.imageContext.createImageData(cells.columns, rows);
    this.words = new Uint32Array(this.pixels.data.buffer);
  }

  /** Writes the pixels of these steps. */
  writeImage(from, to) {
    const { cells, words, layout, scale } = this;
    if (from > to) return;
    const { columns, mask, states, values } = cells;
    const scaleWords = colours.tileWords;
    layout.order.forEach((at, row) => {
      for (let step = from; step <= to; step++) {
        const i = step & mask;
        const cell = at * columns + i;
        const state = states[cell];
        words[row * columns + i] = state === KNOWN ? scaleWords[scale.step(values[cell])] : pattern(state, i, row);
      }
    });
    for (const { at, length } of this.pieces(from, to)) this.imageContext.putImageData(this.pixels, 0, 0, at, 0, length, layout.order.length);
  }

  /** These steps as neighbours in the ring: {at, length, step}. */
  pieces(from, to) {
    const { columns, mask } = this.cells;
    const pieces = [];
    for (let step = from; step <= to; ) {
      const at = step & mask;
      const length = Math.min(to - step + 1, columns - at);
      pieces.push({ at, length, step });
      step += length;
    }
    return pieces;
  }

  paintSteps(from, to) {
    const { canvas, context: c, image, layout, density, stepPixels } = this;
    if (from > to) return;
    const x = (step) => canvas.width - (this.cells.edge - step + 1) * stepPixels;
    const rowPixels = Math.round(layout.rowHeight * density);
    c.clearRect(x(from), 0, canvas.width, canvas.height);
    c.imageSmoothingEnabled = false;
    for (const { top, first, count } of layout.blocks) {
      if (count === 0) continue;
      const y = Math.round(top * density);
      for (const { at, length, step } of this.pieces(from, to)) {
        c.drawImage(image, at, first, length, count, x(step), y, length * stepPixels, count * rowPixels);
      }
      if (layout.rowHeight < LINED_FROM) continue;
      for (let row = 1; row <= count; row++) c.clearRect(x(from), y + row * rowPixels - Math.round(density), canvas.width, Math.round(density));
    }
  }

  /** Headings over all, and names where they have room. */
  paintNames() {
    const { names, layout } = this;
    const c = names.getContext("2d");
    fit(names);
    const density = names.width / names.clientWidth;
    c.setTransform(density, 0, 0, density, 0, 0);
    c.clearRect(0, 0, names.clientWidth, names.clientHeight);
    c.font = FONT;
    const room = this.namesWidth - 8;
    for (const { label, top, first, count } of layout.blocks) {
      c.textBaseline = "alphabetic";
      c.fillStyle = colours.ink;
      if (label) c.fillText(label, 0, top - 6);
      c.textBaseline = "middle";
      c.fillStyle = colours.muted;
      for (let row = 0; row < count; row += layout.nameEvery) {
        // The name stands beside the first of the rows that have it.
        const middle = top + row * layout.rowHeight + Math.max(layout.rowHeight, 10) / 2;
        c.fillText(shortened(c, this.cells.names[layout.order[first + row]], room), 0, middle);
      }
      // A mark beside the rows that are chosen.
      c.fillStyle = colours.ink;
      for (let row = 0; row < count; row++) {
        if (this.choice?.has(this.cells.names[layout.order[first + row]])) c.fillRect(room + 3, top + row * layout.rowHeight, 4, Math.max(2, layout.rowHeight - 1));
      }
    }
  }

  /** Draws all that is shown on other canvases: layer(left) gives one, without what is left of it. */
  drawOn(layer) {
    const [names, cells] = [layer(), layer(this.namesWidth)];
    const frame = { querySelector: (selector) => (selector === ".fall-names" ? names : cells) };
    const twin = new WaterfallPicture(frame, this.cells, new AbortController().signal);
    const { layout, scale, choice, namesWidth } = this;
    Object.assign(twin, { layout, scale, choice, namesWidth });
    twin.paint();
    // The twin has taken the changes that this one has not seen.
    this.repaint();
  }

  /** Where round times are below a picture `width` CSS pixels wide; marksOf(from, to, width) knows those of a part of it. */
  marksIn(to, width, marksOf) {
    const room = width - this.namesWidth;
    const steps = Math.min(this.cells.columns, Math.floor(room / this.stepWidth));
    const from = to - (room / this.stepWidth) * this.cells.periodSeconds;
    return steps > 0 ? marksOf(from, to, room).map(({ share, text }) => ({ share: (this.namesWidth + share * room) / width, text })) : [];
  }

  /** The cell under a point of the canvas (CSS pixels): {node, back}, `back` steps before the newest; null: none. */
  under(x, y) {
    const row = this.layout?.at(y) ?? -1;
    const back = Math.floor((this.canvas.clientWidth - x) / this.stepWidth);
    return row < 0 || back < 0 || back >= this.shown ? null : { node: this.layout.order[row], back };
  }

  /** Left and upper edge of a cell in the canvas (CSS pixels), and its size. */
  place({ node, back }) {
    const row = this.layout?.rowOf.get(node);
    if (row === undefined) return null;
    const { stepWidth, layout } = this;
    return { x: this.canvas.clientWidth - (back + 1) * stepWidth, y: layout.top(row), width: stepWidth, height: layout.rowHeight };
  }
}

/** Cells without a number: each kind has a pattern of its own, so that none needs its colour to be told. Clear ones show the paper. */
function pattern(state, column, row) {
  const { marks } = colours;
  if (state >= DOWN) return ((column + row) & 3) === 0 ? { [DOWN]: marks.down, [LEFT]: marks.muted, [MISSING]: marks.faint }[state] : marks.downSurface;
  if (state === UNKNOWN) return ((column + row) & 1) === 0 ? marks.faint : 0;
  return 0;
}
