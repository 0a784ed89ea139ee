// The first rows of a node's page: which series they have, and how they are asked for before the modules that show them are here. It
// refuses to know what is done with them.

import { ask } from "./ask.js";

/** What a CPU's time goes into; the two of rest stand last. */
export const MODES = ["user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait"];

/** What the page asks the server for. */
export const PATTERNS = [
  "cpu.all.*", ...MODES.map((mode) => `cpu.${mode}`),
  "mem.total", "mem.free", "mem.available", "mem.buffers", "mem.cached", "mem.swap_total", "mem.swap_free",
  "load.*", "tasks.*",
  "net.rx_bytes", "net.tx_bytes",
  "disk.read_bytes", "disk.written_bytes",
  "kernel.context_switches", "kernel.interrupts", "kernel.forks",
  "pressure.*.avg10",
  "uptime.up", "khz.process.*", "khz.lane.*", "khz.gather.slowdown",
  "job.*",
];

/** Rows that are asked for first, of the window that is shown: over a slow line the page has to show something soon. */
export const FIRST_ROWS = 6;
/** A little more than the window, whose left edge would be empty otherwise (s). */
export const FIRST_MORE = 2;
/** The windows that an address names, in seconds; any other is a minute. */
const SPANS = { "10s": 10, "10min": 600 };

let early = null;

/** The series of a node, or of the only one there is where that is null. */
export const patternsOf = (patterns, node) => (node ? patterns.map((pattern) => `${node}:${pattern}`) : patterns);

export function historyPath(patterns, seconds, rows) {
  return `khz/v1/history?${new URLSearchParams([...patterns.map((pattern) => ["match", pattern]), ["span", `${seconds}s`], ["rows", rows]])}`;
}

/** Asks for the first rows of a node; `window` is what the address names. */
export function askFirst(node, window) {
  const path = historyPath(patternsOf(PATTERNS, node), (SPANS[window] ?? 60) + FIRST_MORE, FIRST_ROWS);
  const answer = timed(path);
  // Whoever takes it says what went wrong.
  answer.catch(() => {});
  early = { path, answer };
}

/** {history, ms}: an answer, and how long it took; the one that was asked for already, if that is the same. */
export function firstRows(path, signal) {
  const found = early;
  early = null;
  return found?.path === path ? found.answer : timed(path, signal);
}

async function timed(path, signal) {
  const began = performance.now();
  const history = await ask(path, signal);
  return { history, ms: performance.now() - began };
}
