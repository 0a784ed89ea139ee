// Past rows: what the server says that some series of a node were, as rows that feeds take. A row is all series at one time, or in one
// of the equal times that were asked for. They refuse to fill holes: what an answer does not have is unknown.

import { ABSENT, NOT_SAMPLED, PRESENT } from "./table.js";

/** Rows that are farther apart than this many periods have a hole between them. */
const HOLE_PERIODS = 3;
/** Buckets that are farther apart than this many widths have one. */
const HOLE_WIDTHS = 1.5;
/** What a row takes beside its values: its time, and its place in a list. */
const ROW_BYTES = 16;
const CELL_BYTES = 9;

const key = (name, instance) => (instance == null ? name : `${name}\u0000${instance}`);
const labelled = ({ instance, labels }) => {
  const pairs = Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`);
  return pairs.length ? [instance, ...pairs].filter((part) => part).join(",") : instance;
};

/** One answer of khz/v1/range, with every reading or with points. */
export class PastRows {
  /** `text`: one JSON object a line. Throws what the server says is wrong, and if the answer is not whole. */
  constructor(text) {
    const lines = text.split("\n").filter((line) => line).map((line) => JSON.parse(line));
    const error = lines.find((line) => line.error);
    if (error) throw new Error(error.error);
    const end = lines.at(-1)?.end;
    if (!end) throw new Error("the answer broke off");
    /** Sentences about what could not be read. */
    this.damage = lines.filter((line) => line.damage).map((line) => line.damage);
    const parts = lines.filter((line) => line.name);
    /** The time of the first value; Infinity: there is none. */
    this.since = Math.min(...parts.map(({ points, rows }) => Number(points ? (points[0]?.first_t ?? Infinity) : (rows[0]?.[0] ?? Infinity))));
    this.isPoints = parts.some((part) => part.points);
    this.columns = [];
    this.index = new Map();
    for (const { name, kind, unit, ...part } of parts) this.column(name, labelled(part), kind, unit);
    this.layOut(parts);
    for (const part of parts) this.fill(part);
    this.row = null;
    /** Seconds from a row to the next; rows of which only a summary is left are farther apart. */
    this.width = this.isPoints ? Number(end.width) : period(this.time);
    const summary = Number(end.width ?? 0);
    this.reach = Math.max(HOLE_WIDTHS * summary, this.isPoints ? 0 : HOLE_PERIODS * this.width);
  }

  column(name, instance, kind, unit) {
    const known = this.index.get(key(name, instance));
    if (known !== undefined) return known;
    this.index.set(key(name, instance), this.columns.length);
    this.columns.push({ name, instance, kind, unit });
    return this.columns.length - 1;
  }

  /** Makes room for every time that a part has. */
  layOut(parts) {
    const times = new Set();
    for (const { points, rows } of parts) {
      for (const row of rows ?? points) times.add(Number(points ? row.t : row[0]));
    }
    this.time = Float64Array.from(times).sort();
    this.row = new Map();
    this.time.forEach((time, row) => this.row.set(time, row));
    const cells = this.columns.length * this.time.length;
    this.value = new Float64Array(cells);
    this.state = new Uint8Array(cells).fill(this.isPoints ? ABSENT : NOT_SAMPLED);
    if (!this.isPoints) return;
    this.low = new Float64Array(cells);
    this.high = new Float64Array(cells);
    /** When the last value of each bucket was: rates need it. */
    this.until = Float64Array.from(this.time);
  }

  fill({ name, kind, points, rows, ...part }) {
    const column = this.index.get(key(name, labelled(part)));
    for (const row of rows ?? points) {
      const at = this.row.get(Number(points ? row.t : row[0]));
      const cell = at * this.columns.length + column;
      if (points) this.fillPoint(cell, at, row, kind);
      else this.fillReading(cell, row[2]);
    }
  }

  fillReading(cell, reading) {
    const isValue = typeof reading === "string" || typeof reading === "number";
    this.value[cell] = isValue ? Number(reading) : NaN;
    this.state[cell] = Number.isFinite(this.value[cell]) ? PRESENT : reading === null ? NOT_SAMPLED : ABSENT;
  }

  /** Of a counter its last value, of a gauge the mean. A counter that fell within the bucket says nothing about it. */
  fillPoint(cell, at, point, kind) {
    const isCounter = kind === "counter";
    this.value[cell] = isCounter ? Number(point.last) : Number(point.sum) / point.count;
    this.low[cell] = Number(point.lowest);
    this.high[cell] = Number(point.highest);
    this.until[at] = Math.max(this.until[at], Number(point.last_t));
    this.state[cell] = Number.isFinite(this.value[cell]) && !(isCounter && point.resets > 0) ? PRESENT : ABSENT;
  }

  /** Bytes that it takes, roughly. */
  get bytes() {
    return this.time.length * (ROW_BYTES + this.columns.length * (this.isPoints ? 3 : 1) * CELL_BYTES);
  }
}

/** The usual time between two rows; 0: there are fewer than two. */
function period(times) {
  if (times.length < 2) return 0;
  const steps = times.slice(1).map((time, i) => time - times[i]).sort();
  return steps[steps.length >> 1];
}

/** The rows of several answers, one after the other, as the table from which feeds take (see table.js). */
export class PastTable {
  /** `answers`: PastRows in the order of their times. */
  constructor(answers) {
    this.answers = answers;
    this.columns = [];
    this.index = new Map();
    for (const { columns } of answers) {
      for (const column of columns) {
        const id = key(column.name, column.instance);
        if (this.index.has(id)) continue;
        this.index.set(id, this.columns.length);
        this.columns.push(column);
      }
    }
    this.value = new Float64Array(this.columns.length);
    this.state = new Uint8Array(this.columns.length);
    this.low = this.high = null;
    this.time = NaN;
  }

  /** A table with the last reading of each column of an answer. */
  static newest(rows) {
    const table = new PastTable([rows]);
    for (let c = 0; c < table.columns.length; c++) {
      for (let row = 0; row < rows.time.length; row++) {
        const cell = row * rows.columns.length + c;
        if (rows.state[cell] !== NOT_SAMPLED) [table.value[c], table.state[c]] = [rows.value[cell], rows.state[cell]];
      }
    }
    table.why = new Map();
    return table;
  }

  find(name, instance) {
    return this.index.get(key(name, instance)) ?? -1;
  }

  instances(name) {
    return this.columns.filter((c) => c.name === name && c.instance != null).map((c) => c.instance);
  }

  unknown(column) {
    return this.state[column] >= ABSENT;
  }

  /** Gives every row to every feed, with what holes there are between them. */
  feed(feeds) {
    for (const feed of feeds) feed.bind(this);
    let before = NaN;
    for (const rows of this.answers) {
      const place = rows.columns.map(({ name, instance }) => this.find(name, instance));
      for (let row = 0; row < rows.time.length; row++) {
        if (rows.time[row] <= before) continue;
        this.take(rows, row, place);
        const holes = rows.reach > 0 && rows.time[row] - before > rows.reach;
        before = rows.time[row];
        for (const feed of feeds) feed.take(this, holes);
      }
    }
  }

  take(rows, row, place) {
    const { low, high, value, state, columns } = rows;
    this.time = rows.isPoints ? rows.until[row] : rows.time[row];
    this.state.fill(NOT_SAMPLED);
    if (low) {
      this.low ??= new Float64Array(this.columns.length);
      this.high ??= new Float64Array(this.columns.length);
    }
    for (let c = 0; c < columns.length; c++) {
      const cell = row * columns.length + c;
      const to = place[c];
      this.value[to] = value[cell];
      this.state[to] = state[cell];
      if (this.low) this.low[to] = low ? low[cell] : value[cell];
      if (this.high) this.high[to] = high ? high[cell] : value[cell];
    }
  }
}
