// The panels of one's own on a page: which there are, in which order and how wide, and how they are added, moved and removed with
// mouse, finger and keys. It refuses to know where the address is, and what time is shown.

import { PatternLines } from "./own-lines.js";
import { OwnPanel } from "./own-panel.js";
import { NodesPast } from "./own-past.js";
import { QueryLines, Turns } from "./own-query.js";
import { spec as specOf, splitPattern, titleOf, whyNot } from "./own-spec.js";
import { loadStyle } from "./own-style.js";
import { element } from "./element.js";
import { IN_FLIGHT_MAX } from "./past.js";

/** Numbers change this often. */
const NUMBERS_MS = 250;
/** A window that ends now moves on by this at least (s), and by this share of its length: nobody sees less. */
const LIVE_STEP = 1;
const LIVE_SHARE = 1 / 300;
/** What failed is asked for again after this long. */
const AGAIN_MS = 5_000;

export class OwnPanels {
  /**
   * `node`: whose series a pattern without nodes means; null: those of all nodes. `host` has attach(panel) and detach(panel), changed():
   * the address has to be written, notice(text), and where the page has a stream, live: LivePatterns.
   */
  constructor(grid, node, signal, host) {
    this.grid = grid;
    this.node = node;
    this.signal = signal;
    this.host = host;
    this.panels = [];
    this.turns = new Turns(IN_FLIGHT_MAX);
    this.isOld = false;
    this.past = new NodesPast(() => (this.isOld = true));
    this.window = null;
    this.numbersAt = -Infinity;
    this.againAt = -Infinity;
    this.drag = null;
    this.stream = null;
    this.shown = null;
    this.spoken = element("p", { classes: "visually-hidden", role: "status" });
    grid.before(this.spoken);
    signal.addEventListener("abort", () => this.close());
    grid.addEventListener("pointermove", (event) => this.dragOver(event), { signal });
    for (const name of ["pointerup", "pointercancel"]) grid.addEventListener(name, () => this.drop(), { signal });
    loadStyle("own.css");
  }

  get specs() {
    return this.panels.map(({ spec }) => spec);
  }

  /** Shows exactly these panels; those that stay keep their pictures. */
  show(specs) {
    const left = [...this.panels];
    this.panels = specs.map((spec) => {
      const at = left.findIndex((panel) => titleOf(panel.spec) === titleOf(spec) && panel.spec.match === spec.match && panel.spec.query === spec.query);
      if (at < 0) return this.build(spec);
      const [panel] = left.splice(at, 1);
      panel.change(spec);
      return panel;
    });
    for (const panel of left) panel.close();
    this.place();
  }

  build(spec) {
    const source = spec.query ? new QueryLines(spec.query, this.turns, this.signal, () => (this.isOld = true)) : new PatternLines(spec.match, this.node, this.past, this.signal);
    // What the stream brings is faster than what the server has stored.
    const live = spec.match && !splitPattern(spec.match).hosts ? (this.host.live?.follow(spec.match) ?? null) : null;
    const panel = new OwnPanel(spec, source, live, this.host, {
      kind: (kind) => this.change(panel, { kind }),
      wide: () => this.change(panel, { wide: !panel.spec.wide }),
      remove: () => this.remove(panel),
      grab: (event) => this.grab(panel, event),
      key: (event) => this.key(panel, event),
    });
    return panel;
  }

  /** Puts the panels into the page in their order. One that has the focus keeps it. */
  place() {
    this.panels.forEach(({ root }, at) => {
      if (this.grid.children[at] === root) return;
      const hadFocus = root.contains(document.activeElement) ? document.activeElement : null;
      this.grid.insertBefore(root, this.grid.children[at] ?? null);
      hadFocus?.focus();
    });
    this.isOld = true;
  }

  /** Adds a panel at the end; false: there is no room, which it says. */
  add(spec) {
    const why = whyNot([...this.specs, spec]);
    if (why) {
      this.host.notice(why);
      return false;
    }
    this.panels.push(this.build(spec));
    this.place();
    this.host.changed();
    const { root } = this.panels.at(-1);
    root.scrollIntoView({ block: "nearest" });
    this.say(`Panel added: ${titleOf(spec)}`);
    return true;
  }

  remove(panel) {
    const at = this.panels.indexOf(panel);
    this.panels.splice(at, 1);
    panel.close();
    this.say(`Panel removed: ${titleOf(panel.spec)}`);
    // The focus goes to the neighbour, so that a keyboard can go on.
    (this.panels[at] ?? this.panels[at - 1])?.handle.focus();
    this.host.changed();
  }

  change(panel, what) {
    panel.change(specOf({ ...panel.spec, ...what }));
    this.isOld = true;
    this.host.changed();
  }

  key(panel, event) {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -this.panels.length, End: this.panels.length }[event.key];
    if (by === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const at = this.panels.indexOf(panel);
    this.move(panel, Math.min(this.panels.length - 1, Math.max(0, at + by)));
    this.host.changed();
    panel.handle.focus();
  }

  move(panel, to) {
    const at = this.panels.indexOf(panel);
    if (at === to) return;
    this.panels.splice(at, 1);
    this.panels.splice(to, 0, panel);
    this.place();
    this.say(`${titleOf(panel.spec)}: place ${to + 1} of ${this.panels.length}`);
  }

  /** A handle is pressed: the panel goes where the pointer is, until it is let go. */
  grab(panel, event) {
    if (event.button !== 0) return;
    event.preventDefault();
    panel.handle.focus();
    // A panel that moves in the page loses the pointer, the grid does not.
    this.grid.setPointerCapture(event.pointerId);
    this.drag = { panel, from: this.panels.indexOf(panel) };
    panel.root.classList.add("dragged");
  }

  dragOver(event) {
    if (!this.drag) return;
    const over = this.panels.find(({ root }) => {
      const { left, right, top, bottom } = root.getBoundingClientRect();
      return event.clientX >= left && event.clientX < right && event.clientY >= top && event.clientY < bottom;
    });
    if (over && over !== this.drag.panel) this.move(this.drag.panel, this.panels.indexOf(over));
  }

  drop() {
    if (!this.drag) return;
    const { panel, from } = this.drag;
    this.drag = null;
    panel.root.classList.remove("dragged");
    if (this.panels.indexOf(panel) !== from) this.host.changed();
  }

  say(text) {
    this.spoken.textContent = text;
  }

  /** Draws the window `shown`, which may end now; `time` is pointed at, NaN: nothing is; `live`: {edge, tier, reader} of a stream. */
  draw(shown, isLive, time, now, live = null) {
    this.stream = isLive ? live : null;
    this.shown = shown;
    const isOther = this.isOther(shown, isLive);
    if (isOther) this.window = { from: shown.from, to: shown.to, isLive };
    const isAgain = now - this.againAt >= AGAIN_MS;
    if (isAgain) this.againAt = now;
    let drawn = false;
    for (const panel of this.panels) if (this.isStreamed(panel) && panel.drawLive({ ...live, ms: now })) drawn = true;
    if (isOther || this.isOld || isAgain || this.panels.some((own) => !this.isStreamed(own) && own.panel.shown && (!own.picture || own.panel.picture.stale))) {
      this.isOld = false;
      this.past.begin();
      for (const panel of this.panels) if (!this.isStreamed(panel) && panel.draw(this.window, shown.now)) drawn = true;
      this.past.sweep();
      this.numbersAt = -Infinity;
    }
    if (now - this.numbersAt >= NUMBERS_MS) this.write(time, now);
    return drawn;
  }

  write(time, now = performance.now(), reader = this.stream?.reader) {
    this.numbersAt = now;
    const { from, to } = this.shown ?? {};
    for (const panel of this.panels) panel.write(time, this.window?.isLive, reader, to - from, to);
  }

  /** True where the stream is drawn. */
  isStreamed({ live, spec }) {
    // Areas need values at the same times, which series that came later do not have.
    return live !== null && this.stream !== null && spec.kind !== "stack";
  }

  /** True when another window is to be shown: one that ends now moves on step by step. */
  isOther({ from, to }, isLive) {
    const { window } = this;
    if (!window || window.isLive !== isLive) return true;
    if (!isLive) return window.from !== from || window.to !== to;
    const isLong = Math.abs(window.to - window.from - (to - from)) > (to - from) * 1e-3;
    return isLong || Math.abs(to - window.to) >= Math.max(LIVE_STEP, (to - from) * LIVE_SHARE);
  }

  /** For tests. */
  forTests() {
    return this.panels.map(({ spec, panel, picture, lines, keys, liveLines }) => ({ ...spec, title: panel.title, why: panel.note.textContent, isEmpty: liveLines ? liveLines.length === 0 : (picture?.isEmpty ?? true), lines: lines.map(({ label, unit }, line) => ({ label, unit, values: picture?.ownOf(keys[line])?.given ?? 0 })), isStreamed: liveLines !== null, legend: panel.values.map(({ shown }) => shown) }));
  }

  repaint() {
    for (const { panel } of this.panels) panel.picture.refresh();
    this.isOld = true;
  }

  close() {
    for (const panel of this.panels) panel.close();
    this.panels = [];
    this.past.close();
    this.spoken.remove();
  }
}
