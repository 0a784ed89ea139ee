// A chart of the answer to a query: lines over a time, with gaps where nothing is known. It refuses to smooth, to bridge gaps,
// and to know where the lines come from.

import { timeMarks } from "./moment.js";
import { fit } from "./canvas.js";
import { colours } from "./theme-colours.js";

/** Room for the numbers of the vertical axis and for the times below, CSS pixels. */
const LEFT = 52;
const BELOW = 20;
const ABOVE = 8;
const RIGHT = 8;
/** Half of a point that stands alone: more than a line's width. */
const DOT = 2;
/** CSS pixels between two lines of the grid, at least. */
const ROW = 36;
const COLUMN = 84;
const SIGNS = ["", "k", "M", "G", "T", "P"];

export class QueryChart {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.show([], 0, 1);
  }

  /** `lines`: [{runs, colour, dashed}], of the time from `start` to `end` (s); `moments` are marked from top to bottom. */
  show(lines, start, end, moments = []) {
    Object.assign(this, { lines, start, end, moments });
    this.scale = verticalScale(lines, Math.max(2, Math.floor(this.canvas.clientHeight / ROW)));
    this.draw();
  }

  /** The time at a place from the left (CSS pixels), NaN outside. */
  timeAt(x) {
    const share = (x - LEFT) / (this.canvas.clientWidth - LEFT - RIGHT);
    return share >= 0 && share <= 1 ? this.start + share * (this.end - this.start) : NaN;
  }

  draw() {
    const { canvas, context: c } = this;
    if (canvas.clientWidth === 0) return;
    fit(canvas);
    const density = canvas.width / canvas.clientWidth;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    c.setTransform(density, 0, 0, density, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.font = "10.5px system-ui, sans-serif";
    this.drawGrid();
    c.save();
    c.beginPath();
    c.rect(LEFT - DOT, 0, this.width - LEFT - RIGHT + 2 * DOT, this.height - BELOW + DOT);
    c.clip();
    for (const moment of this.moments) this.drawMoment(moment);
    // The first line matters most: it is drawn last, above the others.
    for (const line of this.lines.toReversed()) this.drawLine(line);
    c.restore();
  }

  drawGrid() {
    const { context: c, scale } = this;
    c.strokeStyle = colours.grid;
    c.fillStyle = colours.faint;
    c.lineWidth = 1;
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (const value of scale.marks) {
      const y = Math.round(this.y(value)) + 0.5;
      this.stroke(LEFT, y, this.width - RIGHT, y);
      c.fillText(scale.print(value), LEFT - 6, y);
    }
    c.textBaseline = "alphabetic";
    for (const { time, text } of timeMarks(this.start, this.end, Math.max(2, Math.floor((this.width - LEFT) / COLUMN)))) {
      const x = Math.round(this.x(time)) + 0.5;
      this.stroke(x, ABOVE, x, this.height - BELOW);
      const half = c.measureText(text).width / 2;
      c.textAlign = x + half > this.width ? "right" : "center";
      c.fillText(text, c.textAlign === "right" ? this.width : x, this.height - 5);
    }
  }

  drawLine({ runs, colour, dashed }) {
    const { context: c } = this;
    c.strokeStyle = c.fillStyle = colours.series[colour];
    c.lineWidth = 1.5;
    c.lineJoin = "round";
    c.setLineDash(dashed ? [5, 3] : []);
    c.beginPath();
    for (const run of runs) {
      run.forEach(([time, value], i) => (i ? c.lineTo(this.x(time), this.y(value)) : c.moveTo(this.x(time), this.y(value))));
    }
    c.stroke();
    // A lone point between two gaps is still to be seen.
    for (const [[time, value]] of runs.filter((run) => run.length === 1)) {
      c.fillRect(this.x(time) - DOT, this.y(value) - DOT, 2 * DOT, 2 * DOT);
    }
  }

  drawMoment(time) {
    const { context: c } = this;
    c.strokeStyle = colours.muted;
    c.lineWidth = 1;
    c.setLineDash([2, 3]);
    const x = Math.round(this.x(time)) + 0.5;
    this.stroke(x, 0, x, this.height - BELOW);
    c.setLineDash([]);
  }

  stroke(x0, y0, x1, y1) {
    const { context: c } = this;
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    c.stroke();
  }

  x(time) {
    return LEFT + ((time - this.start) / (this.end - this.start)) * (this.width - LEFT - RIGHT);
  }

  y(value) {
    const { low, high } = this.scale;
    return ABOVE + ((high - value) / (high - low)) * (this.height - ABOVE - BELOW);
  }
}

/** From which value to which, which values are marked, and how they are printed. Zero is on it where the values are near it. */
export function verticalScale(lines, rows) {
  let [low, high] = [Infinity, -Infinity];
  for (const { runs } of lines) {
    for (const run of runs) {
      for (const [, value] of run) {
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
  }
  if (low > high) [low, high] = [0, 1];
  if (low > 0 && low < high / 2) low = 0;
  if (high < 0 && high > low / 2) high = 0;
  // A level line has room above and below; one at zero lies at the bottom.
  if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  const step = roundStep((high - low) / rows);
  // Numbers too large to be told apart from their neighbours have no marks between them.
  if (!(step > 0) || low + step === low || !Number.isFinite(high - low)) return { low, high, marks: [low, high], print: (v) => v.toPrecision(3) };
  const [first, last] = [Math.floor(low / step), Math.ceil(high / step)];
  const marks = Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
  return { low: first * step, high: last * step, marks, print: printer(step, Math.max(Math.abs(low), Math.abs(high))) };
}

/** 1, 2 or 5 times a power of ten, at least this. */
function roundStep(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= value * 0.999);
}

/** Prints marks so that neighbours differ. */
function printer(step, most) {
  const sign = Math.min(SIGNS.length - 1, Math.max(0, Math.floor(Math.log10(most) / 3)));
  const size = 1_000 ** sign;
  const places = Math.ceil(-Math.log10(step / size) - 1e-9);
  if (most / size >= 1e4 || places > 5) {
    const digits = Math.min(12, Math.max(0, Math.ceil(Math.log10(most / step))));
    return (value) => (value === 0 ? "0" : value.toExponential(digits));
  }
  return (value) => (value === 0 ? "0" : `${(value / size).toFixed(Math.max(0, places))}${SIGNS[sign] && ` ${SIGNS[sign]}`}`);
}
