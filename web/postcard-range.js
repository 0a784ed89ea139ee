// The postcards of queries, of compared nodes and of sums: charts over a time, each drawn by the code of its chart. It refuses to
// ask again for what is shown.

import { ask } from "./ask.js";
import { fold } from "./hostlist.js";
import { tableOf } from "./postcard-table.js";
import { QueryChart } from "./query-chart.js";
import { colours } from "./theme-colours.js";

/** Room for a chart on the sheet, where the page has less (CSS pixels). */
const HEIGHT_MIN = 120;
/** Patterns of a recording. */
const MATCH_MAX = 64;

/** `view`: the CompareView or the SumsView. */
export function rangeCard(view) {
  const { panels, end, span, root } = view.panels;
  if (!(end > 0) || panels.length === 0) throw new Error("nothing is shown yet");
  const from = end - span;
  const width = root.clientWidth;
  const metrics = [...new Set(panels.flatMap((panel) => panel.metrics))];
  const hosts = view.nodes ? fold(view.nodes) : view.groups.hosts(view.find(".sums-group").value);
  return {
    name: view.nodes ? fold(view.nodes) : "sums",
    from,
    to: end,
    link: location.href,
    width,
    parts: panels.map((panel) => chartPart(panel.title, panel.lines, { from, to: end, note: panel.note.textContent, share: panel.section.offsetWidth / width, height: panel.frame.clientHeight })),
    table: tableOf(panels.flatMap(({ title, format, lines }) => lines.map(({ label, runs }) => ({ name: `${title}: ${label}`, unit: format.unit ?? "", points: pointsOf(runs) })))),
    match: metrics.map((metric) => (hosts ? `${hosts}:${metric}` : metric)),
  };
}

/** `view`: the QueryView. */
export async function queryCard(view) {
  const { query, series, start, end } = view.answer;
  const lines = view.lines ?? [];
  const named = lines.map((line) => ({ ...line, label: line.name }));
  return {
    name: "query",
    from: start,
    to: end,
    link: location.href,
    width: view.root.clientWidth,
    parts: [chartPart(query, named, { from: start, to: end, note: view.root.querySelector(".query-more").textContent, share: 1, height: view.frame.clientHeight })],
    table: tableOf(series.map(({ name, runs }) => ({ name, unit: "", points: pointsOf(runs) }))),
    match: await metricsIn(query),
  };
}

function chartPart(title, lines, { from, to, note, share, height }) {
  const entry = ({ label, shown, colour, dashed }) => ({ label, text: shown.textContent, colour: colours.series[colour], dashed });
  const draw = (layer) => new QueryChart(layer()).show(lines, from, to);
  return { title, legend: lines.map(entry), note, share, height: Math.max(HEIGHT_MIN, height), draw };
}

const pointsOf = (runs) => runs.flatMap((run) => run.map(([time, value]) => [time, value, value, value]));

/** The metrics that a query names, by khz's own names: their rows are what it was computed from. */
async function metricsIn(query) {
  const { metrics } = await ask("khz/v1/catalog", new AbortController().signal);
  const words = new Set(query.match(/[a-zA-Z_:][\w:.]*/g) ?? []);
  return metrics.filter(({ name, prometheus }) => words.has(prometheus) || words.has(name)).map(({ name }) => name).slice(0, MATCH_MAX);
}
