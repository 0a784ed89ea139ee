// Questions about signals: one query in PromQL brings the values of all of them. It refuses to judge values.

import { askPrometheus } from "./ask.js";

/** Rates are taken over this at least (s): sensors are read every 10 s. */
const RATE_SECONDS_MIN = 30;
/** Steps between values (s); beyond a minute each value is the highest of its minutes. */
const STEPS = [1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400];
const MINUTE = 60;
/** Values of a signal that one question asks for. */
const VALUES_MAX = 720;
/** How long before a window values are needed: twice the longest time for which a value must be somewhere. */
export const BEFORE = 120;

/** How far apart the values of a time are: as close as a question may have them. */
export const stepOf = (span) => STEPS.find((step) => span / step <= VALUES_MAX) ?? STEPS.at(-1);

/** The query of a signal whose values are this far apart. */
export function queryOf(signal, only, step) {
  const of = (over) => signal.of(only, `${over}s`);
  if (step <= MINUTE) return of(Math.max(RATE_SECONDS_MIN, step));
  // No peak of a minute is left out, however long the window is.
  return `max_over_time((${of(MINUTE)})[${step}s:${MINUTE}s])`;
}

/** The same of several signals at once: each result has a label that says of which one it is. */
const together = (signals, query) => signals.map((signal) => `label_replace(${query(signal)}, "signal", "${signal.id}", "instance", ".*")`).join(" or ");

/** The values of signals over a time: Map of signal to [[time, value]…]. Of one node only, whom `only` selects. */
export async function askValues(signals, only, { start, end, step }, signal) {
  const query = together(signals, (one) => queryOf(one, only, step));
  const { answer } = await askPrometheus("api/v1/query_range", { query, start, end, step }, signal);
  const values = new Map();
  for (const { metric, values: list } of answer.data.result) values.set(metric.signal, list.map(([time, text]) => [time, Number(text)]));
  return values;
}

/** The values of signals now, of the `most` worst nodes that could be in trouble: {values: Map of signal to Map of node to value, now}. */
export async function askHigh(signals, only, most, signal) {
  const query = together(signals, (one) => `topk(${most}, ${queryOf(one, only, 1)} >= ${one.warning.leave})`);
  const { answer, now } = await askPrometheus("api/v1/query", { query }, signal);
  const values = new Map(signals.map(({ id }) => [id, new Map()]));
  for (const { metric, value } of answer.data.result) values.get(metric.signal)?.set(metric.instance, Number(value[1]));
  return { values, now: now / 1_000 };
}

/** How a value of other nodes is spread at a time: {count, low, middle, high}. */
export async function askPeers(one, only, time, signal) {
  const each = queryOf(one, only, 1);
  const named = (name, query) => `label_replace(${query}, "of", "${name}", "instance", ".*")`;
  const query = [
    named("count", `count(${each})`),
    ...[["low", 0.05], ["middle", 0.5], ["high", 0.95]].map(([name, share]) => named(name, `quantile(${share}, ${each})`)),
  ].join(" or ");
  const { answer } = await askPrometheus("api/v1/query", { query, time }, signal);
  return Object.fromEntries(answer.data.result.map(({ metric, value }) => [metric.of, Number(value[1])]));
}
