// More panels of a node: errors and drops of interfaces, how busy and how slow disks are, temperatures, power, clocks of graphics
// cards. They appear where the node has such series, and stay away where it has none. They refuse to hold up the first picture.

import { Gauge, Rate } from "./feeds.js";
import { byName } from "./hostlist.js";
import { TimeEach } from "./node-more-feeds.js";
import { follow } from "./node-more-history.js";
import { element } from "./element.js";
import { digits, percent, perSecond, plain, UNKNOWN_TEXT } from "./units.js";

export const PATTERNS = [
  "net.rx_errors", "net.tx_errors", "net.rx_dropped", "net.tx_dropped",
  "disk.io_time", "disk.read_time", "disk.write_time", "disk.reads", "disk.writes",
  "hwmon.chip", "hwmon.label", "hwmon.temp", "hwmon.power", "hwmon.power_average", "hwmon.frequency",
  "thermal.temperature", "rapl.package", "rapl.dram",
];

/** Sensors are read every 10 s: their newest value is known for this long (s). */
const SENSOR_SLACK = 30;
/** Lines that colours tell apart, plain and dashed. */
const LINES_MAX = 12;
const COLOURS = 6;
/** Counters of energy move slowly: power is taken over this (s). */
const POWER_SECONDS = 5;
/** Names of drivers of graphics cards. */
const CARDS = /^(amdgpu|nouveau|nvidia|xe|i915|radeon)/;

const given = (format) => (value) => (Number.isFinite(value) ? format(value) : UNKNOWN_TEXT);
const celsius = given((value) => `${value.toFixed(1)} °C`);
const watts = given((value) => `${digits(value)} W`);
const hertz = given((value) => `${plain(value)}Hz`);
const share = given((value) => percent(100 * value));
const duration = given((value) => (value >= 1 ? `${digits(value)} s` : value >= 1e-3 ? `${digits(value * 1e3)} ms` : `${digits(value * 1e6)} µs`));

export class MorePanels {
  constructor(view, signal) {
    this.board = view.board;
    this.view = view;
    this.ofDisk = new Map();
    this.ofInterface = new Map();
    this.sensors = new Map();
    // A server that knows neither interfaces nor disks has none of these series, and would say so as an error.
    const { disk, net } = this.board;
    if (disk.members.size + net.members.size > 0) follow(view, PATTERNS, (table) => this.bind(table), signal);
  }

  /** Makes panels for what has appeared. */
  bind(table) {
    for (const [disk, { panel }] of this.board.disk.members) if (!this.ofDisk.has(disk) && table.find("disk.io_time", disk) >= 0) this.addDisk(disk, panel);
    for (const [name, { panel }] of this.board.net.members) if (!this.ofInterface.has(name) && table.find("net.rx_errors", name) >= 0) this.addInterface(name, panel);
    this.addSensors(table);
  }

  /** A panel of the board, below or beside another one. */
  panel(beside, options) {
    const panel = this.board.panel(beside.root.parentNode, { size: "low", ...options });
    (this.last?.beside === beside ? this.last.panel : beside).root.after(panel.root);
    this.last = { beside, panel };
    return panel;
  }

  addDisk(disk, beside) {
    const busy = this.board.feed(new Rate("disk.io_time", disk, 0.1)).track;
    const times = [["read", "disk.read_time", "disk.reads", 0], ["written", "disk.write_time", "disk.writes", 2]].map(([label, seconds, events, colour]) => ({
      label, colour, format: duration, track: this.board.feed(new TimeEach(seconds, events, disk)).track,
    }));
    const panels = [
      this.panel(beside, { title: `${disk}: busy`, series: [{ label: "", colour: 3, track: busy, format: share }], plot: { style: "lines", scale: { fixed: 1 }, format: share } }),
      this.panel(beside, { title: `${disk}: time of a request`, series: times, plot: { style: "lines", scale: { least: 1e-4 }, format: duration } }),
    ];
    this.ofDisk.set(disk, { beside, panels });
  }

  addInterface(name, beside) {
    const feeds = [];
    const series = [["receive errors", "net.rx_errors", 3], ["send errors", "net.tx_errors", 4], ["received, dropped", "net.rx_dropped", 2], ["sent, dropped", "net.tx_dropped", 0]].map(([label, metric, colour]) => {
      feeds.push(this.board.feed(new Rate(metric, name)));
      return { label, colour, track: feeds.at(-1).track, format: perSecond };
    });
    const panel = this.panel(beside, { title: `${name}: errors and drops`, series, hidden: true, plot: { style: "lines", scale: { least: 1 }, format: perSecond } });
    if (name === "lo") panel.root.classList.add("last");
    this.ofInterface.set(name, { beside, panel, feeds });
  }

  addSensors(table) {
    const words = wordsOf(table);
    const of = (names, keep = () => true) => table.columns.filter(({ name, instance }) => names.includes(name) && keep(instance)).sort((a, b) => byName(words(a), words(b)));
    this.addLines("Temperatures", of(["hwmon.temp", "thermal.temperature"]), words, celsius, { least: 50 });
    this.addLines("Power", of(["hwmon.power", "hwmon.power_average", "rapl.package", "rapl.dram"]), words, watts, { least: 1 });
    this.addLines("Clocks of graphics cards", of(["hwmon.frequency"], (instance) => CARDS.test(chipName(table, instance))), words, hertz, { least: 1e6 });
  }

  /** One panel for all sensors of a kind; another sensor makes another panel. */
  addLines(title, columns, words, format, scale) {
    const key = columns.map(({ name, instance }) => `${name}[${instance}]`).join();
    const known = this.sensors.get(title);
    if (columns.length === 0 || known?.columns >= columns.length) return;
    this.group ??= this.buildGroup();
    if (known) this.dropPanel(known.panel);
    const series = columns.slice(0, LINES_MAX).map((column, i) => {
      const isCounter = column.kind === "counter";
      const feed = this.board.feed(isCounter ? new Rate(column.name, column.instance, POWER_SECONDS) : new Gauge(column.name, column.instance));
      feed.track.slack = SENSOR_SLACK;
      return { label: words(column), colour: i % COLOURS, dashed: i >= COLOURS, track: feed.track, format, gauge: !isCounter };
    });
    const panel = this.board.panel(this.group.grid, { title, series, plot: { style: "lines", scale: { ...scale, signed: true }, format, rows: 4 } });
    const beyond = columns.length - series.length;
    panel.note.textContent = beyond > 0 ? `${beyond} more sensors are not drawn` : "";
    this.sensors.set(title, { columns: columns.length, panel, key });
  }

  buildGroup() {
    const grid = element("div", { classes: "grid third" });
    const root = element("section", { classes: "group", "aria-label": "Sensors" }, element("h2", { text: "Sensors" }), grid);
    this.board.jobs.root.before(root);
    return { root, grid };
  }

  dropPanel(panel) {
    const { board } = this;
    board.panels = board.panels.filter((other) => other !== panel);
    board.feeds = board.feeds.filter((feed) => !panel.tracks.some((track) => feed.tracks.includes(track)));
    this.view.dropPanel(panel);
    panel.root.remove();
  }

  /** Hides what belongs to idle devices, and errors where there never were any. */
  tidy() {
    for (const { beside, panels } of this.ofDisk.values()) for (const { root } of panels) if (root.hidden !== beside.root.hidden) root.hidden = beside.root.hidden;
    for (const { beside, panel, feeds } of this.ofInterface.values()) {
      const isHidden = beside.root.hidden || !feeds.some((feed) => feed.total > 0);
      if (panel.root.hidden !== isHidden) panel.root.hidden = isHidden;
    }
  }
}

const chipOf = (instance) => String(instance ?? "").split(",")[0];
const said = (table, name, instance) => /=(.*)$/.exec(table.why.get(table.find(name, instance)) ?? "")?.[1] ?? "";
const chipName = (table, instance) => said(table, "hwmon.chip", chipOf(instance)) || chipOf(instance);

/** What a sensor is called: as the driver says, or by its chip and number. */
function wordsOf(table) {
  return ({ name, instance }) => {
    if (!name.startsWith("hwmon.")) return [name.startsWith("rapl.") ? name.slice("rapl.".length) : "", String(instance ?? "")].filter((word) => word).join(" ");
    const sensor = /sensor=([^,]*)/.exec(instance ?? "")?.[1] ?? "";
    return [chipName(table, instance), said(table, "hwmon.label", instance) || sensor].filter((word) => word).join(" ");
  };
}
