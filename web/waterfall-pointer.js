// The pointer of the waterfall: one cell, pointed at with mouse, finger or keys. It stays where it is on the screen while
// time passes below it. It refuses to know what cells mean.

/** Rows that a page key goes, and steps that an arrow goes with shift. */
const FAR = 10;

export class WaterfallPointer {
  /** `on` hears open(node), choose(node), pause(), and is asked for the words of a cell: text(node, back). */
  constructor(frame, picture, cells, signal, on) {
    this.picture = picture;
    this.cells = cells;
    this.on = on;
    this.row = frame.querySelector(".fall-row");
    this.time = frame.querySelector(".fall-time");
    this.tip = frame.querySelector(".tile-tip");
    this.said = frame.querySelector(".fall-said");
    /** {node, back}: `back` steps before the newest; null: nothing is pointed at. */
    this.cell = null;
    /** The node that was touched last. */
    this.touched = -1;
    this.listen(picture.canvas, signal);
  }

  listen(canvas, signal) {
    const hear = (name, then) => canvas.addEventListener(name, then, { signal });
    const under = (event) => {
      const box = canvas.getBoundingClientRect();
      return this.picture.under(event.clientX - box.left, event.clientY - box.top);
    };
    hear("pointermove", (event) => this.point(under(event)));
    hear("pointerdown", (event) => this.point(under(event)));
    hear("pointerleave", (event) => {
      // A finger that is lifted has left, too: what it pointed at stays, to be read.
      if (document.activeElement !== canvas && event.pointerType !== "touch") this.clear();
    });
    hear("blur", () => this.clear());
    hear("focus", () => {
      if (!this.cell && canvas.matches(":focus-visible")) this.point(this.start());
    });
    hear("click", (event) => {
      const cell = under(event);
      const isShown = event.pointerType !== "touch" || (cell && cell.node === this.touched);
      this.touched = cell?.node ?? -1;
      // A finger sees the name first, in the tip.
      if (cell && (event.shiftKey || this.picture.choice?.isChoosing)) this.on.choose(cell.node);
      else if (cell && isShown) this.on.open(cell.node);
    });
    hear("keydown", (event) => this.key(event));
  }

  /** The newest cell of the first row; null where there is no row. */
  start() {
    const node = this.picture.layout?.order[0];
    return node === undefined ? null : { node, back: 0 };
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === " ") this.on.pause();
    else if (event.key === "Escape") this.clear();
    else if (event.key === "Enter") {
      if (this.cell && event.shiftKey) this.on.choose(this.cell.node);
      else if (this.cell) this.on.open(this.cell.node);
    } else if (!this.move(event)) return;
    event.preventDefault();
  }

  /** Moves by a key; false: it is none of ours. */
  move({ key, shiftKey }) {
    const cell = this.cell ?? this.start();
    const rows = { ArrowUp: -1, ArrowDown: 1, PageUp: -FAR, PageDown: FAR }[key];
    const steps = { ArrowLeft: 1, ArrowRight: -1 }[key];
    if (rows === undefined && steps === undefined && key !== "Home" && key !== "End") return false;
    if (!cell) return true;
    const { order, rowOf } = this.picture.layout;
    const last = Math.max(0, this.picture.shown - 1);
    const next = { ...cell };
    if (rows) next.node = order[clamp((rowOf.get(cell.node) ?? 0) + rows * (shiftKey ? FAR : 1), order.length - 1)];
    if (steps) next.back = clamp(cell.back + steps * (shiftKey ? FAR : 1), last);
    if (key === "Home") next.back = last;
    if (key === "End") next.back = 0;
    this.point(next);
    this.row.scrollIntoView({ block: "nearest", inline: "nearest" });
    // Only what somebody asked for by a key is spoken: a picture that moves would never be silent.
    this.said.textContent = this.tip.textContent;
    return true;
  }

  clear() {
    this.point(null);
  }

  point(cell) {
    this.cell = cell;
    this.mark();
    this.write();
  }

  /** Puts the frame around the row, and the line at the time. */
  mark() {
    const place = this.cell && this.picture.place(this.cell);
    for (const part of [this.row, this.time, this.tip]) part.hidden = !place;
    if (!place) return;
    const { canvas, layout } = this.picture;
    this.row.style.transform = `translateY(${place.y}px)`;
    this.row.style.height = `${place.height}px`;
    this.time.style.transform = `translateX(${canvas.offsetLeft + place.x}px)`;
    this.time.style.width = `${place.width}px`;
    this.write();
    const left = canvas.offsetLeft + place.x - this.tip.offsetWidth / 2;
    this.tip.style.left = `${Math.min(Math.max(0, left), canvas.offsetLeft + canvas.clientWidth - this.tip.offsetWidth)}px`;
    const below = place.y + place.height + 6;
    // Over the row where there is no room below.
    this.tip.style.top = `${below + this.tip.offsetHeight > layout.total && place.y > this.tip.offsetHeight + 6 ? place.y - this.tip.offsetHeight - 6 : below}px`;
  }

  /** Writes what is known of the cell now. */
  write() {
    if (!this.cell || this.tip.hidden) return;
    const text = this.on.text(this.cell.node, this.cell.back);
    if (this.tip.textContent !== text) this.tip.textContent = text;
  }
}

const clamp = (n, max) => Math.min(max, Math.max(0, n));
