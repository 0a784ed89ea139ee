// The table of signals: what is judged of a node, from which value on, and what it means. Values are computed by PromQL, the language
// of channels and rules, so that each line can be written as a rule, too. Higher is always worse. It refuses to ask and to judge.
// docs/page.md repeats the thresholds, and a test compares both.

import { digits, percent, plain, UNKNOWN_TEXT } from "./units.js";

/** What a CPU's time goes into: together they are all of it. */
const MODES = `mode=~"idle|iowait|irq|nice|softirq|steal|system|user"`;

const cpuTime = (modes, only, over) => `sum by (instance) (rate(khz_cpu_all_seconds_total{${modes}${only}}[${over}]))`;
/** How many CPUs there are, as a slope: next to a gap a rate is too low, and the queue would look too long. */
const count = (only, over) => `sum by (instance) (deriv(khz_cpu_all_seconds_total{${MODES}${only}}[${over}]))`;
/** All of their time. */
const cpus = (only, over) => cpuTime(MODES, only, over);
const rate = (name, only, over) => `rate(${name}{instance!=""${only}}[${over}])`;
const pressure = (resource) => (only, over) => `100 * max by (instance) (${rate(`node_pressure_${resource}_waiting_seconds_total`, only, over)})`;
/** Of several series with the same labels, each called after `part`, so that all are kept. */
const part = (name, query) => `label_replace(${query}, "part", "${name}", "instance", ".*")`;

const known = (print) => (value) => (Number.isFinite(value) ? print(value) : UNKNOWN_TEXT);
const each = (words) => known((value) => `${digits(value)} ${words}`);
const counted = (words) => known((value) => `${plain(value)}${words}`);

/**
 * `of(only, over)`: a value for each instance; `only` are further selectors, `over` is the window of rates. A state begins when the
 * value has been at `enter` or above for `hold` seconds, and ends when it has been below `leave` for as long; without `bad` there is
 * no such state. `metrics` are khz's names of what it needs, `panels` the titles of where it is drawn. `blind`: if this reading has
 * this value, the number is not known, and why.
 */
export const SIGNALS = [
  {
    id: "cpu", name: "CPU busy", format: percent, hold: 60, warning: { enter: 95, leave: 90 },
    of: (only, over) => `100 * (1 - ${cpuTime(`mode=~"idle|iowait"`, only, over)} / ${cpus(only, over)})`,
    metrics: ["cpu.all.idle"], panels: ["All CPUs"],
    means: "All CPUs work. A node that computes is meant to; the run queue and CPU pressure say whether tasks wait for a CPU.",
  },
  {
    id: "queue", name: "Run queue", format: each("per CPU"), hold: 30, warning: { enter: 2, leave: 1.5 }, bad: { enter: 4, leave: 3 },
    of: (only, over) => `sum by (instance) (avg_over_time(node_procs_running{instance!=""${only}}[${over}])) / ${count(only, over)}`,
    metrics: ["kernel.procs_running", "cpu.all.idle"], panels: ["Load"],
    means: "More tasks want to run than there are CPUs, so they run in turns. Look for a program with too many threads, or for two jobs on one node.",
  },
  {
    id: "cpu-pressure", name: "CPU pressure", format: percent, hold: 30, warning: { enter: 25, leave: 15 }, bad: { enter: 60, leave: 45 },
    of: pressure("cpu"), metrics: ["pressure.cpu.some.total"], panels: ["CPU pressure"],
    means: "The share of the time in which some task waited for a CPU. Look at the run queue, and at limits of control groups.",
  },
  {
    id: "memory", name: "Memory used", format: percent, hold: 30, warning: { enter: 90, leave: 87 }, bad: { enter: 95, leave: 93 },
    of: (only) => `100 * max by (instance) (1 - node_memory_MemAvailable_bytes{instance!=""${only}} / node_memory_MemTotal_bytes{instance!=""${only}})`,
    metrics: ["mem.available", "mem.total"], panels: ["Memory"],
    means: "Little memory is left for programs. If it goes on rising, the kernel will kill a process. Look for the process that grows.",
  },
  {
    id: "memory-pressure", name: "Memory pressure", format: percent, hold: 30, warning: { enter: 5, leave: 2 }, bad: { enter: 20, leave: 10 },
    of: pressure("memory"), metrics: ["pressure.memory.some.total"], panels: ["Memory pressure"],
    means: "The share of the time in which some task waited for memory. Look at swapping, and at limits of control groups.",
  },
  {
    id: "swapping", name: "Swapping", format: counted(" pages/s"), hold: 30, warning: { enter: 10, leave: 1 }, bad: { enter: 1000, leave: 300 },
    of: (only, over) => `sum by (instance) (${rate("node_vmstat_pswpin", only, over)} + ${rate("node_vmstat_pswpout", only, over)})`,
    metrics: ["vm.swap_in_pages", "vm.swap_out_pages"], panels: ["Memory"],
    means: "Memory is moved to and from the disk, which is a thousand times slower. Look for the process that needs more than there is.",
  },
  {
    id: "disk", name: "Disk busy", format: percent, hold: 60, warning: { enter: 90, leave: 75 },
    of: (only, over) => `100 * max by (instance) (${rate("node_disk_io_time_seconds_total", only, over)})`,
    metrics: ["disk.io_time"], panels: ["Disk utilisation", "Disks"],
    means: "The busiest disk works all the time. An SSD may take more even so; disk pressure says whether tasks wait for it.",
  },
  {
    id: "disk-pressure", name: "Disk pressure", format: percent, hold: 30, warning: { enter: 20, leave: 10 }, bad: { enter: 60, leave: 40 },
    of: pressure("io"), metrics: ["pressure.io.some.total"], panels: ["I/O pressure"],
    means: "The share of the time in which some task waited for a disk or a network file system. Look for the process that reads or writes most.",
  },
  {
    id: "filesystem", name: "File system full", format: percent, hold: 60, warning: { enter: 90, leave: 88 }, bad: { enter: 97, leave: 96 },
    of: (only) =>
      `100 * max by (instance) ((1 - node_filesystem_avail_bytes{instance!=""${only}} / node_filesystem_size_bytes{instance!=""${only}}) unless node_filesystem_readonly{instance!=""${only}} == 1)`,
    metrics: ["fs.available", "fs.size"], panels: ["File systems"],
    means: "The fullest file system that can be written to has little room. Remove files, or find out who writes.",
  },
  {
    id: "network", name: "Network faults", format: counted("/s"), hold: 30, warning: { enter: 5, leave: 1 }, bad: { enter: 100, leave: 20 },
    of: (only, over) => {
      const kinds = ["receive_errs", "receive_drop", "transmit_errs", "transmit_drop"];
      return `sum by (instance) (${kinds.map((kind) => `rate(node_network_${kind}_total{device!="lo"${only}}[${over}])`).join(" + ")})`;
    },
    metrics: ["net.rx_errors", "net.rx_dropped"], panels: ["Network errors", "Network"],
    means: "Packets with an error, and packets thrown away, of all interfaces. Errors come from a cable, a plug or a port; drops from too many packets at once.",
  },
  {
    id: "clock", name: "Clock off", format: each("ms"), hold: 60, warning: { enter: 50, leave: 20 }, bad: { enter: 500, leave: 200 },
    of: (only) => {
      const [offset, estimated, synchronised] = ["offset_seconds", "estimated_error_seconds", "sync_status"].map((name) => `node_timex_${name}{instance!=""${only}}`);
      return `1000 * max by (instance) ((abs(${offset}) + ${estimated}) and ${synchronised} == 1)`;
    },
    metrics: ["clock.offset", "clock.estimated_error", "clock.synchronised"], panels: [],
    blind: { metric: "clock.synchronised", value: "0", why: "no time service keeps the clock right, so nobody knows how far it is off" },
    means: "How far the clock may be off, as its time service says. Logs of several nodes are no longer in order. Look at chronyd or ntpd.",
  },
  {
    id: "taken", name: "CPU taken away", format: percent, hold: 30, warning: { enter: 5, leave: 2 }, bad: { enter: 20, leave: 10 },
    of: (only, over) => {
      const stolen = `${cpuTime(`mode="steal"`, only, over)} / ${cpus(only, over)}`;
      const limited = `max by (instance) (${rate("khz_root_cgroup_cpu_throttled_seconds_total", only, over)}) / ${cpus(only, over)}`;
      const hot = `clamp_max(max by (instance) (${rate("node_cpu_core_throttles_total", only, over)}), 1)`;
      return `100 * max by (instance) (${part("stolen", stolen)} or ${part("limited", limited)} or ${part("hot", hot)})`;
    },
    metrics: ["cpu.all.steal"], panels: ["All CPUs"],
    means: "CPU time that tasks did not get: a hypervisor gave it to others, a limit held them back, or a core was slowed down by heat (then the share of seconds in which it was). Look at the host, the limit or the cooling.",
  },
];

export const signalOf = (id) => SIGNALS.find((signal) => signal.id === id);
