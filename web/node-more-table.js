// Who uses the node: processes, programs and control groups, sorted by what they use, now or at the time that is shown or pointed at.
// It refuses to draw, and to show anybody's number of another time.

import { askLines } from "./ask.js";
import { exactText } from "./moment.js";
import { element, visible } from "./element.js";
import { rowsOf, SORTS, TABLES } from "./node-more-ranks.js";
import { UNKNOWN_TEXT } from "./units.js";

/** Rows that are shown, and all of them: a table of more is not read. */
const ROWS_SHOWN = 10;
const ROWS_MAX = 60;
/** What is now is asked for this often. */
const AGAIN_MS = 2_000;
/** A pointer that rests for this long wants to know. */
const REST_MS = 120;
/** A time is another one when it differs by this much (s): rows are a second apart. */
const SAME_SECONDS = 0.5;
/** How far back is looked for a row (s): roll-ups of minutes and hours are farther apart. */
const REACHES = [10, 180, 7_300];
const CHOICE_DEFAULT = "processes.cpu";

export class MoreTable {
  /** `node`: its name where there are several; chosen() hears when the address has to be written. */
  constructor(node, signal, chosen) {
    this.node = node;
    this.signal = signal;
    this.chosen = chosen;
    [this.kind, this.sort] = CHOICE_DEFAULT.split(".");
    this.isWhole = false;
    this.rows = [];
    /** The time that was asked for; NaN: now. */
    this.at = NaN;
    this.movedAt = -Infinity;
    this.askedAt = -Infinity;
    this.isOld = true;
    this.running = null;
    this.build();
    signal.addEventListener("abort", () => {
      this.running?.abort();
      this.seen.disconnect();
    });
  }

  build() {
    this.kinds = Object.entries(TABLES).map(([kind, { label }]) => {
      const button = element("button", { type: "button", text: label, "data-palette": `Show ${label.toLowerCase()}` });
      button.addEventListener("click", () => this.change(kind, this.sort));
      return [kind, button];
    });
    this.when = element("small", {});
    this.head = element("tr", {});
    this.body = element("tbody", {});
    this.note = element("p", { classes: "note" });
    this.all = element("button", { type: "button", classes: "boxed ranks-all", "aria-pressed": "false", text: "Show all" });
    this.all.addEventListener("click", () => {
      this.isWhole = !this.isWhole;
      this.all.setAttribute("aria-pressed", String(this.isWhole));
      this.all.textContent = this.isWhole ? "Show fewer" : "Show all";
      this.write();
    });
    this.root = element(
      "section",
      { classes: "ranks", "aria-label": "Who uses the node" },
      element("h2", { text: "Who uses the node " }, this.when),
      element("div", { classes: "segments", role: "group", "aria-label": "Kind" }, ...this.kinds.map(([, button]) => button)),
      element("div", { classes: "ranks-box", tabindex: "0", role: "region", "aria-label": "Table of who uses the node" }, element("table", {}, element("thead", {}, this.head), this.body)),
      this.note,
      this.all,
    );
    this.isSeen = false;
    this.seen = new IntersectionObserver((entries) => (this.isSeen = entries.at(-1).isIntersecting), { rootMargin: "60px" });
    this.seen.observe(this.root);
    this.writeHead();
  }

  /** What an address says: `processes.io`; nothing is the usual choice. */
  choose(text) {
    const [kind, sort] = String(text ?? CHOICE_DEFAULT).split(".");
    if (!Object.hasOwn(TABLES, kind) || !Object.hasOwn(SORTS, sort ?? "")) return;
    if (kind === this.kind && sort === this.sort) return;
    this.set(kind, sort);
  }

  change(kind, sort) {
    this.set(kind, sort);
    this.chosen();
  }

  set(kind, sort) {
    if (kind !== this.kind) [this.rows, this.isOld, this.hasAnswer] = [[], true, false];
    [this.kind, this.sort] = [kind, sort];
    this.writeHead();
    this.write();
  }

  get address() {
    const choice = `${this.kind}.${this.sort}`;
    return choice === CHOICE_DEFAULT ? "" : `top=${choice}`;
  }

  /** `at`: the time to show, NaN: now, which is `now` by the node's clock. Called each frame. */
  show(at, now, nowMs) {
    if (!this.isSeen || Number.isNaN(now)) return;
    if (!Object.is(at, this.wanted)) [this.wanted, this.movedAt] = [at, nowMs];
    const isLive = Number.isNaN(at);
    const isOther = isLive !== Number.isNaN(this.at) || Math.abs(at - this.at) >= SAME_SECONDS;
    const isDue = isLive ? nowMs - this.askedAt >= AGAIN_MS && (!this.running || nowMs - this.askedAt >= 5 * AGAIN_MS) : false;
    if (!(this.isOld || isDue || (isOther && nowMs - this.movedAt >= REST_MS))) return;
    this.isOld = false;
    this.askedAt = nowMs;
    this.at = at;
    this.fetch(isLive ? now : at, isLive, now);
  }

  async fetch(to, isLive, now) {
    this.running?.abort();
    const running = (this.running = new AbortController());
    const { kind } = this;
    try {
      let rows = [];
      for (const reach of isLive ? REACHES.slice(0, 1) : REACHES) {
        rows = rowsOf(kind, await askLines(this.path(kind, to, reach), running.signal), to);
        if (rows.length > 0) break;
      }
      if (running.signal.aborted || kind !== this.kind) return;
      this.rows = rows;
      this.why = "";
    } catch (error) {
      if (running.signal.aborted) return;
      [this.rows, this.why] = [[], error.message];
    }
    this.running = null;
    this.hasAnswer = true;
    this.shownAt = isLive ? "now" : `at ${exactText(to, 0, now)}`;
    this.write();
  }

  path(kind, to, reach) {
    const query = new URLSearchParams(TABLES[kind].patterns.map((pattern) => ["match", this.node ? `${this.node}:${pattern}` : pattern]));
    query.append("from", (to - reach).toFixed(3));
    // A range ends before its end.
    query.append("to", (to + 0.001).toFixed(3));
    return `khz/v1/range?${query}`;
  }

  writeHead() {
    for (const [kind, button] of this.kinds) button.setAttribute("aria-pressed", String(kind === this.kind));
    const { columns } = TABLES[this.kind];
    const cells = columns.map(({ label, sort }) => {
      if (!sort) return element("th", { scope: "col", text: label });
      const button = element("button", { type: "button", text: label, title: `Sort by ${label}` });
      button.addEventListener("click", () => this.change(this.kind, sort));
      return element("th", { scope: "col", classes: "number", "aria-sort": sort === this.sort ? "descending" : "none" }, button);
    });
    const focused = [...this.head.children].findIndex((cell) => cell.contains(document.activeElement));
    this.head.replaceChildren(...cells);
    cells[focused]?.querySelector("button")?.focus();
  }

  /** For tests. */
  forTests() {
    return { kind: this.kind, sort: this.sort, at: this.shownAt, rows: this.rows, why: this.why };
  }

  write() {
    const { columns, empty } = TABLES[this.kind];
    const value = (row) => (Number.isFinite(row[this.sort]) ? row[this.sort] : -1);
    const sorted = this.rows.toSorted((a, b) => value(b) - value(a));
    const shown = sorted.slice(0, this.isWhole ? ROWS_MAX : ROWS_SHOWN);
    const rows = shown.map((row) => element("tr", {}, ...columns.map((column) => cell(column, row))));
    this.body.replaceChildren(...rows);
    this.when.textContent = this.shownAt ?? "";
    const nothing = this.why ? visible(this.why) : this.hasAnswer ? empty : "";
    this.note.textContent = this.rows.length === 0 ? nothing : TABLES[this.kind].note;
    this.all.hidden = this.rows.length <= ROWS_SHOWN;
  }
}

function cell({ of, sort, format }, row) {
  if (!sort) return element("td", { text: of(row) });
  const value = row[sort];
  return element("td", { classes: "number", text: Number.isFinite(value) ? format(value) : UNKNOWN_TEXT });
}
