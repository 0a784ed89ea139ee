// A panel: the box around one plot with title, legend and live numbers, all made of ordinary elements so that
// screen readers and style sheets can work on it. It refuses to know metrics.

import { element, visible } from "./element.js";
import { Heat } from "./heat.js";
import { Plot } from "./plot.js";
import { TimeAxis } from "./time-axis.js";
import { UNKNOWN_TEXT } from "./units.js";

// Modules of panels may take them from here; others take element.js, and need no plot.
export { element, visible } from "./element.js";

export class Panel {
  /**
   * `title`; `series`: [{label, track, colour, dashed, format}] in drawing order; `plot` as for Plot, or `heat: true`, whose `rows` are
   * called {noun, most};
   * `size`: a class for the height; `extra`: [{label, track, format}] or [{label, read}] are further numbers of the legend. read(value)
   * makes a text of what value(track, gauge) says of tracks at the time that the legend shows.
   */
  constructor({ title, series, plot, heat = false, size = "tall", extra = [], note = "", hidden = false, rows = { noun: "CPUs", most: "busiest" } }) {
    this.title = visible(title);
    this.series = series;
    this.heat = heat;
    this.rows = rows;
    this.shown = false;
    this.values = [];
    this.legend = element("ul", { classes: "legend" });
    if (heat) this.legend.append((this.scale = element("li", { classes: "heat-scale" }, "0", element("i", {}), "")));
    else for (const s of series) this.entry(s.label, s.colour, s);
    for (const e of extra) this.entry(e.label, null, e);
    this.tracks = [...series, ...extra].map((s) => s.track).filter((track) => track);
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
        "aria-description": "Arrow keys move the cursor, Escape takes it away, plus and minus zoom, the question mark lists all keys",
      },
      element("canvas", { classes: "axes", "aria-hidden": "true" }),
      element("canvas", { classes: "trace", "aria-hidden": "true" }),
      (this.veil = element("p", { classes: "veil", hidden: "" })),
      this.cursor,
      this.tip,
    );
    this.axis = new TimeAxis();
    if (heat) this.frame.style.setProperty("--rows", series.length);
    this.note = element("p", { classes: "note", text: note });
    this.root = element(
      "section",
      { classes: `panel${heat ? " heat" : ""}`, "aria-label": title },
      element("header", {}, element("h3", { text: title }), this.legend),
      this.frame,
      this.axis.root,
      this.note,
    );
    this.root.hidden = hidden;
    this.picture = heat
      ? new Heat(this.frame, series.map((s) => s.track))
      : new Plot(this.frame, { ...plot, series: series.map(({ track, colour, dashed }) => ({ track, colour, dashed })) });
    if (heat) this.sayScale("0 %", "100 %");
  }

  /** What the lowest and the highest colour of a heat map mean. */
  sayScale(low, high) {
    if (this.scale.lastChild.data === high) return;
    [this.scale.firstChild.data, this.scale.lastChild.data] = [low, high];
  }

  entry(label, colour, source) {
    const value = element("b", { text: UNKNOWN_TEXT });
    const swatch = colour === null || !label ? [] : [element("i", { classes: `swatch s${colour}${source.dashed ? " dashed" : ""}` })];
    const item = element("li", {}, ...swatch, `${label} `, value);
    this.legend.append(item);
    this.values.push({ label, source, text: value.firstChild, shown: UNKNOWN_TEXT });
  }

  /** Writes the numbers that value(track, gauge) has. */
  write(value) {
    for (const entry of this.values) {
      const text = this.textOf(entry.source, value);
      if (text === entry.shown) continue;
      entry.text.data = entry.shown = text;
    }
  }

  /** The number of an entry of the legend. */
  textOf(source, value) {
    return source.read ? source.read(value) : source.format(value(source.track, source.gauge));
  }

  /** What a screen reader says of the picture. */
  describe(value) {
    const numbers = this.values.map((v) => `${v.label} ${v.shown}`.trim());
    this.frame.setAttribute("aria-label", `${this.title}: ${this.heat ? this.describeHeat(value) : numbers.join(", ")}`);
  }

  describeHeat(value) {
    const shares = this.series.map((s) => value(s.track, true));
    const busiest = shares.reduce((a, share, i) => (share > (shares[a] || 0) ? i : a), 0);
    const { label, format } = this.series[busiest];
    return `${this.series.length} ${this.rows.noun}, ${this.rows.most} is ${label} at ${format(shares[busiest])}`;
  }

  /** The numbers under the pointer for pictures whose legend does not have them. */
  describeAt(value, share) {
    if (!this.heat) return "";
    const s = this.series[Math.min(this.series.length - 1, Math.floor(share * this.series.length))];
    return `${s.label} ${s.format(value(s.track, true))}`;
  }

  /** What the numbers at the pointer leave open: the range of each, and the greatest margin. */
  describeOpen({ range, margin }) {
    return [...this.describeRanges(range), ...this.describeMargins(margin)];
  }

  /** From lowest to highest, for each series of which one place of the picture has several values: range(track) is [low, high] or null. */
  describeRanges(range) {
    if (this.heat) return [];
    return this.series.flatMap(({ label, track, format }) => {
      const found = range(track);
      return found ? [`${label} ${format(found[0])} … ${format(found[1])}`.trim()] : [];
    });
  }

  /** How far the truth may lie from what is drawn: margin(track) is the distance, 0 where the number is exact. */
  describeMargins(margin) {
    if (this.heat || !margin || this.series.length === 0) return [];
    const { track, format } = this.series.reduce((a, b) => (margin(b.track) > margin(a.track) ? b : a));
    const text = format(margin(track));
    return /[1-9]/.test(text) ? [`± ${text}: the kernel counts in ticks of 10 ms`] : [];
  }

  /** The numbers of the time with which this one is compared: beforeOf(track) is the number then. */
  describeBefore(value, beforeOf) {
    if (this.heat) return [];
    return this.series.map(({ label, track, format, gauge }) => `${label} ${format(value(track, gauge))}, before ${format(beforeOf(track))}`.trim());
  }

  /** Words over the picture, such as why it is empty. */
  say(text) {
    if (this.veil.textContent === text) return;
    this.veil.textContent = text;
    this.veil.hidden = text === "";
  }
}
