// The lines of a pattern over a time: what the server has stored of its series, counters as rates. It refuses to draw.

import { ask, askLines } from "./ask.js";
import { Gauge, Rate } from "./feeds.js";
import { byName } from "./hostlist.js";
import { splitPattern } from "./own-spec.js";
import { RowsOfNodes } from "./own-past.js";
import { PastTable } from "./past-rows.js";
import { Samples } from "./samples.js";

/** Series of a panel: more cannot be told apart, and would be much to ask for each time. */
const SERIES_MAX = 256;
/** Series of a pattern whose number nobody knows, because its nodes are down. */
const SERIES_GUESS = 64;

export class PatternLines {
  /** `node`: whose series a pattern without nodes means; null: those of all nodes. `past`: a NodesPast. */
  constructor(pattern, node, past, signal) {
    this.past = past;
    this.signal = signal;
    const { hosts, series } = splitPattern(pattern);
    const nodes = hosts || node || "";
    this.pattern = nodes ? `${nodes}:${series}` : series;
    this.metric = series.replace(/\[.*$/s, "");
    this.series = NaN;
    this.isNone = false;
    this.beginning = 0;
    this.rateUnits = new Map();
    this.known = { id: null, lines: [] };
    this.liveKnown = { key: "", lines: [] };
    this.describe();
  }

  /** How many series there are, and the units of their rates. */
  async describe() {
    const match = (pattern) => new URLSearchParams({ match: pattern });
    const [newest, catalogue] = await Promise.all([
      ask(`khz/v1/query?${match(this.pattern)}`, this.signal).catch(() => null),
      ask(`khz/v1/catalog?${match(this.metric)}`, this.signal).catch(() => null),
    ]);
    for (const { name, rate_unit: unit } of catalogue?.metrics ?? []) this.rateUnits.set(name, unit);
    const count = newest?.nodes?.reduce((sum, { series }) => sum + series.length, 0);
    this.isNone = count === 0;
    if (!(count > SERIES_MAX)) this.beginning = await this.since().catch(() => 0);
    this.series = count || SERIES_GUESS;
  }

  /** When what is kept of these series begins: the server refuses to answer about a time before all that it has. */
  async since() {
    const query = new URLSearchParams({ match: this.pattern, from: "0", points: "1" });
    const { ofNode } = new RowsOfNodes(await askLines(`khz/v1/range?${query}`, this.signal));
    const since = Math.min(...[...ofNode.values()].map((rows) => rows.since));
    return Number.isFinite(since) ? since : 0;
  }

  /** {id, lines, isLoading, why}; `id` is another one when the lines are. `now` is the server's time. */
  ask({ from, to }, now) {
    if (Number.isNaN(this.series)) return { id: "", lines: [], isLoading: true, why: "" };
    if (this.series > SERIES_MAX) {
      const why = `${this.series} series are more than a panel takes (${SERIES_MAX}): choose some of them, or ask in PromQL with topk or sum`;
      return { id: "", lines: [], isLoading: false, why };
    }
    const got = this.past.askSince(this.beginning, { names: [this.pattern], series: this.series }, from, to, now);
    if (this.known.id !== got.id) this.known = { id: got.id, lines: this.linesOf(got.answers) };
    return { id: got.id, lines: this.known.lines, isLoading: got.isLoading, why: got.why };
  }

  /** [{label, unit, samples}] in natural order. */
  linesOf(answers) {
    const nodes = [...new Set(answers.flatMap(({ ofNode }) => [...ofNode.keys()]))].sort(byName);
    const found = nodes.flatMap((node) => {
      const table = new PastTable(answers.map(({ ofNode }) => ofNode.get(node)).filter((rows) => rows));
      const feeds = table.columns.map(feedOf);
      table.feed(feeds);
      return table.columns.map((column, i) => ({ node, column, samples: feeds[i].track }));
    });
    // What only describes something, or was never known, has no line.
    return this.labelled(found.filter(({ samples }) => samples.time.length > 0));
  }

  /** The lines of what the stream brings: [{label, unit, track}]. */
  live({ lines }) {
    // One that has no value yet has no line yet.
    const found = lines.filter(({ track }) => !Number.isNaN(track.lastTime));
    const key = `${lines.length} ${found.length} ${this.rateUnits.size}`;
    if (this.liveKnown.key !== key) this.liveKnown = { key, lines: this.labelled(found.map(({ column, track }) => ({ node: "", column, track }))) };
    return this.liveKnown.lines;
  }

  /** What tells lines apart, and their units. */
  labelled(lines) {
    const several = (of) => new Set(lines.map(of)).size > 1;
    const [nodesDiffer, namesDiffer] = [several(({ node }) => node), several(({ column }) => column.name)];
    return lines
      .map(({ node, column, ...line }) => {
        const { name, instance } = column;
        const words = [nodesDiffer ? node : "", namesDiffer ? name : "", instance ?? ""].filter((word) => word);
        return { label: words.join(" ") || name, unit: this.unitOf(column), gauge: column.kind !== "counter", ...line };
      })
      .sort((a, b) => byName(a.label, b.label));
  }

  unitOf({ name, kind, unit }) {
    return kind === "counter" ? (this.rateUnits.get(name) ?? `${unit}/s`) : unit;
  }
}

const keep = () => new Samples();
const feedOf = ({ name, instance, kind }) => (kind === "counter" ? new Rate(name, instance, 0, keep) : new Gauge(name, instance, keep));
