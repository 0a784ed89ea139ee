// The bar that says which time is shown: now, or from when to when, what is still loading, what is not there and why. Its buttons do
// what the keys do, for fingers. It refuses to hide that a page is not live.

import { exactText, spanText, windowText } from "./moment.js";

const BUTTONS = {
  earlier: (time) => time.pan(-0.5),
  later: (time) => time.pan(0.5),
  in: (time) => time.zoom(0.5),
  out: (time) => time.zoom(2),
  back: (time) => time.back(),
};

/** A window that begins earlier than all data by less than this share of its length begins with them. */
export const SAME = 0.01;

/** A screen reader hears of another window when it has stood still for this long. */
const SPOKEN_MS = 600;

/** With what a window can be compared: how it is called in the address and in words, and how long before it was (0: as long as the window is). */
export const COMPARED = {
  before: { text: "the window before", back: 0 },
  "1h": { text: "the hour before", back: 3_600 },
  "1d": { text: "the day before", back: 86_400 },
  "1w": { text: "the week before", back: 604_800 },
};

export class TimeBar {
  /** `on` hears live(): somebody wants the present, and compare(name): to compare with another time, "" with none. */
  constructor(root, time, signal, on) {
    this.time = time;
    this.bar = root.querySelector("#timebar");
    this.text = this.bar.querySelector(".timebar-text");
    this.note = this.bar.querySelector(".timebar-note");
    this.spoken = this.bar.querySelector("[role=status]");
    this.keys = root.querySelector("#keys");
    /** When all data begin; 0: that is not known. */
    this.beginning = 0;
    const hear = (target, then) => target.addEventListener("click", then, { signal });
    this.live = this.bar.querySelector("#live");
    hear(this.live, on.live);
    this.compared = root.querySelector("#compared");
    const options = Object.entries(COMPARED).map(([name, { text }]) => new Option(text.replace("the ", ""), name));
    this.compared.replaceChildren(new Option("nothing", ""), ...options);
    this.compared.addEventListener("change", () => on.compare(this.compared.value), { signal });
    this.back = root.querySelector("[data-time=back]");
    for (const button of root.querySelectorAll("[data-time]")) hear(button, () => BUTTONS[button.dataset.time](time));
    hear(root.querySelector("#keys-open"), () => this.showKeys());
    hear(this.keys.querySelector("button"), () => this.keys.close());
  }

  close() {
    this.keys.close();
    clearTimeout(this.timer);
  }

  showKeys() {
    if (!this.keys.open) this.keys.showModal();
  }

  /** `pictures`: what the panels show; `now`: the node's time. */
  show(pictures, now) {
    const { past } = this.time;
    this.live.disabled = this.back.disabled = !past;
    const { from, to } = this.time.shown;
    if (!past) {
      put(this.text, `Live: the last ${spanText(to - from)}`);
      put(this.note, "drag in a plot to see more of a time");
      return this.speak("Live");
    }
    put(this.text, `Paused at ${windowText(from, to, now)}`);
    put(this.note, [spanText(to - from), ...this.notes(pictures, past, now)].join(" · "));
    this.speak(`${this.text.textContent}, ${this.note.textContent}`);
  }

  speak(text) {
    if (text === this.wanted) return;
    this.wanted = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => put(this.spoken, text), SPOKEN_MS);
  }

  notes(pictures, { from, to }, now) {
    const notes = [];
    const points = Math.max(0, ...pictures.map(({ pointSeconds }) => pointSeconds));
    if (pictures.some(({ isLoading }) => isLoading)) notes.push("loading…");
    const why = pictures.find((picture) => picture.why && !picture.isLoading)?.why;
    const { beginning } = this;
    if (this.compared.value) notes.push(`dashed: ${COMPARED[this.compared.value].text}${pictures.some(({ beforeOf }) => beforeOf) ? "" : ", of which nothing is kept"}`);
    if (from < beginning - SAME * (to - from)) notes.push(`no data before ${exactText(beginning, to - from, now)}`);
    if (why) notes.push(why);
    if (points > 0) notes.push(`points of ${spanText(points)}: gauges with lowest and highest, rates as means`);
    return notes;
  }
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
