// The past of a signal that is not ok: when it began, searched backwards in steps that grow, and how other nodes are. It refuses to
// search for longer than a week.

import { askPeers, askValues, BEFORE, queryOf, stepOf } from "./signal-ask.js";
import { nowOf, segmentsOf } from "./signal-judge.js";
import { exactText } from "./moment.js";

/** How far back it is searched (s), one after the other. */
const SPANS = [3_600, 6 * 3_600, 86_400, 7 * 86_400];
/** Where it was found, values are this far apart (s). */
const FINE = 5;

/** When the trouble began that there is at `end`: {since, isFirst}; `isFirst`: the data, or the search, begin there. NaN: it cannot be found. */
export async function beginOf(signal, only, end, stop) {
  let found = { since: NaN, isFirst: true };
  for (const span of SPANS) {
    const step = stepOf(span);
    const state = await stateAt(signal, only, { start: end - span, end, step }, stop);
    if (Number.isNaN(state.since)) return found;
    found = state;
    if (state.isFirst) continue;
    return step <= FINE ? state : finer(signal, only, state, step, stop);
  }
  return found;
}

async function stateAt(signal, only, { start, end, step }, stop) {
  // Moments are the same, whenever somebody asks.
  const at = (time) => Math.floor(time / step) * step;
  const values = await askValues([signal], only, { start: at(start), end: at(end), step }, stop);
  const { state, since, isFirst } = nowOf(segmentsOf(values.get(signal.id) ?? [], signal, step, at(end)));
  return { since: state === "warning" || state === "bad" ? since : NaN, isFirst };
}

/** The same to some seconds: the value came there within the step before. */
async function finer(signal, only, found, step, stop) {
  const end = Math.min(found.since + BEFORE, found.since + step);
  const state = await stateAt(signal, only, { start: found.since - step - BEFORE, end, step: FINE }, stop);
  return Number.isNaN(state.since) || state.isFirst ? found : state;
}

/** "since 14:03:10" */
export function sinceText({ since, isFirst }, now) {
  if (Number.isNaN(since)) return "";
  return isFirst ? `since ${exactText(since, 60, now)} or earlier` : `since ${exactText(since, 60, now)}`;
}

/** How the nodes that `others` selects are at a time, in words. */
export async function peersOf(signal, others, time, stop) {
  const { count = 0, low, middle, high } = await askPeers(signal, others, time, stop);
  const nodes = `${count.toLocaleString("en")} other ${count === 1 ? "node" : "nodes"}`;
  if (count === 0) return "no other node has such a number";
  if (count === 1) return `1 other node has ${signal.format(middle)}`;
  const [from, to] = [low, high].map(signal.format);
  if (from === to) return `${nodes} have ${from}`;
  // Of many nodes, the outermost twentieth on each side may be as odd as this one.
  return count < 20 ? `${nodes} have ${from} to ${to}` : `most of ${nodes} have ${from} to ${to}, the median is ${signal.format(middle)}`;
}

/** Where the query of a signal is drawn. */
export const queryAddress = (signal, only, span) => `#query=${encodeURIComponent(queryOf(signal, only, stepOf(span)))}&range=${span <= 900 ? "15m" : span <= 3_600 ? "1h" : span <= 21_600 ? "6h" : span <= 86_400 ? "24h" : "7d"}`;
