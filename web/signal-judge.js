// Judging: how values over time become states, with two thresholds and a time, so that a value that swings around a threshold does not
// make a state that flickers. It refuses to ask for values, and to call a time without values ok.

/** Values that are more than this many steps apart have a time between them of which nothing is known. */
const GAP_STEPS = 3;
/** What is worst in a window of the past: a time that is not known is no trouble, and is said beside it. */
const RANK = { unknown: 0, ok: 1, warning: 2, bad: 3 };

/**
 * The states of one signal: [{state, from, to, highest, isFirst}], without gaps. `samples`: [[time, value]…] in the order of time,
 * `step` apart; `end`: until when something should be known. `isFirst`: it may have begun before the first value.
 */
export function segmentsOf(samples, signal, step, end) {
  const segments = [];
  for (const run of runsOf(samples, step)) {
    const before = segments.at(-1);
    if (before) segments.push({ state: "unknown", from: before.to, to: run[0][0], highest: NaN, isFirst: false });
    segments.push(...segmentsOfRun(run, signal, step, !before));
  }
  const last = segments.at(-1)?.to ?? NaN;
  if (end - last > GAP_STEPS * step) segments.push({ state: "unknown", from: last, to: end, highest: NaN, isFirst: false });
  return segments;
}

function segmentsOfRun(run, { warning, bad, hold }, step, isFirst) {
  const isWarning = switched(run, warning, hold, step);
  const isBad = bad ? switched(run, bad, hold, step) : null;
  const segments = [];
  run.forEach(([time, value], i) => {
    const state = isBad?.[i] ? "bad" : isWarning[i] ? "warning" : "ok";
    const last = segments.at(-1);
    if (last) last.to = time;
    if (last?.state === state) last.highest = Math.max(last.highest, value);
    else segments.push({ state, from: time, to: time, highest: value, isFirst: isFirst && i === 0 });
  });
  return segments;
}

/** Whether it is on at each value: a switch with two thresholds and a time. It is on, or off, from when the value came there. */
function switched(run, { enter, leave }, hold, step) {
  const flags = new Uint8Array(run.length);
  let isOn = run[0][1] >= enter;
  let since = -1;
  run.forEach(([time, value], i) => {
    const wantsOther = isOn ? value < leave : value >= enter;
    if (!wantsOther) since = -1;
    else if (since < 0) since = i;
    // A value speaks of the step before it, too.
    if (since >= 0 && time - run[since][0] + step >= hold) {
      isOn = !isOn;
      flags.fill(isOn ? 1 : 0, since, i);
      since = -1;
    }
    flags[i] = isOn ? 1 : 0;
  });
  return flags;
}

/** Values without a gap between them; those that are no numbers are none. */
function runsOf(samples, step) {
  const runs = [];
  let before = -Infinity;
  for (const sample of samples) {
    if (!Number.isFinite(sample[1])) continue;
    if (sample[0] - before > GAP_STEPS * step) runs.push([]);
    runs.at(-1).push(sample);
    before = sample[0];
  }
  return runs;
}

/** How it is now: {state, since, isFirst, levelSince}. `since`: from when on it has not been ok, or has been ok; `levelSince`: in this state. */
export function nowOf(segments) {
  const last = segments.at(-1);
  if (!last) return { state: "unknown", since: NaN, levelSince: NaN, isFirst: false };
  let at = segments.length - 1;
  const isTrouble = (state) => state === "warning" || state === "bad";
  while (at > 0 && isTrouble(last.state) && isTrouble(segments[at - 1].state)) at--;
  return { state: last.state, since: segments[at].from, isFirst: segments[at].isFirst, levelSince: last.from };
}

/** How it was at its worst between two times: {state, from, to, highest, isFirst, unknown}; `unknown`: seconds of which nothing is known. */
export function worstOf(segments, from, to) {
  const within = segments.filter((segment) => segment.to >= from && segment.from <= to);
  const length = (segment) => Math.max(0, Math.min(segment.to, to) - Math.max(segment.from, from));
  const unknown = within.filter(({ state }) => state === "unknown").reduce((sum, segment) => sum + length(segment), 0);
  let worst = null;
  for (const segment of within) if (!worst || RANK[segment.state] > RANK[worst.state]) worst = segment;
  return worst ? { ...worst, unknown } : { state: "unknown", from: NaN, to: NaN, highest: NaN, isFirst: false, unknown: to - from };
}
