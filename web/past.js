// The past: what the server has stored, fetched piece by piece as windows need it, and kept within a limit of bytes. Pieces have
// fixed beginnings and lengths, so that a window that moves finds most of them here. It refuses to ask for more than a screen can
// show, and to go on with what nobody wants any more.

import { askLines } from "./ask.js";
import { PastRows } from "./past-rows.js";

/** Lengths of pieces in seconds. As 960 points each, the longer ones have points of whole minutes and hours, as the store has them. */
const SPANS = [60, 300, 1_200, 4_800, 14_400, 57_600, 288_000, 864_000, 3_456_000, 13_824_000];
/** Points of a series in a piece. */
const POINTS_MAX = 960;
const POINTS_MIN = 24;
/** Points in a piece: with what the server says of each, some 300 bytes, they take 14 MB. */
const POINTS_ALL_MAX = 49_152;
/** Readings in a piece, some 55 bytes each; where there would be more, points are asked for. */
const READINGS_MAX = 131_072;
/** The base lane has a row a second. */
const ROW_SECONDS = 1;
/** Rows of the last moment may still be on their way. */
const SETTLED_SECONDS = 1;
/** All pieces together: some dozen windows of all panels. */
export const PAST_BYTES_MAX = 64 << 20;
/** Pieces of which something is known, also of those that are empty or failed. */
const PIECES_MAX = 4_096;
/** Requests at a time: the server reads two histories at once. */
export const IN_FLIGHT_MAX = 2;
/** What failed is not asked for again for this long. */
const FAILED_MS = 5_000;

export class Past {
  /** `node`: its name where there are several; `changed()` is called when something has come; `bytesMax`: what all pieces may take. */
  constructor(node, changed, bytesMax = PAST_BYTES_MAX) {
    this.node = node;
    this.changed = changed;
    this.bytesMax = bytesMax;
    this.pieces = new Map();
    this.waiting = [];
    this.inFlight = 0;
    this.turn = 0;
    this.bytes = 0;
    /** Before this time the server has nothing; NaN: nobody knows yet, and so nothing is asked for. */
    this.beginning = NaN;
    /** How many answers came, and how many requests were given up: for tests. */
    this.fetched = 0;
    this.aborted = 0;
  }

  /** Another window is shown: what it does not ask for before `sweep` is not wanted any more. */
  begin() {
    this.turn++;
  }

  /** Ends what nobody wants any more. */
  sweep() {
    this.waiting = this.waiting.filter((piece) => piece.turn === this.turn || this.drop(piece));
    for (const piece of this.pieces.values()) {
      if (piece.state !== "asked" || piece.turn === this.turn) continue;
      this.aborted++;
      piece.stop.abort();
    }
  }

  /** Nothing is wanted any more. */
  close() {
    this.begin();
    this.sweep();
    this.pieces.clear();
    this.bytes = 0;
  }

  /**
   * The rows of the metrics `names`, of which there are `series`, from `from` to `to`; `now` is the node's time. What is missing is
   * fetched: {answers, id, isLoading, why}. `id` changes when the answers do; `why` says what went wrong.
   */
  ask({ names, series }, from, to, now) {
    if (Number.isNaN(this.beginning)) return { answers: [], id: "", isLoading: true, why: "" };
    const span = SPANS.find((span) => span >= (to - from) / 2) ?? SPANS.at(-1);
    const points = series * (span / ROW_SECONDS) <= READINGS_MAX ? 0 : pointsOf(series);
    const pieces = [];
    // A rate needs the row before the first.
    const first = Math.floor(Math.max(this.beginning, from - reach(span, points)) / span);
    for (let at = Math.max(0, first); at * span < Math.min(to, now); at++) pieces.push(this.piece(names, span, points, at, to, now));
    const here = pieces.filter((piece) => piece.rows);
    return {
      answers: here.map((piece) => piece.rows),
      id: here.map((piece) => piece.number).join(),
      isLoading: pieces.some(({ state }) => state === "waiting" || state === "asked"),
      why: pieces.find((piece) => piece.why)?.why ?? "",
    };
  }

  /** One piece, fetched if it is not here or too old. */
  piece(names, span, points, at, to, now) {
    const key = `${names.join()}|${span}|${points}|${at}`;
    let piece = this.pieces.get(key);
    if (!piece) {
      piece = { key, names, points, from: at * span, to: (at + 1) * span, until: 0, rows: null, why: "", state: "new", number: 0, failedAt: -Infinity, turn: this.turn };
      this.pieces.set(key, piece);
      this.makeRoom();
    } else {
      // The one used last stands last.
      this.pieces.delete(key);
      this.pieces.set(key, piece);
    }
    piece.turn = this.turn;
    const needed = Math.min(piece.to, to, now - SETTLED_SECONDS);
    const isOld = piece.state === "new" || (piece.state === "here" && piece.until < needed) || (piece.state === "failed" && performance.now() - piece.failedAt > FAILED_MS);
    if (isOld) {
      piece.state = "waiting";
      piece.asOf = now;
      this.waiting.push(piece);
      this.pump();
    }
    return piece;
  }

  pump() {
    while (this.inFlight < IN_FLIGHT_MAX && this.waiting.length > 0) this.fetch(this.waiting.shift());
  }

  async fetch(piece) {
    this.inFlight++;
    piece.state = "asked";
    piece.stop = new AbortController();
    try {
      const rows = this.read(await askLines(this.path(piece), piece.stop.signal));
      if (this.pieces.get(piece.key) !== piece) return;
      this.keep(piece, rows);
    } catch (error) {
      if (piece.stop.signal.aborted) {
        this.drop(piece);
      } else {
        piece.state = "failed";
        piece.why = error.message;
        piece.failedAt = performance.now();
      }
    } finally {
      this.inFlight--;
      this.pump();
      this.changed();
    }
  }

  /** What an answer says. */
  read(text) {
    return new PastRows(text);
  }

  path({ names, points, from, to }) {
    const query = new URLSearchParams(names.map((name) => ["match", this.node ? `${this.node}:${name}` : name]));
    query.append("from", from);
    query.append("to", to);
    if (points) query.append("points", points);
    return `khz/v1/range?${query}`;
  }

  keep(piece, rows) {
    this.bytes += rows.bytes - (piece.rows?.bytes ?? 0);
    piece.rows = rows;
    piece.state = "here";
    piece.why = rows.damage.join("; ");
    piece.until = Math.min(piece.to, piece.asOf);
    piece.number = ++this.fetched;
    this.makeRoom();
  }

  /** Drops the pieces that were used longest ago; what the window shows stays. */
  makeRoom() {
    for (const piece of this.pieces.values()) {
      if (this.bytes <= this.bytesMax && this.pieces.size <= PIECES_MAX) return;
      if (piece.turn !== this.turn && piece.state !== "asked") this.drop(piece);
    }
  }

  /** Forgets a piece that is not here, or not needed; what is known of it stays if it was only to be renewed. */
  drop(piece) {
    if (piece.rows && piece.state !== "here") {
      piece.state = "here";
      return false;
    }
    this.bytes -= piece.rows?.bytes ?? 0;
    if (this.pieces.get(piece.key) === piece) this.pieces.delete(piece.key);
    return false;
  }
}

/** How many points of each series are asked for: fewer if there are more series. */
const pointsOf = (series) => Math.min(POINTS_MAX, Math.max(POINTS_MIN, Math.floor(POINTS_ALL_MAX / series)));

/** How far before a window a row is needed. */
const reach = (span, points) => (points ? (2 * span) / points : 3 * ROW_SECONDS);
