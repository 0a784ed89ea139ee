// The pointer: one instant, pointed at in any plot with mouse, finger or arrow keys, and marked in all of them.
// It refuses to know what is drawn there.

/** One press of an arrow key moves by this share of the window; with shift ten times as far. */
const KEY_STEP = 0.005;

export class Pointer {
  constructor(changed) {
    this.changed = changed;
    /** Share of the window from its left edge; NaN when nothing is pointed at. */
    this.share = NaN;
    /** Where the pointer is vertically in the panel that it is in. */
    this.height = 0;
    this.panel = null;
  }

  attach(panel) {
    const { frame } = panel;
    const move = (event) => {
      const box = frame.getBoundingClientRect();
      this.height = (event.clientY - box.top) / box.height;
      this.set(panel, (event.clientX - box.left) / box.width);
    };
    frame.addEventListener("pointermove", move);
    frame.addEventListener("pointerdown", move);
    frame.addEventListener("pointerleave", () => this.clear());
    frame.addEventListener("blur", () => this.clear());
    frame.addEventListener("keydown", (event) => this.key(panel, event));
  }

  key(panel, event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const far = event.shiftKey ? 10 : 1;
    const start = Number.isNaN(this.share) ? 1 : this.share;
    const rows = panel.heat ? panel.series.length : 0;
    if (event.key === "ArrowLeft") this.set(panel, start - KEY_STEP * far);
    else if (event.key === "ArrowRight") this.set(panel, start + KEY_STEP * far);
    else if (rows && event.key === "ArrowUp") this.step(panel, start, -far / rows);
    else if (rows && event.key === "ArrowDown") this.step(panel, start, far / rows);
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
  }

  step(panel, share, by) {
    this.height = Math.min(0.999, Math.max(0, this.height + by));
    this.set(panel, share);
  }

  set(panel, share) {
    this.share = Math.min(1, Math.max(0, share));
    this.panel = panel;
    this.changed();
  }

  clear() {
    this.share = NaN;
    this.panel = null;
    this.changed();
  }

  /** Puts the line into `panel`, and `words()` beside it into the panel pointed at. */
  mark(panel, words) {
    const gone = Number.isNaN(this.share);
    if (panel.cursor.hidden !== gone) panel.cursor.hidden = gone;
    const here = !gone && panel === this.panel;
    if (panel.tip.hidden === here) panel.tip.hidden = !here;
    if (gone) return;
    const width = panel.frame.clientWidth;
    panel.cursor.style.transform = `translateX(${Math.round(this.share * width)}px)`;
    if (!here) return;
    panel.tip.textContent = words();
    panel.tip.classList.toggle("left", this.share > 0.5);
    panel.tip.style.left = `${this.share * 100}%`;
  }
}
