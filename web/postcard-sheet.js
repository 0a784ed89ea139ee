// The sheet of a postcard: heading, charts with their legends, and at the foot the address and the time. It is laid out once, and
// drawn on pixels or as SVG by the charts' own code. It refuses to know what the charts show.

import { shortened } from "./canvas.js";
import { SvgContext } from "./svg-context.js";
import { colours } from "./theme-colours.js";

/** CSS pixels of a sheet: as wide as the page was, within these. */
const WIDTH_MIN = 320;
const WIDTH_MAX = 1_800;
const MARGIN = 24;
const GAP = 20;
const TITLE = { font: "600 20px system-ui, sans-serif", line: 28 };
const TIME = { font: "13px system-ui, sans-serif", line: 24 };
const NAME = { font: "600 13px system-ui, sans-serif", line: 20 };
const WORDS = { font: "12px system-ui, sans-serif", line: 17 };
const FOOT = { font: "11px system-ui, sans-serif", line: 15 };
const MARKS_LINE = 15;
const SWATCH = 9;
const LEGEND_GAP = 14;
/** Pixels of a picture for each CSS pixel, and what a browser can draw. */
const DENSITY = 2;
const SIDE_MAX = 16_000;
const PIXELS_MAX = 64e6;
/** Layers of a chart: axes, trace, names. */
const LAYERS_MAX = 4;

const widthOf = (width) => Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, Math.round(width)));

/** The width that a part has if it takes all of it, on a sheet of a page so wide. */
export const inside = (width) => widthOf(width) - 2 * MARGIN;

export class Sheet {
  /**
   * `card`: {title, time, foot, width, parts}; a part is {title, legend: [{label, text, colour, dashed}], note, share, height, marks, draw}.
   * `share`: of the width of the page; marks(width): the times below it; draw(layer, width) draws: layer(left?) is a canvas as large as
   * the part, without what is left of it.
   */
  constructor(card) {
    this.card = card;
    this.width = widthOf(card.width);
    this.measure = document.createElement("canvas").getContext("2d");
    this.place();
  }

  place() {
    const room = this.width - 2 * MARGIN;
    let [x, y, below] = [0, MARGIN + TITLE.line + TIME.line + GAP / 2, 0];
    this.placed = [];
    for (const part of this.card.parts) {
      const width = Math.min(room, Math.round(part.share * (room + GAP) - GAP));
      if (x > 0 && x + width > room + 1) [x, y, below] = [0, y + below + GAP, 0];
      const legend = this.legendOf(part, width);
      const chart = NAME.line + legend.height;
      const marks = part.marks?.(width) ?? [];
      const height = chart + part.height + (marks.length ? MARKS_LINE : 0) + (part.note ? WORDS.line : 0);
      this.placed.push({ part, x: MARGIN + x, y, width, legend, chart, marks });
      x += width + GAP;
      below = Math.max(below, height);
    }
    this.foot = y + below + GAP;
    this.measure.font = FOOT.font;
    this.footLines = this.card.foot.flatMap((text) => this.broken(text, room));
    this.height = this.foot + this.footLines.length * FOOT.line + MARGIN / 2;
  }

  /** Where the entries of a legend stand: below the title, in as many lines as they need. */
  legendOf({ legend }, width) {
    this.measure.font = WORDS.font;
    const entries = [];
    let [x, line] = [0, 0];
    for (const { label, text, colour, dashed } of legend) {
      const words = [label, text].filter((part) => part).join(" ");
      const wide = (colour ? SWATCH + 5 : 0) + Math.min(width - SWATCH - 5, this.measure.measureText(words).width);
      if (x > 0 && x + wide > width) [x, line] = [0, line + 1];
      entries.push({ x, line, colour, dashed, words });
      x += wide + LEGEND_GAP;
    }
    return { entries, height: legend.length ? (line + 1) * WORDS.line + 2 : 0 };
  }

  /** A text in lines that fit, broken anywhere: an address has no spaces. */
  broken(text, room) {
    const lines = [];
    for (let rest = text; rest; ) {
      let length = rest.length;
      while (length > 1 && this.measure.measureText(rest.slice(0, length)).width > room) length = Math.min(length - 1, Math.ceil(length * 0.95));
      lines.push(rest.slice(0, length));
      rest = rest.slice(length);
    }
    return lines;
  }

  draw(target) {
    const { context: c } = target;
    const { card } = this;
    const room = this.width - 2 * MARGIN;
    const write = ({ font }, colour, text, x, y, most = room) => {
      c.font = font;
      c.fillStyle = colour;
      c.textAlign = "left";
      c.textBaseline = "alphabetic";
      c.fillText(shortened(c, text, most), x, y);
    };
    c.fillStyle = colours.surface;
    c.fillRect(0, 0, this.width, this.height);
    write(TITLE, colours.ink, card.title, MARGIN, MARGIN + 16);
    write(TIME, colours.muted, card.time, MARGIN, MARGIN + TITLE.line + 12);
    for (const { part, x, y, width, legend, chart, marks } of this.placed) {
      write(NAME, colours.ink, part.title, x, y + 13, width);
      for (const entry of legend.entries) {
        const base = y + NAME.line + entry.line * WORDS.line + 11;
        const [left, inset] = [x + entry.x, entry.colour ? SWATCH + 5 : 0];
        c.fillStyle = entry.colour ?? colours.ink;
        if (entry.colour) c.fillRect(left, base - (entry.dashed ? 5 : SWATCH), SWATCH, entry.dashed ? 3 : SWATCH);
        write(WORDS, colours.muted, entry.words, left + inset, base, width - inset);
      }
      target.chart(part, x, y + chart, width);
      const below = y + chart + part.height;
      this.writeMarks(c, marks, x, below, width);
      if (part.note) write(WORDS, colours.muted, part.note, x, below + (marks.length ? MARKS_LINE : 0) + 13, width);
    }
    this.footLines.forEach((line, i) => write(FOOT, colours.muted, line, MARGIN, this.foot + (i + 1) * FOOT.line));
  }

  writeMarks(c, marks, x, y, width) {
    c.font = FOOT.font;
    c.fillStyle = colours.muted;
    c.textBaseline = "alphabetic";
    for (const { share, text } of marks) {
      const half = c.measureText(text).width / 2;
      const at = share * width;
      c.textAlign = at < half ? "left" : at > width - half ? "right" : "center";
      c.fillText(text, x + (at < half ? 0 : at > width - half ? width : at), y + 12);
    }
    c.textAlign = "left";
  }

  /** As a PNG file. */
  async png() {
    const density = Math.min(DENSITY, SIDE_MAX / Math.max(this.width, this.height), Math.sqrt(PIXELS_MAX / (this.width * this.height)));
    const canvas = pixels(this.width, this.height, density);
    const context = canvas.getContext("2d");
    context.scale(density, density);
    const layers = (part, x, y, width) => {
      drawLayers(part, width, (w, h) => layerOf(w, h, density, pixels(w, h, density)), (layer, left) => context.drawImage(layer.canvas, x + left, y, layer.clientWidth, layer.clientHeight));
    };
    this.draw({ context, chart: layers });
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("the picture is too large for this browser");
    return blob;
  }

  /** As an SVG file. */
  svg() {
    const context = new SvgContext(this.width, this.height, colours.surface);
    const layers = (part, x, y, width) => {
      drawLayers(part, width, (w, h) => layerOf(w, h, 1, new SvgContext(w, h, colours.surface)), (layer, left) => context.insert(layer.context, x + left, y));
    };
    this.draw({ context, chart: layers });
    return new Blob([context.text({ title: this.card.title, text: [this.card.time, ...this.card.foot].join("\n") })], { type: "image/svg+xml" });
  }
}

/** Lets a part draw on layers, and puts them over each other in the order in which it asked for them. */
function drawLayers({ height, draw }, width, make, put) {
  const made = [];
  draw((left = 0) => {
    if (made.length === LAYERS_MAX) throw new Error(`BUG: a chart has more than ${LAYERS_MAX} layers`);
    const layer = make(width - left, height);
    made.push([layer, left]);
    return layer;
  }, width);
  for (const [layer, left] of made) put(layer, left);
}

function pixels(width, height, density) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  return canvas;
}

/** What a chart takes for its canvas: `on` is a canvas, or a context that writes down. */
function layerOf(width, height, density, on) {
  const isCanvas = on instanceof HTMLCanvasElement;
  const context = isCanvas ? on.getContext("2d") : on;
  // As wide as fit() makes a canvas, so that nothing is cleared by it.
  const size = { width: Math.max(1, Math.round(width * density)), height: Math.max(1, Math.round(height * density)) };
  return { clientWidth: width, clientHeight: height, density, ...size, canvas: on, context, getContext: () => context };
}
