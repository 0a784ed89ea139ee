// An answer of /api/v1/query_range as the page shows it: series with their names, and points in runs between gaps. It refuses
// to fill gaps: a point that is not there, or no finite number, is unknown and never 0.

/** Points that are more than this many steps apart have a gap between them. */
const GAP_STEPS = 1.5;

/** `name{label="value"}`, as PromQL writes a series. */
export function seriesName(metric) {
  const labels = Object.entries(metric)
    .filter(([label]) => label !== "__name__")
    .map(([label, value]) => `${label}=${JSON.stringify(String(value))}`);
  const name = metric.__name__ ?? "";
  return labels.length || !name ? `${name}{${labels.join(", ")}}` : name;
}

/** The series of an answer: [{name, runs: [[[time, value]…]…], last: [time, text]}], in the engine's order. */
export function seriesOf(data, step) {
  const { resultType, result } = data ?? {};
  if (resultType !== "matrix" || !Array.isArray(result)) throw new Error("the answer is none to a query over a range");
  return result.map(({ metric, values }) => ({
    name: seriesName(metric ?? {}),
    runs: runsOf(values ?? [], step),
    last: values?.at(-1) ?? null,
  }));
}

/** Points without a gap between them, run after run. */
export function runsOf(values, step) {
  const runs = [];
  let before = -Infinity;
  for (const [time, text] of values) {
    const value = text === "" ? NaN : Number(text);
    if (!Number.isFinite(value)) {
      before = -Infinity;
      continue;
    }
    if (time - before > GAP_STEPS * step) runs.push([]);
    runs.at(-1).push([time, value]);
    before = time;
  }
  return runs;
}

/** The value at a time: that of the nearest point, unless it is more than a step away (NaN). */
export function valueAt(runs, time, step) {
  let nearest = NaN;
  let distance = step;
  for (const run of runs) {
    if (run[0][0] - time > step || time - run.at(-1)[0] > step) continue;
    for (const [at, value] of run) {
      if (Math.abs(at - time) <= distance) [distance, nearest] = [Math.abs(at - time), value];
    }
  }
  return nearest;
}

/** What is wrong with a query: {text, pointer}; the pointer shows the line of the query with a caret under the place, if the engine names one. */
export function problemOf(query, error) {
  const said = String(error).replace(/^invalid parameter "query": /, "");
  const [, row, column, text] = /^(\d+):(\d+): (.*)$/s.exec(said) ?? [];
  const line = query.split("\n")[Number(row) - 1];
  if (text === undefined || line === undefined || column < 1 || column > [...line].length + 1) return { text: said, pointer: "" };
  return { text: `${text} (column ${column})`, pointer: `${line}\n${" ".repeat(column - 1)}^` };
}
