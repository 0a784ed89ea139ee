// The measures of the page in PromQL, for their past: of each node, and of all nodes together. It refuses to ask.

import { bytes, bytesPerSecond, digits, format, percent, perSecond } from "./units.js";

/** Rates are taken over this at least (s): a row a second, and some that may be late. */
const RATE_SECONDS_MIN = 10;

/**
 * `of(only, over)`: a series for each instance; `only` are further selectors, `over` is the window of rates. `isShare`: its sum says nothing.
 * `metrics`: those that it reads, by khz's own names. A format has the unit.
 */
export const MEASURE_QUERIES = [
  {
    id: "cpu", label: "CPU busy", metrics: ["cpu.all.*"], format: percent, isShare: true,
    of: (only, over) => `100 * (1 - sum by (instance) (rate(node_cpu_seconds_total{mode=~"idle|iowait"${only}}[${over}])) / sum by (instance) (rate(node_cpu_seconds_total{mode!=""${only}}[${over}])))`,
  },
  { id: "load", label: "Load, 1 min", metrics: ["load.1m"], format: digits, of: (only) => `sum by (instance) (node_load1{instance!=""${only}})` },
  {
    id: "memory", label: "Memory used", metrics: ["mem.total", "mem.available"], format: bytes,
    of: (only) => `sum by (instance) (node_memory_MemTotal_bytes{instance!=""${only}} - node_memory_MemAvailable_bytes{instance!=""${only}})`,
  },
  {
    id: "received", label: "Network received", metrics: ["net.rx_bytes"], format: bytesPerSecond,
    of: (only, over) => `sum by (instance) (rate(node_network_receive_bytes_total{device!="lo"${only}}[${over}]))`,
  },
  {
    id: "sent", label: "Network sent", metrics: ["net.tx_bytes"], format: bytesPerSecond,
    of: (only, over) => `sum by (instance) (rate(node_network_transmit_bytes_total{device!="lo"${only}}[${over}]))`,
  },
  {
    id: "read", label: "Disks read", metrics: ["disk.read_bytes"], format: bytesPerSecond,
    of: (only, over) => `sum by (instance) (rate(node_disk_read_bytes_total{device!=""${only}}[${over}]))`,
  },
  {
    id: "written", label: "Disks written", metrics: ["disk.written_bytes"], format: bytesPerSecond,
    of: (only, over) => `sum by (instance) (rate(node_disk_written_bytes_total{device!=""${only}}[${over}]))`,
  },
  {
    id: "disk", label: "Disk busy, busiest disk", metrics: ["disk.io_time"], format: format("share of the time", (share) => percent(100 * share)), isShare: true,
    of: (only, over) => `max by (instance) (rate(node_disk_io_time_seconds_total{device!=""${only}}[${over}]))`,
  },
  {
    id: "switches", label: "Context switches", metrics: ["kernel.context_switches"], format: perSecond,
    of: (only, over) => `sum by (instance) (rate(node_context_switches_total{instance!=""${only}}[${over}]))`,
  },
];

/** A selector of these nodes. */
export function instances(names) {
  const literal = (name) => name.replace(/[.\\+*?()|[\]{}^$]/g, "\\$&");
  return `,instance=~${JSON.stringify(names.map(literal).join("|"))}`;
}

/** The window of rates at this distance of points (s). */
export const windowOf = (step) => `${Math.max(RATE_SECONDS_MIN, 2 * step)}s`;
