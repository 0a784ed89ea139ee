// The recent past of series that the page did not have from the beginning: what the node's memory has of them goes to their feeds alone,
// then the stream goes on with them. It refuses to touch what is drawn already.

import { ask, askLines } from "./ask.js";
import { PastRows, PastTable } from "./past-rows.js";
import { rowTime, Table } from "./table.js";

/** As much of the past as the page has of its other panels. */
const HISTORY_SECONDS = 600;
const HISTORY_ROWS = 600;

/** Adds the series of `patterns` to the page of `view`; `bind(table)` makes feeds of the board for what a table has. */
export async function follow(view, patterns, bind, signal) {
  const { line, board, node } = view;
  const named = patterns.map((pattern) => (node ? `${node}:${pattern}` : pattern));
  const query = (more) => new URLSearchParams([...named.map((pattern) => ["match", pattern]), ...more]);
  const recent = await ask(`khz/v1/history?${query([["span", `${HISTORY_SECONDS}s`], ["rows", HISTORY_ROWS]])}`, signal).catch(() => null);
  if (signal.aborted) return;
  const part = recent?.nodes?.find((one) => one.node === line.node) ?? recent?.nodes?.[0];
  if (part?.columns.length) fill(board, part, bind);
  else await askPast(board, query([["newest", "1"], ["from", "0"]]), bind, signal);
  if (!signal.aborted) want(line, [...line.patterns, ...named]);
}

/** The stream of `line` has these series from now on; its rows go on meanwhile. */
function want(line, patterns) {
  line.patterns = patterns;
  if (line.stream || line.candidate) line.open();
}

/** The series of a pattern are not wanted any more. */
export function unfollow({ line, node }, pattern) {
  const at = line.patterns.lastIndexOf(node ? `${node}:${pattern}` : pattern);
  if (at >= 0) want(line, line.patterns.toSpliced(at, 1));
}

/** Gives past rows to the feeds that `bind` makes. */
function fill(board, { columns, rows }, bind) {
  // What sensors are called is in one of the rows.
  const named = new Table(columns);
  for (const row of rows) named.apply(row);
  const feeds = added(board, () => bind(named));
  const table = new Table(columns);
  for (const feed of feeds) feed.bind(table);
  for (const row of rows) {
    table.apply(row);
    // What the stream has brought meanwhile is newer.
    if (Number.isNaN(board.time) || rowTime(row) <= board.time) for (const feed of feeds) feed.take(table, false);
  }
  if (board.table) for (const feed of feeds) feed.bind(board.table);
}

/** A node that sends nothing now may have had such series. */
async function askPast(board, query, bind, signal) {
  const text = await askLines(`khz/v1/range?${query}`, signal).catch(() => null);
  if (text === null || signal.aborted) return;
  const table = PastTable.newest(new PastRows(text));
  for (const feed of added(board, () => bind(table))) {
    feed.bind(table);
    if (feed.column >= 0 && "total" in feed) feed.total = table.value[feed.column];
  }
}

/** The feeds that `then` adds to the board. */
function added(board, then) {
  const before = new Set(board.feeds);
  then();
  return board.feeds.filter((feed) => !before.has(feed));
}
