// The heat strip: many CPUs at once, or other series, one row each, time to the right, colour for how busy. A column of its hidden
// image is written once, when its samples come. It refuses to show unknown as idle: such cells stay clear.

import { colours } from "./theme-colours.js";
import { fit } from "./canvas.js";
import { Unseen } from "./plot.js";
import { BUCKETS, bucketAt, Points, WINDOWS } from "./track.js";

const COLUMNS = 1024;
const points = new Points();

export class Heat {
  /** `tracks`: percent, one for each row from the top. */
  constructor(frame, tracks) {
    this.tracks = tracks;
    this.canvas = frame.querySelector(".trace");
    this.context = this.canvas.getContext("2d");
    this.image = document.createElement("canvas");
    this.image.width = COLUMNS;
    this.image.height = tracks.length;
    this.imageContext = this.image.getContext("2d");
    this.pixels = this.imageContext.createImageData(COLUMNS, tracks.length);
    this.words = new Uint32Array(this.pixels.data.buffer);
    this.edge = NaN;
    this.tier = -1;
    this.written = -1;
    this.unseen = new Unseen(tracks);
    this.stale = true;
    /** The window of the past that is drawn; null: what comes now. */
    this.past = null;
    /** The value of the highest colour. */
    this.top = 100;
  }

  /** Another value for the highest colour. */
  scaleTo(top) {
    if (top === this.top) return;
    this.top = top;
    this.refresh();
  }

  pixel(value) {
    return colours.heat[Math.min(255, Math.max(0, Math.round((value / this.top) * 255)))] ?? 0;
  }

  refresh() {
    this.stale = true;
  }

  draw(edge, tier) {
    const { canvas, context: c } = this;
    if (canvas.clientWidth === 0) return false;
    if (this.past) [this.past, this.stale] = [null, true];
    if (this.stale) fit(canvas);
    const { span } = WINDOWS[tier];
    const edgePixel = Math.floor((edge / span) * canvas.width);
    const newFrom = this.unseen.take(tier, edge);
    if (!this.stale && tier === this.tier && edgePixel === this.edge && newFrom === Infinity) return false;
    const until = bucketAt(tier, edge);
    const all = this.stale || tier !== this.tier;
    // Columns after the newest sample belong to an older turn of the ring until they are written: clear them too.
    const from = all ? until - COLUMNS + 1 : Math.min(this.written + 1, bucketAt(tier, newFrom));
    this.tier = tier;
    this.edge = edgePixel;
    this.writeColumns(Math.max(from, until - COLUMNS + 1), until);
    this.paint(c, canvas, until);
    this.written = until;
    this.stale = false;
    return true;
  }

  /** Draws a window of the past; returns whether it had to. */
  drawPast(past) {
    const { canvas, context: c, words } = this;
    if (canvas.clientWidth === 0 || (!this.stale && past === this.past)) return false;
    fit(canvas);
    this.past = past;
    words.fill(0);
    this.tracks.forEach((track, row) => {
      const p = points.collect(past.trackOf(track));
      for (let i = 0; i < p.length; i++) {
        const to = Math.min(BUCKETS - 1, Math.round(p.bucket[i]));
        const from = Math.max(0, p.broken[i] || i === 0 ? Math.round(p.bucket[i]) : Math.round(p.bucket[i - 1]) + 1);
        const pixel = this.pixel(p.mean[i]);
        for (let column = from; column <= to; column++) words[row * COLUMNS + column] = pixel;
      }
    });
    this.imageContext.putImageData(this.pixels, 0, 0);
    c.clearRect(0, 0, canvas.width, canvas.height);
    c.imageSmoothingEnabled = false;
    c.drawImage(this.image, 0, 0, BUCKETS, this.tracks.length, 0, 0, canvas.width, canvas.height);
    this.stale = false;
    return true;
  }

  /** A sample's colour fills the columns back to the sample before it: that is the time it speaks of. */
  writeColumns(from, until) {
    if (from > until) return;
    const { words, tier } = this;
    this.tracks.forEach((track, row) => {
      const ring = track.rings[tier];
      let pixel = 0;
      for (let b = until; b >= from; b--) {
        const i = b & (COLUMNS - 1);
        if (b > ring.head) pixel = 0;
        else if (ring.count[i] > 0) pixel = this.pixel(ring.mean[i]);
        words[row * COLUMNS + i] = pixel;
        if (b <= ring.head && ring.count[i] > 0 && ring.broken[i]) pixel = 0;
      }
    });
    const [a, b] = [from & (COLUMNS - 1), until & (COLUMNS - 1)];
    const rows = this.tracks.length;
    const put = (x, width) => this.imageContext.putImageData(this.pixels, 0, 0, x, 0, width, rows);
    if (until - from + 1 >= COLUMNS) put(0, COLUMNS);
    else if (a <= b) put(a, b - a + 1);
    else {
      put(a, COLUMNS - a);
      put(0, b + 1);
    }
  }

  /** Copies the ring, cut where it wraps, so that its newest column ends at the right edge. */
  paint(c, canvas, until) {
    const { width, height } = canvas;
    const rows = this.tracks.length;
    const shown = WINDOWS[this.tier].span / WINDOWS[this.tier].step;
    const scale = width / shown;
    const last = until & (COLUMNS - 1);
    c.clearRect(0, 0, width, height);
    c.imageSmoothingEnabled = false;
    const newer = Math.min(shown, last + 1);
    c.drawImage(this.image, last + 1 - newer, 0, newer, rows, width - newer * scale, 0, newer * scale, height);
    const older = shown - newer;
    if (older > 0) c.drawImage(this.image, COLUMNS - older, 0, older, rows, 0, 0, older * scale, height);
  }
}
