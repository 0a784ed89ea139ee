// The bar of a board's time: which window is shown, and buttons that do what the keys do. It refuses to know what is shown in it.

import { spanText, windowText } from "./moment.js";
import { element } from "./element.js";

/** How long the windows are that end now, as the address calls them (s). */
export const SPANS = { "1m": 60, "5m": 300, "15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "28d": 2_419_200 };
export const SPAN_DEFAULT = "15m";
const UNITS = { m: "min", h: "h", d: "d" };

const BUTTONS = [
  ["←", "Earlier", (time) => time.pan(-0.5)],
  ["→", "Later", (time) => time.pan(0.5)],
  ["+", "Zoom in", (time) => time.zoom(0.5)],
  ["−", "Zoom out", (time) => time.zoom(2)],
  ["↩", "Back to the window before", (time) => time.back()],
];

export class OwnTime {
  /** `time`: a TimeWindow; span(name) is called when another length is chosen. */
  constructor(time, span) {
    this.time = time;
    this.text = element("b", { classes: "timebar-text" });
    this.note = element("span", { classes: "timebar-note" });
    this.list = element("select", { classes: "span" }, ...Object.keys(SPANS).map((value) => element("option", { value, text: `${value.slice(0, -1)} ${UNITS[value.at(-1)]}` })));
    this.list.addEventListener("change", () => span(this.list.value));
    const button = (text, label, then, classes = "boxed slim") => {
      const made = element("button", { type: "button", classes, text, "aria-label": label });
      made.addEventListener("click", then);
      return made;
    };
    const buttons = BUTTONS.map(([text, label, then]) => button(text, label, () => then(time)));
    this.back = buttons.at(-1);
    this.live = button("Live", "Live", () => time.goLive(), "boxed live-pill");
    this.choice = element("label", { classes: "choice short" }, element("span", { text: "Last" }), this.list);
    this.root = element(
      "div",
      { classes: "timebar own-bar", role: "group", "aria-label": "Shown time" },
      element("p", {}, this.text, " ", this.note),
      element("div", { classes: "timebar-buttons" }, ...buttons, this.live),
    );
  }

  get span() {
    return this.list.value;
  }

  set span(name) {
    this.list.value = Object.hasOwn(SPANS, name ?? "") ? name : SPAN_DEFAULT;
  }

  show(now) {
    const { past, shown } = this.time;
    const length = shown.to - shown.from;
    document.body.toggleAttribute("data-past", past !== null);
    this.live.disabled = this.back.disabled = past === null;
    put(this.text, past ? `Paused at ${windowText(shown.from, shown.to, now)}` : `Live: the last ${spanText(length)}`);
    put(this.note, past ? spanText(length) : "drag in a panel to see more of a time");
  }
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
