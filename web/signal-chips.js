// A row of signals: a button for each, with a sign, a name and a value. One of them has the keyboard, and one may be open below. It
// refuses to know where states come from.

import { element, visible } from "./element.js";

/** The sign of each state: they differ in shape, not only in colour. */
const SIGNS = {
  ok: "M2 6.5 5 9.5 10 3",
  warning: "M6 1.5 11 10.5H1Z M6 4.5V7.5 M6 9V9.2",
  bad: "M4 1H8L11 4V8L8 11H4L1 8V4Z M4 4 8 8 M8 4 4 8",
  unknown: "M4 4.2A2 2 0 1 1 6 6.3V7.5 M6 9.6V9.8",
  absent: "M2 6H10",
};
/** The states in words; also what stands in place of a value. */
export const WORDS = { ok: "ok", warning: "warning", bad: "bad", unknown: "unknown", absent: "not here" };

const SVG = "http://www.w3.org/2000/svg";

export class Chips {
  /** `signals`: [{id, name}]. `on` hears open(id): somebody opens it, or closes it where it is open. */
  constructor(root, label, signals, on) {
    this.root = element("div", { classes: "signal-row", role: "toolbar", "aria-label": label });
    this.chips = new Map(signals.map((signal, at) => [signal.id, this.chip(signal, at === 0, on)]));
    this.root.append(...[...this.chips.values()].map(({ button }) => button));
    this.root.addEventListener("keydown", (event) => this.key(event));
    root.append(this.root);
  }

  chip({ id, name }, isFirst, on) {
    const svg = document.createElementNS(SVG, "svg");
    const path = document.createElementNS(SVG, "path");
    svg.setAttribute("viewBox", "0 0 12 12");
    svg.setAttribute("aria-hidden", "true");
    svg.append(path);
    const value = element("b", {});
    const title = element("span", {}, svg, ` ${name}`);
    const button = element("button", { type: "button", classes: "signal", "aria-expanded": "false", tabindex: isFirst ? "0" : "-1", "data-signal": id }, title, " ", value);
    button.addEventListener("click", () => on.open(id));
    button.addEventListener("focus", () => this.rove(button));
    return { name, button, path, value, shown: "" };
  }

  /** Shows a state and a text; `words` are all that a screen reader says. */
  show(id, state, text, words) {
    const chip = this.chips.get(id);
    const shown = `${state}|${text}|${words}`;
    if (chip.shown === shown) return;
    chip.shown = shown;
    chip.button.dataset.state = state;
    chip.path.setAttribute("d", SIGNS[state]);
    chip.value.textContent = visible(text);
    chip.button.setAttribute("aria-label", visible(`${chip.name} ${text}: ${words}`));
    chip.button.title = visible(words);
  }

  hide(id, isHidden) {
    const { button } = this.chips.get(id);
    if (button.hidden !== isHidden) button.hidden = isHidden;
    // One that is there has the keyboard.
    const seen = this.seen();
    if (seen.length > 0 && !seen.some(({ tabIndex }) => tabIndex === 0)) this.rove(seen[0]);
  }

  open(id) {
    for (const [other, { button }] of this.chips) button.setAttribute("aria-expanded", String(other === id));
  }

  focus(id) {
    this.chips.get(id)?.button.focus();
  }

  seen() {
    return [...this.chips.values()].map(({ button }) => button).filter(({ hidden }) => !hidden);
  }

  rove(button) {
    for (const { button: other } of this.chips.values()) other.tabIndex = other === button ? 0 : -1;
  }

  key(event) {
    const seen = this.seen();
    const at = seen.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: seen.length - 1 }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    // The page's own keys would move the window.
    event.preventDefault();
    seen[Math.min(seen.length - 1, Math.max(0, to))].focus();
  }
}
