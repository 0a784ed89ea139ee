// The card of a demo: what happens now, with a link to the view that shows it and the command that shows it in a terminal. It asks for
// the stops once and goes by its own clock. It refuses to know the views: a link changes the address, and the page follows.

import { ask } from "./ask.js";
import { element } from "./element.js";

/** Pause before the question is asked again, while the demo has not begun. */
const RETRY_MS = 1_000;
/** How often the countdown changes. */
const TICK_MS = 500;

class Tour {
  constructor() {
    this.stops = [];
    /** When it began, on the clock of performance.now(); NaN: not yet. */
    this.began = NaN;
    /** The stop that is shown, and whether the reader has chosen it. */
    this.shown = -1;
    this.chosen = false;
    this.ended = new AbortController();
    this.root = this.card();
    this.ask();
  }

  async ask() {
    const answer = await ask("khz/v1/tour", this.ended.signal).catch(() => null);
    if (this.ended.signal.aborted) return;
    if (answer?.stops?.length && answer.lasted !== null) {
      this.stops = answer.stops.map((stop) => ({ ...stop, at: Number(stop.at) }));
      this.began = performance.now() - 1_000 * Number(answer.lasted);
      document.body.append(this.root);
      this.timer = setInterval(() => this.tick(), TICK_MS);
      this.tick();
    } else if (!answer || answer.stops?.length) {
      this.timer = setTimeout(() => this.ask(), RETRY_MS);
    }
  }

  get now() {
    return (performance.now() - this.began) / 1_000;
  }

  /** How many stops have come. */
  get come() {
    return this.stops.filter(({ at }) => at <= this.now).length;
  }

  tick() {
    const { come, stops } = this;
    if (come > 0 && (this.shown < 0 || (!this.chosen && this.shown !== come - 1))) this.show(come - 1);
    const next = stops[come];
    this.next.textContent = next ? `Next in ${clock(next.at - this.now)}` : "";
    this.turn();
  }

  /** Shows a stop that has come; the newest one gives way to the next. */
  show(number) {
    const stop = this.stops[number];
    this.shown = number;
    this.chosen = number !== this.come - 1;
    this.title.textContent = stop.title;
    this.time.textContent = clock(stop.at);
    this.text.textContent = stop.text;
    this.link.href = `#${stop.view}`;
    this.command.textContent = `khz ${stop.command} --server ${location.origin}`;
    this.turn();
  }

  /** The buttons lead where something has come. */
  turn() {
    this.back.disabled = this.shown <= 0;
    this.forth.disabled = this.shown >= this.come - 1;
    this.root.dataset.shown = String(this.shown);
  }

  end() {
    this.ended.abort();
    clearTimeout(this.timer);
    clearInterval(this.timer);
    this.root.remove();
    const search = new URLSearchParams(location.search);
    search.delete("tour");
    const rest = search.toString();
    history.replaceState(history.state, "", location.pathname + (rest && `?${rest}`) + location.hash);
  }

  card() {
    const button = (text, label, press) => {
      const made = element("button", { type: "button", text, "aria-label": label, classes: "tour-button" });
      made.addEventListener("click", press);
      return made;
    };
    this.time = element("span", { classes: "tour-time" });
    this.title = element("h2", { classes: "tour-title", id: "tour-title" });
    this.text = element("p", {});
    this.link = element("a", { classes: "tour-link", text: "Show it" });
    this.command = element("code", { tabindex: "0", "aria-label": "The same in a terminal" });
    this.next = element("span", { classes: "tour-next" });
    this.back = button("‹", "Stop before", () => this.show(this.shown - 1));
    this.forth = button("›", "Next stop", () => this.show(this.shown + 1));
    const close = button("×", "Close the tour", () => this.end());
    // The countdown is no news: only the stop itself is read out.
    const stop = element("div", { role: "status" }, this.title, this.text);
    return element(
      "aside",
      { classes: "tour", "aria-labelledby": "tour-title" },
      element("div", { classes: "tour-head" }, this.time, this.back, this.forth, close),
      stop,
      element("p", { classes: "tour-show" }, this.link, this.next),
      this.command,
    );
  }
}

/** Minutes and seconds. */
function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

const style = element("link", { rel: "stylesheet", href: "tour.css" });
// Without its looks the card would stand below the page for a moment.
style.addEventListener("load", () => new Tour(), { once: true });
document.head.append(style);
