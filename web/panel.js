// A panel: the box around one plot with title, legend and live numbers, all made of ordinary elements so that
// screen readers and style sheets can work on it. It refuses to know metrics.

import { Plot } from "./plot.js";
import { Heat } from "./heat.js";
import { WINDOWS } from "./track.js";
import { UNKNOWN_TEXT } from "./units.js";

/** Foreign text without what cannot be seen or turns the direction of writing: a name must not look like another one. */
export const visible = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

/** One element with classes, attributes and children. */
export function element(tag, { classes = "", text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  if (text !== undefined) node.textContent = visible(text);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, visible(value));
  node.append(...children);
  return node;
}

export class Panel {
  /**
   * `title`; `series`: [{label, track, colour, format}] in drawing order; `plot` as for Plot, or `heat: true`;
   * `size`: a class for the height; `extra`: [{label, read}] are further numbers of the legend.
   */
  constructor({ title, series, plot, heat = false, size = "tall", extra = [], note = "", hidden = false }) {
    this.title = visible(title);
    this.series = series;
    this.heat = heat;
    this.shown = false;
    this.values = [];
    this.legend = element("ul", { classes: "legend" });
    if (!heat) for (const s of series) this.entry(s.label, s.colour, s);
    for (const e of extra) this.entry(e.label, null, e);
    this.cursor = element("div", { classes: "cursor", hidden: "" });
    this.tip = element("output", { classes: "tip", hidden: "" });
    this.frame = element(
      "div",
      {
        classes: `frame ${size}`,
        tabindex: "0",
        role: "group",
        "aria-roledescription": "plot",
        "aria-label": title,
        "aria-description": "Arrow keys move the cursor, Escape takes it away",
      },
      element("canvas", { classes: "axes", "aria-hidden": "true" }),
      element("canvas", { classes: "trace", "aria-hidden": "true" }),
      this.cursor,
      this.tip,
    );
    if (heat) this.frame.style.setProperty("--rows", series.length);
    this.note = element("p", { classes: "note", text: note });
    this.root = element(
      "section",
      { classes: `panel${heat ? " heat" : ""}`, "aria-label": title },
      element("header", {}, element("h3", { text: title }), this.legend),
      this.frame,
      element("div", { classes: "times", "aria-hidden": "true" }, ...["", "", "now"].map((text) => element("span", { text }))),
      this.note,
    );
    this.root.hidden = hidden;
    this.picture = heat
      ? new Heat(this.frame, series.map((s) => s.track))
      : new Plot(this.frame, { ...plot, series: series.map(({ track, colour }) => ({ track, colour })) });
  }

  entry(label, colour, source) {
    const value = element("b", { text: UNKNOWN_TEXT });
    const swatch = colour === null || !label ? [] : [element("i", { classes: `swatch s${colour}` })];
    const item = element("li", {}, ...swatch, `${label} `, value);
    this.legend.append(item);
    this.values.push({ label, source, text: value.firstChild, shown: UNKNOWN_TEXT });
  }

  /** Writes the numbers at `time`, or the newest when it is NaN; those from before `since` are no longer known. */
  write(tier, time, since) {
    for (const entry of this.values) {
      const { source } = entry;
      const value = source.read ? source.read(since) : Number.isNaN(time) ? newest(source, since) : source.track.at(tier, time);
      const text = source.read ? value : source.format(value);
      if (text === entry.shown) continue;
      entry.text.data = entry.shown = text;
    }
  }

  /** What a screen reader says of the picture. */
  describe() {
    const numbers = this.values.map((v) => `${v.label} ${v.shown}`.trim());
    this.frame.setAttribute("aria-label", `${this.title}: ${this.heat ? this.describeHeat() : numbers.join(", ")}`);
  }

  describeHeat() {
    const busiest = this.series.reduce((a, b) => (b.track.last > (a.track.last || 0) ? b : a));
    return `${this.series.length} CPUs, busiest is ${busiest.label} at ${busiest.format(busiest.track.last)}`;
  }

  /** The numbers under the pointer for pictures whose legend does not have them. */
  describeAt(tier, time, share) {
    if (!this.heat) return "";
    const s = this.series[Math.min(this.series.length - 1, Math.floor(share * this.series.length))];
    return `${s.label} ${s.format(s.track.at(tier, time))}`;
  }

  setWindow(tier) {
    const { span } = WINDOWS[tier];
    const text = (seconds) => (seconds >= 120 ? `−${seconds / 60} min` : `−${seconds} s`);
    const [left, middle] = this.root.querySelectorAll(".times span");
    left.textContent = text(span);
    middle.textContent = text(span / 2);
  }
}

/** A rate of the last millisecond nobody can read; a gauge is what it is now. */
function newest({ track, gauge }, since) {
  if (track.lastTime < since) return NaN;
  return gauge ? track.last : track.recent();
}
