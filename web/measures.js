// What the cluster can be coloured by: quantities with a name, and every metric of the catalogue. It refuses to
// compute: the server does, so that four thousand nodes are one small message.

import { bytes, bytesPerSecond, digits, duration, format, percent, perSecond, plain } from "./units.js";

const MODES = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"].map((mode) => `cpu.all.${mode}`);
const WITHOUT_LOOPBACK = ["net.*[lo]"];

/**
 * `match`, `of`, `except`, `fold`, `rest` go to the server as they are. `top`: where the scale ends; without it,
 * where nearly all nodes are below, but never under `least`.
 */
const NAMED = [
  { id: "cpu", label: "CPU busy, % of all CPUs", match: ["cpu.all.idle", "cpu.all.iowait"], of: MODES, rest: true, top: 100 },
  { id: "load", label: "Load, 1 min", match: ["load.1m"], least: 1 },
  { id: "memory", label: "Memory used", match: ["mem.available"], of: ["mem.total"], rest: true, top: 100 },
  { id: "received", label: "Network received, busiest interface", match: ["net.rx_bytes"], except: WITHOUT_LOOPBACK, fold: "max", least: 1024 },
  { id: "sent", label: "Network sent, busiest interface", match: ["net.tx_bytes"], except: WITHOUT_LOOPBACK, fold: "max", least: 1024 },
  { id: "disk", label: "Disk busy, busiest disk", match: ["disk.io_time"], fold: "max", top: 1 },
  { id: "cpu-pressure", label: "CPU pressure", match: ["pressure.cpu.some.avg10"], least: 1 },
  { id: "memory-pressure", label: "Memory pressure", match: ["pressure.memory.some.avg10"], least: 1 },
  { id: "io-pressure", label: "I/O pressure", match: ["pressure.io.some.avg10"], least: 1 },
  { id: "switches", label: "Context switches", match: ["kernel.context_switches"], least: 10 },
];

export const MEASURE_DEFAULT = NAMED[0];
export const namedMeasures = () => NAMED;

/** The measure called `id`: a named one, or a metric of that name; the default for what cannot be one. */
export function measureOf(id) {
  const named = NAMED.find((measure) => measure.id === id);
  if (named) return named;
  return /^[a-z][a-z0-9_.]*$/.test(id ?? "") ? { id, label: id, match: [id] } : MEASURE_DEFAULT;
}

/** The address that brings its numbers; `rate` of every row, after those of `past` seconds, `hosts` of these nodes only. */
export function addressOf(measure, { rate, hosts, past } = {}) {
  const query = new URLSearchParams();
  const of = (pattern) => (hosts ? `${hosts}:${pattern}` : pattern);
  for (const name of ["match", "of"]) for (const pattern of measure[name] ?? []) query.append(name, of(pattern));
  for (const pattern of measure.except ?? []) query.append("except", pattern);
  if (rate) {
    query.set("rate", `${rate}Hz`);
    query.set("steps", "1");
    if (past) query.set("past", `${past}s`);
  }
  if (measure.fold) query.set("fold", measure.fold);
  if (measure.rest) query.set("rest", "1");
  return `khz/v1/tiles?${query}`;
}

const decimal = (value) => (Number.isFinite(value) && value < 1000 ? String(Number(value.toFixed(2))) : plain(value));
/** Times that grow: a percent is a share of a whole, and never more than a hundred. */
const share = (value) => percent(100 * value);
const counted = (words) => (value) => `${digits(value)} ${words}`;

/** By unit, as the server names it (docs/openapi.json, the catalogue's `rate_unit`). */
const FORMATS = {
  percent,
  bytes,
  "bytes/s": bytesPerSecond,
  CPUs: counted("CPUs"),
  "share of the time": share,
  "at a time": counted("at a time"),
  "seconds/s": counted("s/s"),
  seconds: duration,
  count: decimal,
};

/** How a number of that unit, as the server names it, is written. */
export function formatOf(unit) {
  return format(unit ?? "", FORMATS[unit] ?? (unit?.endsWith("/s") ? perSecond : plain));
}

/** True when round numbers of it are powers of two. */
export const isBinary = (unit) => unit?.startsWith("bytes");
