// What an answer of khz/v1/range says about who uses a node: one row for each process, program or control group. It refuses to take
// an unknown number for 0, and an old one for a new one.

import { bytes, bytesPerSecond, digits, percent } from "./units.js";

/** Ways to sort. */
export const SORTS = { cpu: "CPU", memory: "Memory", io: "I/O" };
/** A reading that is older than the newest by more than this says nothing about its time (s); roll-ups are farther apart. */
const FRESH_SECONDS = 5;

const ofCpu = (value) => percent(value);
const ofCpus = (value) => `${digits(value)} CPUs`;
const number = (sort, format) => ({ label: SORTS[sort], sort, format });

/** What each table shows; `patterns` are asked for, and `read` makes rows of the answer. */
export const TABLES = {
  processes: {
    label: "Processes",
    patterns: ["process.*"],
    read: processes,
    columns: [{ label: "Process", of: ({ command }) => command }, { label: "PID", of: ({ pid }) => pid }, { label: "User", of: ({ user }) => user }, number("cpu", ofCpu), number("memory", bytes), number("io", bytesPerSecond)],
    note: "The twenty that take most CPU time (100 % is one CPU), the twenty that have most memory, and the twenty that read and write most; –: not one of these. I/O of others' processes is known to root only.",
    empty: "No processes are known of this time.",
  },
  programs: {
    label: "Programs",
    patterns: ["program.*"],
    read: programs,
    columns: [{ label: "Program", of: ({ name }) => name }, { label: "Processes", of: ({ count }) => count }, number("cpu", ofCpu), number("memory", bytes), number("io", bytesPerSecond)],
    note: "Sums of all processes of one name; 100 % is one CPU. –: not one of the twenty of this kind.",
    empty: "No programs are known of this time.",
  },
  groups: {
    label: "Control groups",
    patterns: ["cgroup.cpu_usage", "cgroup.memory", "cgroup.io_read", "cgroup.io_written", "cgroup.tasks"],
    read: groups,
    columns: [{ label: "Control group", of: ({ name }) => name }, { label: "Tasks", of: ({ count }) => count }, number("cpu", ofCpus), number("memory", bytes), number("io", bytesPerSecond)],
    note: "Services, containers, pods and jobs. A group above another one includes it. –: this host does not count that for the group.",
    empty: "No control groups are known of this time.",
  },
};

/** The rows of a table at a time, out of the text of an answer. Throws what the server says is wrong. */
export function rowsOf(kind, text, to) {
  const readings = new Readings(text, to);
  return TABLES[kind].read(readings);
}

/** The newest readings of each series before a time, and what counters did since their first ones. */
class Readings {
  constructor(text, to) {
    this.series = new Map();
    this.newest = -Infinity;
    let isWhole = false;
    for (const line of text.split("\n")) {
      if (!line) continue;
      const part = JSON.parse(line);
      if (part.error) throw new Error(part.error);
      if (part.end) isWhole = true;
      if (part.name) this.take(part, to);
    }
    if (!isWhole) throw new Error("the answer broke off");
  }

  take({ name, instance, rows = [] }, to) {
    const known = rows.filter(([time, , reading]) => Number(time) <= to && reading !== null);
    if (known.length === 0 || instance === null) return;
    const [first, last] = [known[0], known.at(-1)].map(([time, , reading]) => ({ time: Number(time), reading }));
    this.newest = Math.max(this.newest, last.time);
    if (!this.series.has(name)) this.series.set(name, new Map());
    this.series.get(name).set(instance, { first, last, step: known.length > 1 ? (last.time - first.time) / (known.length - 1) : 0 });
  }

  *of(name) {
    for (const [instance, series] of this.series.get(name) ?? []) {
      if (series.last.time >= this.newest - Math.max(FRESH_SECONDS, 2 * series.step)) yield [instance, series];
    }
  }

  /** {instance: value} of a gauge. */
  values(name) {
    return [...this.of(name)].map(([instance, { last }]) => [instance, numberOf(last.reading)]).filter(([, value]) => Number.isFinite(value));
  }

  /** {instance: increase a second} of a counter. */
  rates(name) {
    return [...this.of(name)]
      .map(([instance, { first, last }]) => [instance, (numberOf(last.reading) - numberOf(first.reading)) / (last.time - first.time)])
      .filter(([, rate]) => Number.isFinite(rate) && rate >= 0);
  }

  /** {instance: labels}. */
  labels(name) {
    return new Map([...this.of(name)].map(([instance, { last }]) => [instance, last.reading?.info]));
  }
}

const numberOf = (reading) => (typeof reading === "string" || typeof reading === "number" ? Number(reading) : NaN);

/** A process has a place in each order that it is in: its number is there, and who has the place is beside it. */
function processes(readings) {
  const rows = new Map();
  for (const [sort, number, who] of [["cpu", "process.cpu", "process.busiest"], ["memory", "process.memory", "process.largest"], ["io", "process.io", "process.mover"]]) {
    const holders = readings.labels(who);
    for (const [place, value] of readings.values(number)) {
      const holder = holders.get(place);
      if (!holder?.pid) continue;
      const key = `${holder.pid} ${holder.command}`;
      if (!rows.has(key)) rows.set(key, { pid: holder.pid, command: holder.command ?? "", user: holder.user ?? "" });
      rows.get(key)[sort] = value;
    }
  }
  return [...rows.values()];
}

function programs(readings) {
  return joined({ cpu: readings.values("program.cpu"), memory: readings.values("program.memory"), io: readings.values("program.io"), count: readings.values("program.processes") });
}

function groups(readings) {
  const written = new Map(readings.rates("cgroup.io_written"));
  const io = readings.rates("cgroup.io_read").filter(([name]) => written.has(name)).map(([name, rate]) => [name, rate + written.get(name)]);
  return joined({ cpu: readings.rates("cgroup.cpu_usage"), memory: readings.values("cgroup.memory"), io, count: readings.values("cgroup.tasks") });
}

/** One row for each name that any of the lists has. */
function joined(lists) {
  const rows = new Map();
  for (const [column, values] of Object.entries(lists)) {
    for (const [name, value] of values) {
      if (!rows.has(name)) rows.set(name, { name, count: "" });
      rows.get(name)[column] = value;
    }
  }
  return [...rows.values()];
}
