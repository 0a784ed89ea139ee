// Why a signal has no value: the node does not have such a number (absent), or it has one that is not known now (unknown). It asks
// for the newest readings, which say so themselves. It refuses to guess.

import { ask } from "./ask.js";

/** What every node has: with it, a question has an answer also where a node has nothing else of what is asked. */
const ALWAYS = "load.1m";

/** Map of signal to {state, why}, for those of `signals` that have no value. `node`: its name where there are several. */
export async function whyMissing(signals, node, stop) {
  const names = [...new Set([ALWAYS, ...signals.flatMap(({ metrics }) => metrics)])];
  const query = new URLSearchParams(names.map((name) => ["match", node ? `${node}:${name}` : name]));
  const readings = new Map(names.map((name) => [name, []]));
  let answer;
  try {
    answer = await ask(`khz/v1/query?${query}`, stop);
  } catch (error) {
    if (stop.aborted) throw error;
    return new Map(signals.map(({ id }) => [id, { state: "unknown", why: error.message }]));
  }
  if (answer.nodes.length === 0) return new Map(signals.map(({ id }) => [id, { state: "unknown", why: "the node does not answer" }]));
  for (const { series } of answer.nodes) for (const reading of series) readings.get(reading.name)?.push(reading);
  return new Map(signals.map((signal) => [signal.id, reasonOf(signal, readings)]));
}

function reasonOf({ metrics, blind }, readings) {
  for (const name of metrics) {
    const all = readings.get(name);
    if (all.length === 0) return { state: "absent", why: `this node has no ${name}` };
    const failed = all.find((reading) => reading.failed !== undefined);
    if (failed) return { state: "unknown", why: `${name} cannot be read: ${failed.failed}` };
    if (all.every((reading) => reading.absent !== undefined)) return { state: "absent", why: `${name}: ${all[0].absent}` };
  }
  if (blind && readings.get(blind.metric).some(({ value }) => value === blind.value)) return { state: "unknown", why: blind.why };
  return { state: "unknown", why: "too few rows have come" };
}
