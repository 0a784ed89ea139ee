// How many alerts fire, in the page's head. It asks rarely, only while the page is visible, and shows what it does not know as
// unknown. It refuses to list them.

import { ask } from "./ask.js";
import { UNKNOWN_TEXT } from "./units.js";

/** Pause between two questions. */
const REFRESH_MS = 15_000;

export class AlertCount {
  constructor(link) {
    this.link = link;
    this.asking = null;
    document.addEventListener("visibilitychange", () => this.refresh());
    this.show(null);
    this.refresh();
  }

  async refresh() {
    clearTimeout(this.timer);
    this.asking?.abort();
    if (document.hidden) return;
    const asking = (this.asking = new AbortController());
    const counts = await ask("khz/v1/rules", asking.signal).catch(() => null);
    if (asking.signal.aborted) return;
    this.show(counts);
    this.timer = setTimeout(() => this.refresh(), REFRESH_MS);
  }

  /** {rules, firing}; null: nobody knows. Without rules there is no number. */
  show(counts) {
    const { link } = this;
    const known = counts && Number.isFinite(counts.firing);
    const text = !known ? UNKNOWN_TEXT : counts.rules === 0 ? "" : counts.firing.toLocaleString("en");
    link.dataset.state = !known ? "unknown" : counts.firing > 0 ? "firing" : "quiet";
    link.title = !known ? "It is not known how many alerts fire" : counts.rules === 0 ? "This khz evaluates no rules" : `${text} ${counts.firing === 1 ? "alert fires" : "alerts fire"}`;
    const badge = link.querySelector("b");
    if (badge.textContent !== text) badge.textContent = text;
    badge.hidden = text === "";
    link.setAttribute("aria-label", `Alerts: ${link.title}`);
  }
}
