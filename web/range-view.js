// A view of panels over a time that ends now: how it begins and ends, and what its address keeps of the time. The views that
// extend it say what is asked. It refuses to ask.

import { linkViews } from "./measure-choice.js";
import { fillSpans, RangePanels, SPAN_DEFAULT, SPANS, stepOf } from "./range-panels.js";

export class RangeView {
  /** `root` has the markup; `on` hears name, state, address as in main.js. The view that extends it calls ask(asked) when it is made. */
  constructor(name, root, on) {
    this.root = root;
    this.on = on;
    this.ended = new AbortController();
    this.find = (selector) => root.querySelector(selector);
    this.panels = new RangePanels(this.find(".grid"), this.ended.signal, {
      state: on.state,
      shown: () => {
        on.seen();
        this.shown();
      },
    });
    this.hear(".span", () => this.start());
    on.name(name);
  }

  /** Hears of another choice in a list. */
  hear(selector, then, event = "change") {
    this.find(selector).addEventListener(event, then, { signal: this.ended.signal });
  }

  close() {
    this.ended.abort();
    this.panels.root.replaceChildren();
  }

  repaint() {
    this.panels.repaint();
  }

  /** A round of answers is shown. */
  shown() {}

  /** The time that an address asks for. */
  askSpan(asked) {
    fillSpans(this.find(".span"), asked.get("range"));
  }

  /** The chosen time, and the distance of its points (s). */
  get span() {
    return SPANS[this.find(".span").value];
  }

  get step() {
    return stepOf(this.span);
  }

  /** Writes the address, and the links to the other views, which keep `kept`. */
  writeAddress(view, choices, kept) {
    const range = this.find(".span").value;
    const hash = new URLSearchParams({ view, ...choices, ...(range === SPAN_DEFAULT ? {} : { range }) });
    this.on.address(hash.toString());
    linkViews(this.find(".views"), view, kept);
  }
}
