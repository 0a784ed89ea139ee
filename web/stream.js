// The line to the server: history first, then the stream; a new stream before the old one closes when the rate
// changes; again and again, with growing pauses, when the server is gone. It refuses to know what rows mean.

import { ask } from "./ask.js";
import { FIRST_MORE, FIRST_ROWS, firstRows, historyPath, patternsOf } from "./first-rows.js";
import { rowTime } from "./table.js";
import { duration } from "./units.js";

const HISTORY_SECONDS = 600;
const HISTORY_ROWS = 600;
/** If the first rows take longer, they have to do: all rows would take some seconds. A window of the past asks for what it needs. */
const FIRST_MS = 50;
/** Pause before trying again: from the first to the longest. */
const RETRY_MS = [500, 1_000, 2_000, 4_000];
/** A node that is down is asked after this often. */
const DOWN_MS = 2_000;
/** A stream that says nothing for this time is taken for dead; the slowest rate sends a row every second. */
const SILENCE_MS = 8_000;

/** A live row that is older than the newest by this much does not overlap with history: the node's clock was set back. */
const SET_BACK_SECONDS = 2;

export class Line {
  /**
   * `patterns` select the series of `node`, or of the only node there is where that is null. `on` hears
   * node(name, answer), columns(list, periodSeconds, grantedRate), rows(rows, firstNew, lost), clockSetBack(),
   * notice(text) and state("connecting" | "live" | "waiting" | "paused" | "down", reason).
   */
  constructor(patterns, node, on, known = null) {
    this.patterns = patternsOf(patterns, node);
    this.wanted = node;
    /** What the server said of its nodes just now. */
    this.known = known;
    this.on = on;
    this.rate = 10;
    /** Seconds that the page shows, and that it has from the server's memory: more comes when more is shown. */
    this.span = HISTORY_SECONDS;
    this.reach = 0;
    this.stream = null;
    this.candidate = null;
    this.failures = 0;
    this.timer = 0;
    this.turn = 0;
    /** What the present turn has asked for is given up when another one begins. */
    this.asking = new AbortController();
    this.paused = false;
    /** Stamp of the newest row, and when it came by this browser's steady clock (milliseconds). */
    this.newest = NaN;
    this.newestAt = NaN;
    this.node = null;
    this.isDown = false;
  }

  /** Fetches what is missing and opens the stream. */
  async start() {
    const turn = this.next();
    clearTimeout(this.timer);
    this.timer = 0;
    this.paused = false;
    if (!this.isDown) this.on.state("connecting");
    try {
      await this.askNode(turn);
      if (turn === this.turn) await this.fetchHistory(turn);
    } catch (error) {
      // A node that has never been heard has no history either: that it is down says more.
      if (turn === this.turn && !this.isDown) this.retry(error.message);
    }
    if (turn !== this.turn || this.timer) return;
    if (this.isDown) this.timer = setTimeout(() => this.start(), DOWN_MS);
    else this.open();
  }

  /** Begins another turn. */
  next() {
    this.asking.abort();
    this.asking = new AbortController();
    return ++this.turn;
  }

  /** Another view follows. */
  end() {
    this.next();
    this.close();
    this.paused = true;
  }

  /** Asks for another rate; the rows go on meanwhile. */
  setRate(rate) {
    this.rate = rate;
    if (this.stream) this.open();
  }

  /** Shows a longer time; true: it is fetched, and the rows begin once more. */
  reachTo(span) {
    this.span = span;
    if (span <= this.reach || !this.stream) return false;
    this.close();
    this.newest = this.newestAt = NaN;
    this.start();
    return true;
  }

  /** Closes the stream: a paused page costs the node nothing. */
  pause() {
    this.next();
    this.close();
    this.paused = true;
    this.on.state("paused");
  }

  close() {
    clearTimeout(this.timer);
    this.timer = 0;
    clearTimeout(this.watch);
    this.stream?.close();
    this.candidate?.close();
    this.stream = this.candidate = null;
  }

  /** Asks for the node's name and whether it is up. */
  async askNode(turn) {
    const nodes = this.known ?? (await ask(`khz/v1/nodes?${this.wanted ? new URLSearchParams({ nodes: this.wanted }) : "brief=1"}`, this.asking.signal));
    this.known = null;
    if (turn !== this.turn) return;
    this.node = this.wanted ?? nodes.nodes[0] ?? null;
    this.on.node(this.node, nodes);
    if (!this.wanted) return;
    const status = nodes.status?.[0];
    if (!status) throw new Error(`there is no node ${this.wanted}`);
    this.isDown = !status.up;
    if (!this.isDown) return;
    const heard = status.heard_age === null ? "" : `, last heard ${duration(Number(status.heard_age))} ago`;
    const how = { left: "has left", missing: "is expected and was never seen" }[status.state] ?? "is down";
    this.on.state("down", `${this.wanted} ${how}${heard}${status.problem ? `: ${status.problem}` : ""}. It is shown again when it is back.`);
  }

  async fetchHistory(turn) {
    const missing = (performance.now() - this.newestAt) / 1000;
    const span = missing < HISTORY_SECONDS ? Math.ceil(missing) + 2 : HISTORY_SECONDS;
    const rowsMax = Math.min(HISTORY_ROWS, span * 10);
    const { signal } = this.asking;
    const first = Math.min(span, Math.max(this.span, this.reach) + FIRST_MORE);
    let { history, ms } = await firstRows(historyPath(this.patterns, first, Math.min(rowsMax, FIRST_ROWS)), signal);
    const isQuick = ms < FIRST_MS;
    if (turn !== this.turn) return;
    this.reach = Math.max(this.reach, isQuick ? HISTORY_SECONDS : this.span);
    // Of a node with very many CPUs the server refuses this number of rows.
    if (rowsMax > FIRST_ROWS && isQuick) history = await ask(historyPath(this.patterns, span, rowsMax), signal).catch(() => history);
    const part = history.nodes?.find((n) => n.node === this.node) ?? history.nodes?.[0];
    if (turn !== this.turn || !part?.rows?.length) return;
    const { rows } = part;
    const period = rows.length > 1 ? (rowTime(rows.at(-1)) - rowTime(rows[0])) / (rows.length - 1) : 1;
    this.on.columns(part.columns, period);
    this.deliver(rows, 0);
  }

  query(more) {
    const query = new URLSearchParams(this.patterns.map((pattern) => ["match", pattern]));
    for (const [name, value] of more) query.append(name, value);
    return query;
  }

  /** Opens a stream at the present rate; it takes over when its first columns are here. */
  open() {
    this.candidate?.close();
    const stream = new EventSource(`khz/v1/stream?${this.query([["rate", `${this.rate}Hz`], ["changes", "1"]])}`);
    this.candidate = stream;
    this.guard();
    stream.addEventListener("columns", (event) => {
      const data = JSON.parse(event.data);
      if (this.foreign(stream, data)) return;
      if (stream === this.candidate) this.takeOver(stream);
      this.on.columns(data.columns, data.period_ns / 1e9, data.rate);
    });
    stream.addEventListener("rows", (event) => {
      if (stream !== this.stream) return;
      const data = JSON.parse(event.data);
      if (this.foreign(stream, data)) return;
      this.guard();
      this.deliver(data.rows, data.lost ?? 0);
    });
    stream.addEventListener("notice", (event) => {
      if (stream !== this.stream && stream !== this.candidate) return;
      const { text, state } = JSON.parse(event.data);
      // That the node has gone or is back shows where its state stands.
      if (!state) this.on.notice(text);
    });
    stream.onerror = () => {
      if (stream !== this.stream && stream !== this.candidate) return;
      this.close();
      this.retry("the server closed the stream or cannot be reached");
    };
  }

  /** True for what a replaced stream or another node still says. */
  foreign(stream, data) {
    return (stream !== this.stream && stream !== this.candidate) || (this.node && data.node && data.node !== this.node);
  }

  takeOver(stream) {
    this.stream?.close();
    this.stream = stream;
    this.candidate = null;
    this.failures = 0;
    this.on.state("live");
  }

  /** Rows that are not newer than the newest were seen before: history and stream overlap. */
  deliver(rows, lost) {
    const last = rows.length > 0 ? rowTime(rows.at(-1)) : NaN;
    if (this.newest - last > SET_BACK_SECONDS && this.stream) {
      this.newest = NaN;
      this.on.clockSetBack();
    }
    let from = 0;
    while (from < rows.length && rowTime(rows[from]) <= this.newest) from++;
    this.on.rows(rows, from, lost);
    if (rows.length > from) {
      this.newest = last;
      this.newestAt = performance.now();
    }
  }

  /** Starts the wait for the next sign of life again. */
  guard() {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => {
      this.close();
      this.retry("the stream fell silent");
    }, SILENCE_MS);
  }

  retry(reason) {
    if (this.paused) return;
    const pause = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures++;
    this.on.state("waiting", reason);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.start(), pause);
  }
}
