// A pattern's series on the page of its node as the stream brings them, at the rate of the page. It refuses to know how they are
// drawn, and what they were before.

import { Gauge, Rate } from "./feeds.js";
import { byName } from "./hostlist.js";
import { follow, unfollow } from "./node-more-history.js";

/** Patterns that a page follows beside those of its own panels: the server takes 64 together. */
const PATTERNS_MAX = 12;
/** Series of a pattern that are followed: more cannot be told apart, and each costs at the rate of the page. */
const SERIES_MAX = 256;

/** All live patterns of a page. */
export class LivePatterns {
  constructor(view, signal) {
    this.view = view;
    this.signal = signal;
    this.all = new Set();
  }

  /** Follows a pattern without nodes; null: the page follows enough of them. */
  follow(pattern) {
    if (this.all.size >= PATTERNS_MAX) return null;
    const live = new LiveLines(pattern, this.view.board);
    live.stop = () => this.drop(live);
    this.all.add(live);
    follow(this.view, [pattern], (table) => live.bind(table), this.signal);
    return live;
  }

  drop(live) {
    if (!this.all.delete(live)) return;
    live.close();
    const isWanted = [...this.all].some(({ pattern }) => pattern === live.pattern);
    if (!isWanted) unfollow(this.view, live.pattern);
  }

  /** The stream has other columns. */
  bind(table) {
    for (const live of this.all) live.bind(table);
  }
}

class LiveLines {
  constructor(pattern, board) {
    this.pattern = pattern;
    this.board = board;
    this.matches = seriesMatcher(pattern);
    this.feeds = new Map();
    /** [{name, instance, track}] in natural order. */
    this.lines = [];
  }

  /** Makes feeds for the series that have appeared. */
  bind(table) {
    const found = table.columns.filter((column) => this.matches(column) && column.type !== "labels").slice(0, SERIES_MAX);
    for (const column of found) {
      const { name, instance, kind } = column;
      const key = `${name}\u0000${instance ?? ""}`;
      if (this.feeds.has(key)) continue;
      if (this.feeds.size >= SERIES_MAX) break;
      const feed = this.board.feed(kind === "counter" ? new Rate(name, instance) : new Gauge(name, instance));
      this.feeds.set(key, { feed, column });
    }
    const lines = [...this.feeds.values()].map(({ feed: { track }, column }) => ({ column, track, order: `${column.name} ${column.instance ?? ""}` }));
    this.lines = lines.sort((a, b) => byName(a.order, b.order));
  }

  close() {
    const gone = new Set([...this.feeds.values()].map(({ feed }) => feed));
    this.board.feeds = this.board.feeds.filter((feed) => !gone.has(feed));
    for (const { track } of gone) this.board.feedOf.delete(track);
  }
}

/** A function that tells whether a column is meant by a pattern without nodes. */
function seriesMatcher(pattern) {
  const [, metric, inside] = /^([^[]*)(?:\[(.*)\])?$/s.exec(pattern) ?? [];
  const isMetric = glob(metric ?? "");
  const parts = (inside ?? "").split(",").filter((part) => part);
  const isLabel = (part) => /^[A-Za-z0-9_]+=/.test(part);
  const names = parts.filter((part) => !isLabel(part)).map(glob);
  const labels = parts.filter(isLabel).map(glob);
  return ({ name, instance }) => {
    if (!isMetric(name)) return false;
    const [first, ...more] = String(instance ?? "").split(",");
    const all = [first, ...more];
    return names.every((matches) => matches(first) || matches(String(instance ?? ""))) && labels.every((matches) => all.some(matches));
  };
}

/** `*` is any text, `?` any letter; `%3A` is a letter that a pattern cannot have as it is. */
function glob(text) {
  const source = text
    .split(/([*?]|%[0-9A-Fa-f]{2})/)
    .map((piece) => (piece === "*" ? ".*" : piece === "?" ? "." : escapeLetters(piece[0] === "%" && piece.length === 3 ? String.fromCharCode(parseInt(piece.slice(1), 16)) : piece)))
    .join("");
  const expression = new RegExp(`^${source}$`, "s");
  return (name) => expression.test(name);
}

const escapeLetters = (text) => text.replace(/[.\\+*?()|[\]{}^$]/g, "\\$&");
