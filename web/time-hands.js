// Hands on the time: what mouse, finger, wheel and keys do to the shown window. Dragging in a plot chooses a window; dragging on the
// time axis, or with Shift, moves it; two fingers do both. They refuse to take the wheel from a page that is being scrolled.

/** A press that moves by less than this (CSS pixels) is no drag. */
const DRAG_PIXELS = 5;
/** One press of a key zooms by this factor, or moves by this share of the window. */
const KEY_ZOOM = 2;
const KEY_PAN = 0.25;
/** What a pixel of the wheel does: the logarithm of a factor, or a share of the width. */
const WHEEL_ZOOM = 0.0016;
const PINCH_ZOOM = 0.012;
/** Pinching on a touchpad comes as a wheel with Ctrl and small steps. */
const PINCH_BELOW = 40;
const LINE_PIXELS = 16;
/** A wheel that rests for this long has ended its movement. */
const WHEEL_END_MS = 400;
/** After the page was scrolled, the wheel goes on scrolling it for this long, whatever comes under the pointer. */
const SCROLLED_MS = 300;
/** Two fingers are never counted as closer than this share of the width. */
const FINGERS_MIN = 0.02;

export class TimeHands {
  /**
   * `time`: a TimeWindow. `on` hears hold(bool): a window is being chosen, so plots stand still; settled(): a movement has ended;
   * live() and keys(): somebody wants the present, or the list of keys. focus() is the share of the width that keys zoom around.
   */
  constructor(time, signal, on) {
    this.time = time;
    this.on = on;
    this.drag = null;
    this.fingers = new Map();
    this.wheelTimer = 0;
    this.scrolledAt = -Infinity;
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    document.addEventListener("scroll", () => (this.scrolledAt = performance.now()), { signal, passive: true });
    signal.addEventListener("abort", () => clearTimeout(this.wheelTimer));
  }

  attach({ frame, axis: { root } }) {
    for (const target of [frame, root]) {
      target.addEventListener("pointerdown", (event) => this.press(event, target, target === frame && !event.shiftKey ? "choose" : "move"));
      target.addEventListener("pointermove", (event) => this.move(event));
      target.addEventListener("pointerup", (event) => this.release(event));
      target.addEventListener("pointercancel", (event) => this.release(event, true));
      target.addEventListener("wheel", (event) => this.wheel(event, target, target === root || document.activeElement === frame), { passive: false });
      target.addEventListener("dblclick", () => this.time.back());
    }
  }

  press(event, target, what) {
    if (event.pointerType === "touch") return this.touch(event, target, what);
    if (event.button !== 0) return;
    this.begin(event, target, what);
  }

  begin({ pointerId, clientX }, target, what) {
    const { from, to } = this.time.shown;
    const box = target.getBoundingClientRect();
    this.drag = { pointerId, target, what, x: clientX, box, from, to, isMoving: false, mark: null };
  }

  move(event) {
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, event.clientX);
    if (this.drag?.what === "pinch") return this.pinch();
    const { drag } = this;
    if (drag?.pointerId !== event.pointerId) return;
    if (!drag.isMoving && Math.abs(event.clientX - drag.x) < DRAG_PIXELS) return;
    if (!drag.isMoving) this.start(drag);
    if (drag.what === "choose") this.choose(drag, event.clientX);
    else this.slide(drag, event.clientX);
  }

  start(drag) {
    drag.isMoving = true;
    // A press with the mouse goes on outside of the plot.
    drag.target.setPointerCapture?.(drag.pointerId);
    if (drag.what === "move") return this.time.hold();
    this.on.hold(true);
    // The window of now has moved since the press.
    Object.assign(drag, this.time.shown);
    drag.mark = document.createElement("div");
    drag.mark.className = "chosen";
    drag.target.append(drag.mark);
  }

  choose(drag, x) {
    const [left, right] = sharesOf(drag, x);
    drag.mark.style.left = `${left * 100}%`;
    drag.mark.style.width = `${(right - left) * 100}%`;
  }

  slide({ from, to, x, box }, now) {
    const by = ((x - now) / box.width) * (to - from);
    this.time.show(from + by, to + by, "slide");
  }

  release(event, isCancelled = false) {
    this.fingers.delete(event.pointerId);
    const { drag } = this;
    if (!drag || (drag.what !== "pinch" && drag.pointerId !== event.pointerId)) return;
    this.drag = null;
    if (!drag.isMoving) return;
    if (drag.what !== "choose") return this.on.settled();
    this.end(drag);
    if (isCancelled) return;
    const [left, right] = sharesOf(drag, event.clientX);
    const span = drag.to - drag.from;
    if (right > left) this.time.show(drag.from + left * span, drag.from + right * span);
  }

  end(drag) {
    drag.mark.remove();
    this.on.hold(false);
  }

  /** One finger points, or moves the axis; the second one begins to pinch. */
  touch(event, target, what) {
    this.fingers.set(event.pointerId, event.clientX);
    if (this.fingers.size === 1 && what === "move") return this.begin(event, target, what);
    if (this.fingers.size !== 2) return;
    this.begin(event, target, "pinch");
    this.drag.isMoving = true;
    this.drag.shares = this.fingerShares();
    this.time.hold();
  }

  /** The times under both fingers stay under them. */
  pinch() {
    const { from, to, shares: before } = this.drag;
    const shares = this.fingerShares();
    if (!shares) return;
    const span = ((to - from) * (before[1] - before[0])) / (shares[1] - shares[0]);
    const fixed = from + before[0] * (to - from);
    this.time.show(fixed - shares[0] * span, fixed + (1 - shares[0]) * span, "slide");
  }

  fingerShares() {
    if (this.fingers.size < 2) return null;
    const { left, width } = this.drag.box;
    const [a, b] = [...this.fingers.values()].map((x) => (x - left) / width).sort((a, b) => a - b);
    return [a, Math.max(b, a + FINGERS_MIN)];
  }

  wheel(event, target, isMeant) {
    const size = event.deltaMode === 0 ? 1 : LINE_PIXELS;
    const [dx, dy] = [event.deltaX * size, event.deltaY * size];
    const isSideways = event.shiftKey || Math.abs(dx) > Math.abs(dy);
    if (!isMeant && !event.ctrlKey && !isSideways) return;
    if (!event.cancelable || (!event.ctrlKey && performance.now() - this.scrolledAt < SCROLLED_MS)) return;
    event.preventDefault();
    if (!this.wheelTimer) this.time.hold();
    clearTimeout(this.wheelTimer);
    this.wheelTimer = setTimeout(() => this.rest(), WHEEL_END_MS);
    const box = target.getBoundingClientRect();
    if (isSideways) return this.time.pan((dx || dy) / box.width, "slide");
    const strength = event.ctrlKey && Math.abs(dy) < PINCH_BELOW ? PINCH_ZOOM : WHEEL_ZOOM;
    this.time.zoom(Math.exp(dy * strength), (event.clientX - box.left) / box.width, "slide");
  }

  rest() {
    this.wheelTimer = 0;
    this.on.settled();
  }

  key(event) {
    if (event.defaultPrevented || event.altKey || event.metaKey) return;
    if (event.key === "Escape" && this.drag?.mark) {
      const { drag } = this;
      this.drag = null;
      return this.end(drag);
    }
    const { target } = event;
    if (target.closest("input, textarea, select, dialog, [role=slider]")) return;
    const isInPlot = target.closest(".frame") !== null;
    const arrows = event.ctrlKey === isInPlot;
    // Ctrl with plus and minus is the browser's own zoom.
    if (event.ctrlKey && !(isInPlot && event.key.startsWith("Arrow"))) return;
    if (event.key === "+" || event.key === "=") this.time.zoom(1 / KEY_ZOOM, this.on.focus());
    else if (event.key === "-" || event.key === "_") this.time.zoom(KEY_ZOOM, this.on.focus());
    else if (arrows && event.key === "ArrowLeft") this.time.pan(-KEY_PAN);
    else if (arrows && event.key === "ArrowRight") this.time.pan(KEY_PAN);
    else if (event.key === "Home" && this.time.past) this.on.live();
    else if (event.key === "Backspace") this.time.back();
    else if (event.key === "?") this.on.keys();
    else return;
    event.preventDefault();
  }
}

/** From where to where a drag goes, as shares of the width, left one first. */
function sharesOf({ x, box }, now) {
  const share = (at) => Math.min(1, Math.max(0, (at - box.left) / box.width));
  return [share(x), share(now)].sort((a, b) => a - b);
}
