// The lines of a query in PromQL over a time. One question runs at a time; the answer before stays until another one is here. It
// refuses to know who answers.

import { askPrometheus } from "./ask.js";
import { Samples } from "./samples.js";
import { runsOf, seriesName } from "./query-answer.js";

/** Points of a line. */
const POINTS = 500;
/** Rows of the base lane are a second apart: points between them would say nothing. */
const STEP_MIN = 1;
/** Steps that look round, in seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400];
/** A series without a point for this many steps has ended. */
const GAP_STEPS = 3;
/** A question that failed is asked again after this long. */
const FAILED_MS = 5_000;

export class QueryLines {
  constructor(query, turns, signal, changed) {
    this.query = query;
    this.turns = turns;
    this.changed = changed;
    this.answer = { id: "", lines: [], why: "" };
    this.asked = "";
    this.running = null;
    this.failedAt = -Infinity;
    this.number = 0;
    signal.addEventListener("abort", () => this.running?.abort());
  }

  /** {id, lines, isLoading, why}, as PatternLines has them. */
  ask({ from, to }, now) {
    const least = Math.max(STEP_MIN, (to - from) / POINTS);
    const step = STEPS.find((step) => step >= least) ?? Math.ceil(least);
    const start = Math.floor(from / step) * step;
    const end = Math.ceil(Math.min(to, now) / step) * step;
    const wanted = `${start}|${end}|${step}`;
    const isOld = this.asked !== wanted || performance.now() - this.failedAt > FAILED_MS;
    const form = { query: this.query, start, end, step };
    if (isOld && end > start && !(this.running && isNear(this.form, form))) this.fetch(wanted, form);
    const { id, lines, why, covers } = this.answer;
    // The lines of another time say nothing about this one, unless it has only moved on.
    const fits = covers && covers.step === step && covers.start < to && covers.end > from;
    return { id, lines: fits ? lines : [], isLoading: this.running !== null, why };
  }

  async fetch(wanted, form) {
    this.running?.abort();
    this.asked = wanted;
    this.form = form;
    this.failedAt = Infinity;
    const running = (this.running = new AbortController());
    try {
      const { answer } = await this.turns.take(running.signal, () => askPrometheus("api/v1/query_range", form, running.signal));
      if (running.signal.aborted) return;
      this.answer = { id: `query ${++this.number}`, lines: linesOf(answer.data, form), why: "", covers: form };
    } catch (error) {
      if (running.signal.aborted) return;
      this.answer = { ...this.answer, id: `failed ${++this.number}`, why: error.message };
      this.failedAt = performance.now();
    } finally {
      if (this.running === running) {
        this.running = null;
        this.changed();
      }
    }
  }
}

/** [{label, unit, samples}] in the engine's order. */
function linesOf({ resultType, result }, { step, end }) {
  if (resultType !== "matrix") throw new Error("the answer is none to a query over a range");
  const alike = commonLabels(result);
  return result.map(({ metric, values }) => {
    const samples = new Samples();
    for (const run of runsOf(values, step)) {
      samples.gap();
      for (const [time, value] of run) samples.push(time, value);
    }
    // A series that has ended has no value now.
    if (!(samples.time.at(-1) > end - GAP_STEPS * step)) samples.gap();
    return { label: labelOf(metric, alike), unit: "", samples };
  });
}

/** True for a window that has moved by less than half of its length: the answer to the one before still says something. */
function isNear(a, b) {
  return a.step === b.step && Math.abs(a.start - b.start) < (b.end - b.start) / 2 && Math.abs(a.end - b.end) < (b.end - b.start) / 2;
}

/** The labels that all series have with one value: they do not tell lines apart. */
function commonLabels(result) {
  const first = result[0]?.metric ?? {};
  return new Set(Object.keys(first).filter((name) => result.every(({ metric }) => metric[name] === first[name])));
}

function labelOf(metric, alike) {
  const own = Object.fromEntries(Object.entries(metric).filter(([name]) => !alike.has(name)));
  const names = Object.keys(own);
  if (names.length === 1) return String(own[names[0]]);
  return names.length === 0 ? (metric.instance ?? metric.__name__ ?? "value") : seriesName(own);
}

/** Turns of questions: as many at a time as a server answers without making others wait. */
export class Turns {
  constructor(most) {
    this.free = most;
    this.waiting = [];
  }

  /** Calls `then` when it is its turn, unless `signal` was aborted meanwhile. */
  async take(signal, then) {
    if (this.free > 0) this.free--;
    else await new Promise((resolve) => this.waiting.push(resolve));
    try {
      signal.throwIfAborted();
      return await then();
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.free++;
    }
  }
}
