// A drawing context that writes down what is drawn, as SVG: the charts draw on it with the code that draws on the screen. It has
// the part of the canvas's interface that they use, at one pixel a unit: a transform by the density does nothing here. It refuses
// to draw over the edge of its sheet, and to take what would make a file too large.

/** Places of a number: a hundredth of a pixel is seen by nobody. */
const PLACES = 2;
/** Bytes of all elements: more is no picture for a mail. */
export const SVG_BYTES_MAX = 32 << 20;

const STATE = {
  strokeStyle: "#000000", fillStyle: "#000000", lineWidth: 1, lineJoin: "miter", globalAlpha: 1, font: "10px sans-serif", textAlign: "start",
  textBaseline: "alphabetic", imageSmoothingEnabled: true, globalCompositeOperation: "source-over", dash: "", clipped: "",
};
const ANCHORS = { start: "start", left: "start", center: "middle", right: "end", end: "end" };
const BASELINES = { alphabetic: "alphabetic", middle: "central", top: "hanging", bottom: "text-after-edge" };

let measuring = null;
let clips = 0;

/** A path as the canvas's Path2D, which cannot be read. */
export class SvgPath {
  constructor() {
    this.parts = [];
  }

  moveTo(x, y) {
    this.parts.push(`M${number(x)} ${number(y)}`);
  }

  lineTo(x, y) {
    this.parts.push(`${this.parts.length === 0 ? "M" : "L"}${number(x)} ${number(y)}`);
  }

  rect(x, y, width, height) {
    this.parts.push(`M${number(x)} ${number(y)}h${number(width)}v${number(height)}h${number(-width)}z`);
  }

  get data() {
    return this.parts.join("");
  }
}

export class SvgContext {
  /** `paper`: the colour of what is cleared. */
  constructor(width, height, paper) {
    Object.assign(this, STATE, { width, height, paper });
    this.saved = [];
    this.elements = [];
    /** Shapes that something is cut to. */
    this.shapes = [];
    this.bytes = 0;
    this.beginPath();
  }

  path() {
    return new SvgPath();
  }

  beginPath() {
    this.current = new SvgPath();
  }

  moveTo(x, y) {
    this.current.moveTo(x, y);
  }

  lineTo(x, y) {
    this.current.lineTo(x, y);
  }

  rect(x, y, width, height) {
    this.current.rect(x, y, width, height);
  }

  save() {
    this.saved.push(Object.fromEntries(Object.keys(STATE).map((name) => [name, this[name]])));
  }

  restore() {
    Object.assign(this, this.saved.pop());
  }

  setTransform() {}

  setLineDash(dash) {
    this.dash = dash.map(number).join(" ");
  }

  clip() {
    const id = `clip${++clips}`;
    this.shapes.push(`<clipPath id="${id}"><path d="${this.current.data}"/></clipPath>`);
    this.clipped = ` clip-path="url(#${id})"`;
  }

  stroke(path = this.current) {
    if (path.parts.length === 0) return;
    const { lineWidth, lineJoin, dash } = this;
    const dashes = dash ? ` stroke-dasharray="${dash}"` : "";
    this.add(`<path d="${path.data}" fill="none"${this.paint("stroke", this.strokeStyle)} stroke-width="${number(lineWidth)}" stroke-linejoin="${lineJoin}"${dashes}${this.clipped}/>`);
  }

  fill(path = this.current) {
    if (path.parts.length > 0) this.add(`<path d="${path.data}"${this.paint("fill", this.fillStyle)}${this.clipped}/>`);
  }

  fillRect(x, y, width, height) {
    this.add(`<rect${box(x, y, width, height)}${this.paint("fill", this.fillStyle)}${this.clipped}/>`);
  }

  strokeRect(x, y, width, height) {
    this.add(`<rect${box(x, y, width, height)} fill="none"${this.paint("stroke", this.strokeStyle)} stroke-width="${number(this.lineWidth)}"${this.clipped}/>`);
  }

  /** Of the whole sheet: nothing was drawn. Of a part: paper lies over it. */
  clearRect(x, y, width, height) {
    if (x <= 0 && y <= 0 && x + width >= this.width && y + height >= this.height) {
      this.elements = [];
      this.bytes = 0;
    } else {
      this.add(`<rect${box(x, y, Math.min(width, this.width - x), height)} fill="${this.paper}"/>`);
    }
  }

  fillText(text, x, y) {
    const { size, weight, family } = fontOf(this.font);
    const bold = weight === "400" ? "" : ` font-weight="${weight}"`;
    this.add(
      `<text x="${number(x)}" y="${number(y)}" font-family="${escaped(family)}" font-size="${size}"${bold} text-anchor="${ANCHORS[this.textAlign]}" dominant-baseline="${BASELINES[this.textBaseline]}"${this.paint("fill", this.fillStyle)}${this.clipped}>${escaped(text)}</text>`,
    );
  }

  measureText(text) {
    measuring ??= document.createElement("canvas").getContext("2d");
    measuring.font = this.font;
    return measuring.measureText(text);
  }

  /** A picture of pixels, whole or a part of it, as the canvas takes it: drawImage(image, x, y), or with eight numbers. */
  drawImage(image, ...at) {
    const [sx, sy, sw, sh, x, y, width, height] = at.length === 8 ? at : [0, 0, image.width, image.height, at[0], at[1], at[2] ?? image.width, at[3] ?? image.height];
    if (!(sw > 0 && sh > 0)) return;
    const part = document.createElement("canvas");
    part.width = Math.ceil(sw);
    part.height = Math.ceil(sh);
    part.getContext("2d").drawImage(image, sx, sy, sw, sh, 0, 0, part.width, part.height);
    const rendering = this.imageSmoothingEnabled ? "" : ` image-rendering="pixelated"`;
    this.add(`<image${box(x, y, width, height)} preserveAspectRatio="none"${rendering} href="${part.toDataURL()}"${this.clipped}/>`);
  }

  /** What another context has, at this place. */
  insert(context, x, y) {
    this.add(`<svg${box(x, y, context.width, context.height)}>${context.shapes.join("")}${context.elements.join("")}</svg>`);
  }

  paint(what, style) {
    const { colour, alpha } = opaque(style);
    const opacity = alpha * this.globalAlpha;
    return ` ${what}="${colour}"${opacity < 1 ? ` ${what}-opacity="${number(opacity)}"` : ""}`;
  }

  add(element) {
    this.bytes += element.length;
    if (this.bytes > SVG_BYTES_MAX) throw new Error(`the drawing has more than ${SVG_BYTES_MAX >> 20} MiB`);
    this.elements.push(element);
  }

  /** The file. `about`: what a viewer shows of it, {title, text}. */
  text({ title, text }) {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${number(this.width)} ${number(this.height)}" width="${number(this.width)}" height="${number(this.height)}">\n<title>${escaped(title)}</title>\n<desc>${escaped(text)}</desc>\n${[...this.shapes, ...this.elements].join("\n")}\n</svg>\n`;
  }
}

const number = (value) => String(Number(value.toFixed(PLACES)));
const box = (x, y, width, height) => ` x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}"`;
/** Text as XML may have it: no signs but those that XML 1.0 allows. */
const escaped = (text) => String(text).replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, "\u{fffd}").replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** "600 12px system-ui, sans-serif". */
function fontOf(font) {
  const [, weight, size, family] = /^(?:(\d+|bold) )?([\d.]+)px (.*)$/.exec(font) ?? [null, undefined, "10", "sans-serif"];
  return { weight: weight ?? "400", size, family };
}

/** A colour without its opacity, for viewers that know only these, and the opacity: of "rgb(0 0 0 / 0.075)". */
function opaque(style) {
  const [, r, g, b, alpha] = /^rgb\((\d+) (\d+) (\d+)(?: \/ ([\d.]+))?\)$/.exec(style) ?? [];
  return r === undefined ? { colour: style, alpha: 1 } : { colour: `rgb(${r},${g},${b})`, alpha: alpha === undefined ? 1 : Number(alpha) };
}
