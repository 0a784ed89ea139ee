// The heading: whose numbers these are, how long it has been up, what rate is reached and what khz itself costs.
// It refuses to show a number that was not measured.

import { PRESENT } from "./table.js";
import { Rate } from "./feeds.js";
import { bytes, digits, duration, plain, UNKNOWN_TEXT } from "./units.js";

/** Own CPU is measured over this: shorter, and one tick of the kernel's clock is a per cent. */
const OWN_CPU_WINDOW_SECONDS = 1;
/** The rate is computed over at least this many seconds of rows. */
const RATE_WINDOW_SECONDS = 1;

export class Heading {
  constructor(root, board) {
    this.cells = new Map([...root.querySelectorAll("[data-fact]")].map((cell) => [cell.dataset.fact, cell]));
    this.board = board;
    this.own = board.feed(new Rate("khz.process.cpu", undefined, OWN_CPU_WINDOW_SECONDS)).track;
    this.lost = 0;
    this.rows = 0;
    this.reached = NaN;
    /** The rate that the server granted, which may be less than the one asked for. */
    this.granted = NaN;
    /** The rate that was asked for. */
    this.asked = NaN;
    this.slowed = root.querySelector("#slowed");
    this.restart();
  }

  /** Nothing is known any more: another node follows. */
  clear() {
    for (const cell of this.cells.values()) cell.textContent = UNKNOWN_TEXT;
    this.say("");
  }

  /** Counts the rows of the stream whose newest is stamped `time`. */
  count(rows, lost, time) {
    this.rows += rows;
    this.lost += lost;
    this.newest = time;
    if (Number.isNaN(this.sinceTime)) {
      this.sinceTime = time;
      this.sinceRows = this.rows;
    } else if (time - this.sinceTime >= RATE_WINDOW_SECONDS) {
      this.reached = (this.rows - this.sinceRows) / (time - this.sinceTime);
      this.sinceTime = time;
      this.sinceRows = this.rows;
    }
  }

  /** Another rate: what was reached before says nothing about it. */
  restart() {
    this.sinceTime = NaN;
    this.reached = NaN;
  }

  /** Writes the facts; `current` is false when no row came lately, and only what was counted here is still known. */
  write(current) {
    const { table } = this.board;
    if (!table) return;
    if (!current) this.restart();
    const value = (name) => {
      const column = table.find(name);
      return current && column >= 0 && table.state[column] === PRESENT ? table.value[column] : NaN;
    };
    this.put("uptime", duration(value("uptime.up")));
    this.put("rate", this.rateText());
    this.say(this.slowedText(value("khz.gather.slowdown")));
    const ticks = (kind) => plain(current ? this.sum(`khz.lane.${kind}_ticks`) : NaN);
    this.put("late", `${ticks("late")} / ${ticks("skipped")}`);
    this.put("lost", plain(this.lost));
    this.put("cpu", current && Number.isFinite(this.own.last) ? `${digits(100 * this.own.last)} % of one` : UNKNOWN_TEXT);
    this.put("memory", bytes(value("khz.process.rss_anon")));
  }

  rateText() {
    if (Number.isNaN(this.granted)) return UNKNOWN_TEXT;
    return `${Number.isFinite(this.reached) ? digits(this.reached) : "…"} of ${this.granted} Hz`;
  }

  /**
   * What there is to say where fast lanes run slower than asked, this page's or those of others. `times`: how many times
   * slower the others are. A rate that is hardly slower was rounded.
   */
  slowedText(times) {
    const advice = "below its CPU ceiling (cpu_max). Ask for a lower rate or let it take more; khz check on the node says which rate fits.";
    if (this.granted * 2 <= this.asked) return `Rows come at ${this.granted} Hz instead of ${this.asked} Hz: the node stays ${advice}`;
    if (times > 1) return `Fast readers of this node get their rows ${times} times slower than asked: it stays ${advice}`;
    return "";
  }

  say(text) {
    if (this.slowed.textContent !== text) this.slowed.textContent = text;
  }

  /** The sum of a metric over its instances; NaN when none is known. */
  sum(name) {
    const { table } = this.board;
    let sum = NaN;
    table.columns.forEach((column, i) => {
      if (column.name === name && table.state[i] === PRESENT) sum = (sum || 0) + table.value[i];
    });
    return sum;
  }

  put(fact, text) {
    const cell = this.cells.get(fact);
    if (cell && cell.textContent !== text) cell.textContent = text;
  }
}
