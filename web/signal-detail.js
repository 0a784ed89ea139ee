// What is said of one signal that somebody has opened: its state and value, what it means, since when, how others are, from which value
// on it is judged so, and where to look. It refuses to ask.

import { WORDS } from "./signal-chips.js";
import { element, visible } from "./element.js";

export class SignalDetail {
  /** `on` hears close() and panel(title): somebody wants to see where it is drawn. */
  constructor(on) {
    this.on = on;
    this.head = element("h2", {});
    this.means = element("p", {});
    this.facts = element("dl", { classes: "alert-texts" });
    this.links = element("p", { classes: "alert-links" });
    const close = element("button", { type: "button", classes: "boxed slim", "aria-label": "Close", text: "×" });
    close.addEventListener("click", () => on.close());
    this.root = element("div", { classes: "signal-detail", role: "region", "aria-label": "Signal", hidden: "" }, close, this.head, this.means, this.facts, this.links);
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      on.close();
    });
  }

  /** `facts`: [[word, text or elements]]; without a text there is none. `panels`: titles; `query`: an address. */
  show({ name, means }, state, value, facts, panels, query) {
    const shown = JSON.stringify([name, state, value, facts, panels, query]);
    this.root.hidden = false;
    if (shown === this.shown) return;
    this.shown = shown;
    this.head.textContent = visible(`${name}: ${[WORDS[state], value].filter((text) => text).join(", ")}`);
    this.root.dataset.state = state;
    this.means.textContent = means;
    this.facts.replaceChildren(
      ...facts.filter(([, text]) => text && text.length > 0).flatMap(([word, text]) => [element("dt", { text: word }), element("dd", {}, ...[text].flat().map(shownPart))]),
    );
    const buttons = panels.map((title) => {
      const button = element("button", { type: "button", classes: "linked", text: `Show ${title}` });
      button.addEventListener("click", () => this.on.panel(title));
      return button;
    });
    this.links.replaceChildren(...buttons, ...(query ? [element("a", { classes: "all", href: query, text: "Open in Query" })] : []));
  }

  hide() {
    this.root.hidden = true;
    this.shown = "";
  }
}

/** A text, or {href, text} as a link. */
function shownPart(part) {
  return part.href ? element("a", { classes: "all", href: part.href, text: part.text }) : visible(part);
}

/** "warning from 90 % on, until below 87 %; bad from 95 % on, until below 93 %; each for 30 s" */
export function thresholdsOf({ warning, bad, hold, format }) {
  const one = (word, { enter, leave }) => `${word} from ${format(enter)} on, until below ${format(leave)}`;
  return `${[one("warning", warning), bad ? one("bad", bad) : "never bad"].join("; ")}; for ${hold} s each`;
}
