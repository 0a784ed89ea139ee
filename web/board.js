// The board: which panels there are, which metrics fill them, and how they come when an interface or a disk
// appears. It refuses to draw.

import { element } from "./element.js";
import { Computed, Gauge, Rate, Shares } from "./feeds.js";
import { MODES } from "./first-rows.js";
import { formatOf, isBinary } from "./measures.js";
import { Panel } from "./panel.js";
import { bytes, bytesPerSecond, digits, percent, perSecond, plain, UNKNOWN_TEXT } from "./units.js";

const ALL_MODES = MODES.map((mode) => `cpu.all.${mode}`);
const ONE_MODES = MODES.map((mode) => `cpu.${mode}`);
const RESTING = 2;

/** Up to this many CPUs have a plot each; beyond, a row each in the heat strip. */
const CPU_PLOTS_MAX = 8;
/** At most this many CPUs get a row: a strip of more would be thinner than a pixel each. */
const CPUS_MAX = 1_024;
/** At most this many interfaces or disks are followed; the rest is counted in the group's note. */
const INSTANCES_MAX = 64;
/** At most this many published numbers have a plot; the rest is counted in the group's note. */
const JOBS_MAX = 64;
/** Jobs publish seldom: their rates are taken over this, so that they are no needles between zeros. */
const JOB_WINDOW_SECONDS = 5;

/** The share of all CPUs that is busy. */
export const busyFeed = (make) => new Shares(ALL_MODES, [ALL_MODES.slice(0, -RESTING)], undefined, make);

const SHOWN_MODES = [
  ["user", 0, ["cpu.all.user"]],
  ["system", 1, ["cpu.all.system"]],
  ["irq", 4, ["cpu.all.irq", "cpu.all.softirq"]],
  ["iowait", 2, ["cpu.all.iowait"]],
  ["nice", 5, ["cpu.all.nice"]],
  ["steal", 3, ["cpu.all.steal"]],
];

export class Board {
  /** `root` takes the panels; `added(panel)` hears of each new one. */
  constructor(root, added) {
    this.root = root;
    this.added = added;
    this.feeds = [];
    /** Which feed fills which track. */
    this.feedOf = new Map();
    this.panels = [];
    this.table = null;
    /** Stamps of the newest and of the first row. */
    this.time = NaN;
    this.oldest = NaN;
    this.period = NaN;
    /** What to add to a stamp to get seconds since 1970, by the node's clock. */
    this.offset = NaN;
    this.buildFixed();
  }

  /** The newest row's time in seconds since 1970; NaN before the first. */
  get now() {
    return this.time + this.offset;
  }

  feed(feed) {
    this.feeds.push(feed);
    for (const track of feed.tracks) this.feedOf.set(track, feed);
    if (this.table) feed.bind(this.table);
    return feed;
  }

  panel(parent, options) {
    const panel = new Panel(options);
    parent.append(panel.root);
    this.panels.push(panel);
    this.added(panel);
    return panel;
  }

  group(title, classes) {
    const grid = element("div", { classes: `grid ${classes}` });
    const note = element("small", {});
    const root = element("section", { classes: "group", "aria-label": title }, element("h2", { text: `${title} ` }, note), grid);
    this.root.append(root);
    return { root, grid, note, members: new Map() };
  }

  buildFixed() {
    this.cpu = this.group("CPU", "wide");
    this.buildModes(this.cpu.grid);
    this.cores = element("div", { classes: "grid cores" });
    this.cpu.grid.append(this.cores);
    const memory = this.group("Memory and load", "wide");
    this.buildMemory(memory.grid);
    this.buildLoad(memory.grid);
    this.net = this.group("Network", "small");
    this.disk = this.group("Disks", "small");
    const kernel = this.group("Kernel and pressure", "third");
    this.buildKernel(kernel.grid);
    this.jobs = this.group("Published by jobs", "third");
    this.jobs.root.hidden = true;
  }

  buildModes(grid) {
    const shares = this.feed(new Shares(ALL_MODES, SHOWN_MODES.map(([, , names]) => names)));
    const series = SHOWN_MODES.map(([label, colour], i) => ({ label, colour, track: shares.tracks[i], format: percent }));
    const busy = (value) => this.busyText(shares.tracks, value);
    this.panel(grid, { title: "All CPUs", series, extra: [{ label: "busy", read: busy }], plot: { style: "stack", scale: { fixed: 100 }, format: (v) => `${v} %`, rows: 4 } });
  }

  /** The share of all CPUs and, as khz watch and plots say it, how many CPUs that is. */
  busyText(tracks, value) {
    const share = tracks.reduce((sum, track) => sum + value(track), 0);
    if (!Number.isFinite(share)) return UNKNOWN_TEXT;
    const count = this.table?.instances("cpu.idle").length ?? 0;
    return `${percent(share)} of all${count > 0 ? `, ${digits((share / 100) * count)} of ${count} CPUs` : ""}`;
  }

  buildMemory(grid) {
    const used = this.feed(
      new Computed(["mem.total", "mem.free", "mem.buffers", "mem.cached"], ([t, f, b, c]) => Math.max(0, t - f - b - c)),
    );
    const buffers = this.feed(new Gauge("mem.buffers"));
    const cached = this.feed(new Gauge("mem.cached"));
    const total = this.feed(new Gauge("mem.total")).track;
    const available = this.feed(new Gauge("mem.available")).track;
    const swap = this.feed(new Computed(["mem.swap_total", "mem.swap_free"], ([t, f]) => t - f)).track;
    const series = [
      { label: "used", colour: 0, track: used.track, format: bytes, gauge: true },
      { label: "buffers", colour: 4, track: buffers.track, format: bytes, gauge: true },
      { label: "cached", colour: 1, track: cached.track, format: bytes, gauge: true },
    ];
    const extra = [
      { label: "available", track: available, format: bytes, gauge: true },
      { label: "of", track: total, format: bytes, gauge: true },
      { label: "swap used", track: swap, format: bytes, gauge: true },
    ];
    this.panel(grid, { title: "Memory", series, extra, plot: { style: "stack", scale: { exact: (last) => last(total) }, format: bytes, rows: 4 } });
  }

  buildLoad(grid) {
    const load = ["1m", "5m", "15m"].map((age) => this.feed(new Gauge(`load.${age}`)).track);
    const running = this.feed(new Gauge("tasks.running")).track;
    const total = this.feed(new Gauge("tasks.total")).track;
    const decimal = (v) => (Number.isFinite(v) ? v.toFixed(2) : "–");
    const series = [
      { label: "1 min", colour: 0, track: load[0], format: decimal, gauge: true },
      { label: "5 min", colour: 1, track: load[1], format: decimal, gauge: true },
      { label: "15 min", colour: 4, track: load[2], format: decimal, gauge: true },
    ];
    const extra = [
      { label: "running", track: running, format: plain, gauge: true },
      { label: "tasks", track: total, format: plain, gauge: true },
    ];
    this.panel(grid, { title: "Load", series, extra, plot: { style: "lines", scale: { least: 1 }, format: plain, rows: 4 } });
  }

  buildKernel(grid) {
    const rate = (title, metric, colour) => {
      const track = this.feed(new Rate(metric)).track;
      this.panel(grid, { title, size: "low", series: [{ label: "", colour, track, format: perSecond }], plot: { style: "lines", scale: { least: 10 }, format: perSecond } });
    };
    rate("Context switches", "kernel.context_switches", 0);
    rate("Interrupts", "kernel.interrupts", 1);
    rate("Forks", "kernel.forks", 2);
    for (const [title, resource] of [["CPU pressure", "cpu"], ["Memory pressure", "memory"], ["I/O pressure", "io"]]) {
      const series = [["some", 2], ["full", 3]].map(([kind, colour]) => ({
        label: kind, colour, format: percent, gauge: true, track: this.feed(new Gauge(`pressure.${resource}.${kind}.avg10`)).track,
      }));
      this.panel(grid, { title, size: "low", series, plot: { style: "lines", scale: { least: 1 }, format: (v) => `${v} %` } }).needs = `pressure.${resource}.some.avg10`;
    }
  }

  /** What a panel shows: its feeds, the names of their metrics, and how many series these have. */
  needOf(panel) {
    const feeds = [...new Set(panel.tracks.map((track) => this.feedOf.get(track)))];
    const names = [...new Set(feeds.flatMap((feed) => feed.names))].sort();
    const series = this.table?.columns.filter(({ name }) => names.includes(name)).length ?? 0;
    return { feeds, names, series: Math.max(series, names.length) };
  }

  /** What a node that sends nothing now once had: its columns with their last readings, so that its panels exist. */
  bindPast(table) {
    this.bind(table, 1);
    for (const feed of this.feeds) if (feed.column >= 0 && "total" in feed) feed.total = table.value[feed.column];
  }

  /** New columns: binds every feed to its column and makes feeds for what has appeared. */
  bind(table, period) {
    this.table = table;
    // The step between two streams may be as long as the slower of their periods.
    this.reach = Math.max(period, Number.isNaN(this.period) ? 0 : this.period);
    this.period = period;
    for (const feed of this.feeds) feed.bind(table);
    this.addCpus(table.instances("cpu.idle"));
    this.addPairs(this.net, table.instances("net.rx_bytes"), ["net.rx_bytes", "net.tx_bytes"], ["received", "sent"]);
    this.addJobs(table);
    const disks = table.instances("disk.read_bytes");
    this.addPairs(this.disk, disks.filter((d) => !isPartition(d, disks)), ["disk.read_bytes", "disk.written_bytes"], ["read", "written"]);
  }

  addCpus(cpus) {
    if (cpus.length <= (this.cpuCount ?? 0)) return;
    this.cpuCount = Math.min(cpus.length, CPUS_MAX);
    this.busy ??= new Map();
    for (const cpu of cpus.slice(0, CPUS_MAX)) {
      if (!this.busy.has(cpu)) this.busy.set(cpu, this.feed(new Shares(ONE_MODES, [ONE_MODES.slice(0, -RESTING)], cpu)).tracks[0]);
    }
    const series = [...this.busy].map(([cpu, track]) => ({ label: `CPU ${cpu}`, colour: 0, track, format: percent }));
    this.panels = this.panels.filter((p) => p.root.parentNode !== this.cores);
    this.cores.replaceChildren();
    if (series.length > CPU_PLOTS_MAX) {
      const size = series.length > 96 ? "many" : "tall";
      const known = (value) => series.map(({ track }) => value(track, true)).filter(Number.isFinite);
      const mean = (value) => {
        const shares = known(value);
        return percent(shares.reduce((a, b) => a + b, 0) / shares.length);
      };
      const busiest = (value) => percent(Math.max(...known(value)));
      this.cpu.note.textContent = cpus.length > CPUS_MAX ? `${cpus.length - CPUS_MAX} CPUs beyond the first ${CPUS_MAX} have no row of their own` : "";
      this.panel(this.cores, { title: `Each of ${series.length} CPUs`, series, heat: true, size, extra: [{ label: "mean", read: mean }, { label: "busiest", read: busiest }] });
    } else {
      for (const s of series) {
        this.panel(this.cores, { title: s.label, size: series.length > 2 ? "flat" : "low", series: [{ ...s, label: "" }], plot: { style: "lines", scale: { fixed: 100 }, format: (v) => `${v} %` } });
      }
    }
  }

  /** Numbers that jobs have published, each as its publisher says: a gauge as it is, a counter as a rate. */
  addJobs(table) {
    const jobs = table.columns.filter(({ name }) => name.startsWith("job."));
    const { members, grid, note, root } = this.jobs;
    for (const { name, instance, kind, unit } of jobs) {
      const title = instance === null || instance === undefined ? name : `${name}[${instance}]`;
      if (members.has(title) || members.size >= JOBS_MAX) continue;
      const isRate = kind === "counter";
      const shown = isRate ? `${unit}/s` : unit;
      const format = formatOf(shown);
      const { track } = this.feed(isRate ? new Rate(name, instance, JOB_WINDOW_SECONDS) : new Gauge(name, instance));
      const series = [{ label: "", colour: 0, track, format, gauge: !isRate }];
      members.set(title, this.panel(grid, { title, size: "low", series, plot: { style: "lines", scale: { least: 1, binary: isBinary(unit), signed: !isRate }, format } }));
    }
    root.hidden = members.size === 0;
    const beyond = jobs.length - members.size;
    note.textContent = beyond > 0 ? `${beyond} more than the ${JOBS_MAX} that are drawn: ask for them with khz watch 'job.*'` : members.size > 0 ? "" : "no job has published a number";
  }

  /** An interface or a disk: what comes upwards, what goes downwards. */
  addPairs(group, instances, [inward, outward], labels) {
    for (const instance of instances.slice(0, INSTANCES_MAX)) {
      if (group.members.has(instance)) continue;
      const feeds = [inward, outward].map((name) => this.feed(new Rate(name, instance)));
      const series = feeds.map((feed, i) => ({ label: labels[i], colour: i === 0 ? 0 : 2, track: feed.track, format: bytesPerSecond }));
      const panel = this.panel(group.grid, { title: instance, size: "low", series: series, hidden: true, plot: { style: "mirror", scale: { binary: true, least: 1024 }, format: bytesPerSecond } });
      if (instance === "lo") panel.root.classList.add("last");
      group.members.set(instance, { feeds, panel });
    }
    group.beyond = Math.max(0, instances.length - INSTANCES_MAX);
    group.any = instances.length > 0;
  }

  /** Rows, of which those before `from` were seen already and only carry changes. */
  take(rows, from) {
    const { table } = this;
    if (!table) return;
    for (let r = 0; r < rows.length; r++) {
      table.apply(rows[r]);
      if (r < from) continue;
      const passed = table.time - this.time;
      const holes = passed > Math.max(3 * this.reach, 0.3) || passed < 0;
      this.time = table.time;
      this.offset = Number(rows[r].t) - table.time;
      if (Number.isNaN(this.oldest)) this.oldest = table.time;
      this.reach = this.period;
      for (const feed of this.feeds) feed.take(table, holes);
    }
  }

  /** The node's clock was set back: what was drawn lies in a future that will come again, differently. */
  forget() {
    this.time = this.oldest = NaN;
    for (const feed of this.feeds) {
      feed.forget?.();
      for (const track of feed.tracks) track.clear();
    }
    for (const panel of this.panels) panel.picture.refresh();
  }

  /** Shows what has moved data since boot and hides the rest; says why a panel is empty. */
  tidy() {
    if (!this.table) return;
    for (const [group, noun] of [[this.net, "interface"], [this.disk, "device"]]) {
      let idle = 0;
      for (const { feeds, panel } of group.members.values()) {
        const quiet = !feeds.some((feed) => feed.total > 0);
        if (quiet) idle++;
        if (panel.root.hidden !== quiet) panel.root.hidden = quiet;
      }
      const shown = group.members.size - idle;
      const notes = [];
      if (!group.any) notes.push(`no ${noun} is visible here`);
      else if (shown === 0) notes.push(`no ${noun} has moved data since boot`);
      if (idle > 0) notes.push(`${idle} idle ${noun}${idle > 1 ? "s" : ""} hidden`);
      if (group.beyond > 0) notes.push(`${group.beyond} more than the ${INSTANCES_MAX} that are followed: ask for them with khz watch`);
      group.note.textContent = notes.join(" · ");
    }
    for (const panel of this.panels) if (panel.needs) this.explain(panel);
  }

  /** A pressure file that the kernel does not offer: the panel says so instead of staying blank. */
  explain(panel) {
    const column = this.table.find(panel.needs);
    const why = column < 0 ? "not offered by this kernel" : this.table.unknown(column) ? this.table.why.get(column) : "";
    if (panel.note.textContent !== why) panel.note.textContent = why;
  }
}

/** `sda1` where there is `sda`, `nvme0n1p2` where there is `nvme0n1`: the same bytes, counted in the whole. */
function isPartition(disk, disks) {
  return disks.some((whole) => whole !== disk && disk.startsWith(whole) && /^p?\d+$/.test(disk.slice(whole.length)));
}
