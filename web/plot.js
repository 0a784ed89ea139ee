// A plot: lines, stacked areas or mirrored areas of some tracks on a canvas. While time passes the picture is
// shifted and only its right edge redrawn, so that a frame costs a copy and a few line segments, whatever the
// rate. It refuses to smooth or to bridge gaps.

import { fit } from "./canvas.js";
import { colours } from "./theme-colours.js";
import { BUCKETS, bucketAt, Points, WINDOWS } from "./track.js";
import { roundUp } from "./units.js";

/** Pixels left of the first new sample that are redrawn with it: the line's width and its joint. */
const OVERLAP = 4;
/** A scale shrinks when the highest value has been below this share of it... */
const SHRINK_BELOW = 0.4;
/** ...for this many milliseconds: a plot that breathes with every burst is hard to read. */
const SHRINK_AFTER_MS = 2_000;

/** How opaque the band from lowest to highest is. In the past a single column of it may be all that is to be seen of a peak. */
const LIVE_BAND = 0.32;
const PAST_BAND = 0.65;
/** How opaque the band is in which the truth lies where the kernel counts in ticks. */
const MARGIN_BAND = 0.22;

/** Height of a label of the vertical axis, CSS pixels. */
const LABEL_HEIGHT = 16;
/** The scale is looked at this often. */
const RESCALE_MS = 100;
/** While nothing moves by a pixel, new samples at the edge are drawn this often at most. */
const STILL_MS = 50;

const scratch = [];
const points = (i) => (scratch[i] ??= new Points());

/** Which samples of some tracks a picture does not show yet. */
export class Unseen {
  constructor(tracks) {
    this.tracks = tracks;
    this.seen = new Float64Array(tracks.length).fill(NaN);
  }

  /**
   * The earliest time from which on a picture that ends at `edge` lacks samples (Infinity: it lacks none). The call
   * marks them as seen. Samples beyond the edge are not on the picture, so their time is still to come.
   */
  take(tier, edge) {
    let from = Infinity;
    for (let i = 0; i < this.tracks.length; i++) {
      const track = this.tracks[i];
      let newest = track.lastTime;
      if (newest > edge) newest = track.before(tier, bucketAt(tier, edge)) * WINDOWS[tier].step;
      if (newest === this.seen[i] || !(newest > 0)) continue;
      from = Math.min(from, Number.isNaN(this.seen[i]) ? -Infinity : this.seen[i]);
      this.seen[i] = newest;
    }
    return from;
  }
}

export class Plot {
  /**
   * `style`: "lines", "stack" or "mirror" (two tracks, the second downwards).
   * `series`: [{track, colour, dashed}], colour being an index into the palette.
   * `scale`: {fixed}, {exact: (last) => top}, where last(track) is the newest value of a track, or {binary, least}, and {signed} where
   * lines may be below zero; `format` prints a value of the vertical axis.
   */
  constructor(frame, { style, series, scale, format, rows = 2 }) {
    this.style = style;
    this.series = series;
    this.scale = scale;
    this.format = format;
    this.rows = rows;
    this.axes = frame.querySelector(".axes");
    this.canvas = frame.querySelector(".trace");
    this.context = this.canvas.getContext("2d");
    this.top = scale.fixed ?? scale.least ?? 1;
    /** True while a value is below zero: zero is in the middle then. */
    this.sinks = false;
    this.lowSince = NaN;
    this.scaledAt = -Infinity;
    this.edge = NaN;
    this.tier = -1;
    this.drawnAt = 0;
    this.unseen = new Unseen(series.map((s) => s.track));
    this.stale = true;
    /** The window of the past that is drawn; null: what comes now. */
    this.past = null;
  }

  /** The track of a series that is drawn. */
  trackOf({ track }) {
    return this.past ? this.past.trackOf(track) : track;
  }

  /** Forgets what is on the canvas: size, colours or window changed. */
  refresh() {
    this.stale = true;
  }

  /** Draws the window that ends at `edge` (seconds); returns whether it had to. */
  draw(edge, tier, now) {
    const { canvas } = this;
    if (canvas.clientWidth === 0) return false;
    if (this.past) [this.past, this.stale] = [null, true];
    const resized = this.stale && fit(canvas);
    const perPixel = WINDOWS[tier].span / canvas.width;
    const edgePixel = Math.floor(edge / perPixel);
    const shift = edgePixel - this.edge;
    const sameView = !this.stale && tier === this.tier && shift === 0;
    if (sameView && now - this.drawnAt < STILL_MS) return false;
    const newFrom = this.unseen.take(tier, edge);
    if (sameView && newFrom === Infinity) return false;
    const rescaled = this.rescale(edge, tier, now);
    const all = this.stale || resized || rescaled || tier !== this.tier || !(shift >= 0 && shift < canvas.width / 2);
    if (this.stale || rescaled || this.tier !== tier) this.drawAxes();
    this.edge = edgePixel;
    this.tier = tier;
    const from = all ? 0 : this.shiftBy(shift, newFrom, perPixel);
    this.drawFrom(from, perPixel);
    this.stale = false;
    this.drawnAt = now;
    return true;
  }

  /** Draws a window of the past: {trackOf, marks}, another object for another picture; returns whether it had to. */
  drawPast(past) {
    const { canvas, context: c } = this;
    if (canvas.clientWidth === 0 || (!this.stale && past === this.past)) return false;
    fit(canvas);
    this.past = past;
    this.rescalePast();
    this.drawAxes();
    this.density = canvas.width / canvas.clientWidth;
    this.origin = 0;
    this.scaleX = canvas.width / BUCKETS;
    this.first = 0;
    this.until = BUCKETS;
    c.clearRect(0, 0, canvas.width, canvas.height);
    this.paint();
    if (past.beforeOf) this.drawBefore(past.beforeOf);
    this.stale = false;
    return true;
  }

  /** The time with which the window is compared, as dashed lines: of a stack its top. */
  drawBefore(beforeOf) {
    const { context: c } = this;
    const known = this.series.filter(({ track }) => beforeOf(track));
    c.setLineDash([4 * this.density, 3 * this.density]);
    if (this.style === "stack") {
      const parts = known.map(({ track }, i) => points(i).collect(beforeOf(track)));
      const length = Math.min(...parts.map((p) => p.length));
      const [top] = parts;
      if (top) {
        top.length = length;
        for (const part of parts.slice(1)) for (let i = 0; i < length; i++) top.mean[i] += part.mean[i];
        this.line(top, 1, colours.ink);
      }
    } else {
      known.forEach(({ track, colour }) => {
        const sign = this.style === "mirror" && track === this.series[1]?.track ? -1 : 1;
        this.line(points(0).collect(beforeOf(track)), sign, colours.series[colour]);
      });
    }
    c.setLineDash([]);
  }

  /** A picture of the past has room for every peak, and shows what lies below zero. */
  rescalePast() {
    const { scale, series } = this;
    if (scale.fixed) return;
    if (scale.exact) return this.rescaleTo(scale.exact((track) => this.past.trackOf(track).last));
    const before = ({ track }, sign) => this.past.beforeOf?.(track)?.extent(sign) ?? 0;
    const reach = (sign) => Math.max(0, ...series.map((s) => Math.max(this.trackOf(s).extent(sign), before(s, sign))));
    const depth = scale.signed ? reach(-1) : 0;
    this.sinks = depth > 0;
    this.rescaleTo(Math.max(scale.least ?? 0, roundUp(Math.max(depth, reach(1)) * 1.02, scale.binary)));
  }

  /** Moves the picture left; returns the first pixel column that has to be redrawn. */
  shiftBy(shift, newFrom, perPixel) {
    const { canvas, context } = this;
    if (shift > 0) {
      context.globalCompositeOperation = "copy";
      context.drawImage(canvas, -shift, 0);
      context.globalCompositeOperation = "source-over";
    }
    const dirty = Math.floor(newFrom / perPixel) - this.edge + canvas.width - OVERLAP;
    return Math.max(0, Math.min(canvas.width - shift - OVERLAP, dirty));
  }

  /** Adapts the vertical scale; true when it changed. Growing is at once, shrinking takes its time. */
  rescale(edge, tier, now) {
    if (this.scale.fixed) return false;
    if (this.scale.exact) return this.rescaleTo(this.scale.exact((track) => track.last));
    const other = this.stale || tier !== this.tier;
    if (!other && now - this.scaledAt < RESCALE_MS) return false;
    this.scaledAt = now;
    const reach = (sign) => Math.max(0, ...this.series.map(({ track }) => track.extent(tier, edge, sign)));
    const depth = this.scale.signed ? reach(-1) : 0;
    const turned = this.sinks !== depth > 0;
    this.sinks = depth > 0;
    const high = Math.max(depth, reach(1));
    const wanted = Math.max(this.scale.least ?? 0, roundUp(high * 1.02, this.scale.binary));
    if (wanted === this.top || (high <= this.top && high > this.top * SHRINK_BELOW && !other)) {
      this.lowSince = NaN;
      return turned;
    }
    if (high <= this.top && !other) {
      if (Number.isNaN(this.lowSince)) this.lowSince = now;
      if (now - this.lowSince < SHRINK_AFTER_MS) return turned;
    }
    this.lowSince = NaN;
    return this.rescaleTo(wanted) || turned;
  }

  rescaleTo(top) {
    if (!(top > 0) || top === this.top) return false;
    this.top = top;
    return true;
  }

  drawAxes() {
    const { axes } = this;
    fit(axes);
    const c = axes.getContext("2d");
    const density = axes.width / axes.clientWidth;
    const mirror = this.style === "mirror" || this.sinks;
    c.clearRect(0, 0, axes.width, axes.height);
    c.strokeStyle = colours.grid;
    c.lineWidth = Math.max(1, Math.round(density));
    c.font = `${10.5 * density}px system-ui, sans-serif`;
    c.textBaseline = "middle";
    const lines = mirror ? 2 : this.rows;
    for (let i = 0; i <= lines; i++) {
      const value = mirror ? this.top * (1 - i) : (this.top * (lines - i)) / lines;
      const y = Math.round(Math.min(axes.height - c.lineWidth, this.y(value))) + c.lineWidth / 2;
      c.beginPath();
      c.moveTo(0, y);
      c.lineTo(axes.width, y);
      c.stroke();
    }
    for (const { share } of this.past?.marks ?? []) {
      const x = Math.round(share * axes.width) + c.lineWidth / 2;
      c.beginPath();
      c.moveTo(x, 0);
      c.lineTo(x, axes.height);
      c.stroke();
    }
    this.label(c, density, 0, this.top);
    // What a mirror has downwards is not below zero.
    if (mirror) this.label(c, density, axes.height - LABEL_HEIGHT * density, this.sinks ? -this.top : this.top);
  }

  /** The value of a scale's end, on a ground of its own so that it reads above any area. */
  label(c, density, y, value) {
    const text = this.format(value);
    c.fillStyle = colours.surface;
    c.globalAlpha = 0.8;
    c.fillRect(0, y, c.measureText(text).width + 10 * density, LABEL_HEIGHT * density);
    c.globalAlpha = 1;
    c.fillStyle = colours.faint;
    c.fillText(text, 4 * density, y + (LABEL_HEIGHT / 2 + 0.5) * density);
  }

  /** Device pixel of a value. */
  y(value) {
    const { height } = this.canvas;
    if (this.style === "mirror" || this.sinks) return height / 2 - (value / this.top) * (height / 2);
    return height - (value / this.top) * height;
  }

  drawFrom(left, perPixel) {
    const { canvas, context: c, tier } = this;
    const { width, height } = canvas;
    c.save();
    c.beginPath();
    c.rect(left, 0, width - left, height);
    c.clip();
    c.clearRect(left, 0, width - left, height);
    this.origin = this.edge - width;
    this.scaleX = WINDOWS[tier].step / perPixel;
    this.first = bucketAt(tier, (this.origin + left - OVERLAP) * perPixel);
    this.until = bucketAt(tier, (this.edge + 1) * perPixel);
    this.density = width / canvas.clientWidth;
    this.paint();
    c.restore();
  }

  paint() {
    this.context.lineJoin = "round";
    if (this.style === "stack") this.drawStack();
    else if (this.style === "mirror") this.drawMirror();
    else this.drawLines();
  }

  x(bucket) {
    return (bucket + 0.5) * this.scaleX - this.origin;
  }

  drawLines() {
    const soft = this.series.length === 1 ? 0.16 : 0;
    // The first series is the one that matters most: it is drawn last, above the others.
    for (let i = this.series.length - 1; i >= 0; i--) {
      const { colour, dashed } = this.series[i];
      const p = points(0).collect(this.trackOf(this.series[i]), this.tier, this.first, this.until);
      if (soft) this.area(p, 1, colour, soft);
      this.marginBand(p, 1, colours.series[colour]);
      this.band(p, 1, colour);
      if (dashed) this.context.setLineDash([5 * this.density, 3 * this.density]);
      this.line(p, 1, colours.series[colour]);
      if (dashed) this.context.setLineDash([]);
    }
  }

  drawMirror() {
    this.series.forEach((series, i) => {
      const { colour } = series;
      const sign = i === 0 ? 1 : -1;
      const p = points(0).collect(this.trackOf(series), this.tier, this.first, this.until);
      this.area(p, sign, colour, 0.2);
      this.marginBand(p, sign, colours.series[colour]);
      this.band(p, sign, colour);
      this.line(p, sign, colours.series[colour]);
    });
  }

  /** The mean, as a line that ends at gaps. */
  line(p, sign, ink) {
    const c = this.context;
    c.beginPath();
    for (let i = 0; i < p.length; i++) {
      const x = this.x(p.bucket[i]);
      const y = this.inside(this.y(sign * p.mean[i]));
      if (i === 0 || p.broken[i]) {
        c.moveTo(x, y);
        // A lone sample between two gaps is still to be seen.
        if (i + 1 === p.length || p.broken[i + 1]) c.lineTo(x + 1, y);
      } else c.lineTo(x, y);
    }
    c.strokeStyle = ink;
    c.lineWidth = 1.25 * this.density;
    c.stroke();
  }

  /** A line on the very edge would be cut in half. */
  inside(y) {
    const half = 0.75 * this.density;
    return Math.min(this.canvas.height - half, Math.max(half, y));
  }

  /** From lowest to highest where a bucket holds more than one value. */
  band(p, sign, colour) {
    const c = this.context;
    c.beginPath();
    let any = false;
    for (let i = 0; i < p.length; i++) {
      if (p.high[i] === p.low[i]) continue;
      const top = this.y(sign * p.high[i]);
      any = true;
      c.rect(this.x(p.bucket[i] - 0.5), top, this.scaleX, this.y(sign * p.low[i]) - top);
    }
    if (!any) return;
    c.globalAlpha = this.past ? PAST_BAND : LIVE_BAND;
    c.fillStyle = colours.series[colour];
    c.fill();
    c.globalAlpha = 1;
  }

  /** What the kernel's ticks leave open on both sides of the mean, where that is more than the line's own width. */
  marginBand(p, sign, ink) {
    if (!p.hasMargins) return;
    const c = this.context;
    const visible = (this.top * this.density) / this.canvas.height;
    const edge = (i, side) => this.inside(this.y(sign * Math.min(this.scale.fixed ?? Infinity, Math.max(0, p.mean[i] + side * p.margin[i]))));
    c.beginPath();
    for (let from = 0; from < p.length; ) {
      let to = from + 1;
      while (to < p.length && !p.broken[to]) to++;
      if (p.margin.subarray(from, to).some((margin) => margin > visible)) {
        c.moveTo(this.x(p.bucket[from]), edge(from, -1));
        for (let i = from; i < to; i++) c.lineTo(this.x(p.bucket[i]), edge(i, 1));
        for (let i = to - 1; i > from; i--) c.lineTo(this.x(p.bucket[i]), edge(i, -1));
      }
      from = to;
    }
    c.globalAlpha = MARGIN_BAND;
    c.fillStyle = ink;
    c.fill();
    c.globalAlpha = 1;
  }

  area(p, sign, colour, alpha) {
    const c = this.context;
    const base = this.y(0);
    c.beginPath();
    for (let i = 0; i < p.length; i++) {
      const x = this.x(p.bucket[i]);
      if (i === 0 || p.broken[i]) c.moveTo(x, base);
      c.lineTo(x, this.y(sign * p.mean[i]));
      if (i + 1 === p.length || p.broken[i + 1]) c.lineTo(x, base);
    }
    c.globalAlpha = alpha;
    c.fillStyle = colours.series[colour];
    c.fill();
    c.globalAlpha = 1;
  }

  /** Areas on top of one another. The tracks are sampled together, so their buckets are the same. */
  drawStack() {
    const c = this.context;
    const parts = this.series.map((series, i) => points(i).collect(this.trackOf(series), this.tier, this.first, this.until));
    const n = Math.min(...parts.map((p) => p.length));
    const floor = points(parts.length);
    floor.mean.fill(0, 0, n);
    for (let s = 0; s < parts.length; s++) {
      const p = parts[s];
      for (let from = 0; from < n; ) {
        let to = from + 1;
        while (to < n && !p.broken[to]) to++;
        c.beginPath();
        for (let i = from; i < to; i++) c.lineTo(this.x(p.bucket[i]), this.y(floor.mean[i] + p.mean[i]));
        for (let i = to - 1; i >= from; i--) c.lineTo(this.x(p.bucket[i]), this.y(floor.mean[i]));
        c.fillStyle = colours.series[this.series[s].colour];
        c.globalAlpha = 0.82;
        c.fill();
        from = to;
      }
      for (let i = 0; i < n; i++) floor.mean[i] += p.mean[i];
    }
    c.globalAlpha = 1;
    this.marginOfStack(parts.at(-1), floor, n);
  }

  /** The margin of the top of a stack, whose parts are counted together and have the same one. */
  marginOfStack(part, top, length) {
    if (!part?.hasMargins) return;
    for (const field of ["bucket", "broken", "margin"]) top[field].set(part[field].subarray(0, length));
    [top.length, top.hasMargins] = [length, true];
    this.marginBand(top, 1, colours.ink);
  }
}
