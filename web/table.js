// The table: the newest reading of every column of one stream, with the rows' changes applied. It refuses to
// fill holes: a column is PRESENT, ABSENT, FAILED or simply NOT_SAMPLED
// in this row.

export const NOT_SAMPLED = 0;
export const PRESENT = 1;
export const ABSENT = 2;
export const FAILED = 3;

export class Table {
  /** `columns` as the server announces them: {name, instance?, labels?, kind, unit}. Labels become part of the instance. */
  constructor(announced) {
    const columns = announced.map((column) => (column.labels ? { ...column, instance: labelled(column) } : column));
    this.columns = columns;
    this.value = new Float64Array(columns.length);
    this.state = new Uint8Array(columns.length);
    /** Why a column is ABSENT or FAILED, in the server's words. */
    this.why = new Map();
    this.time = NaN;
    this.index = new Map(columns.map((c, i) => [key(c.name, c.instance), i]));
  }

  /** Applies a row {b, v} or {b, c}. */
  apply(row) {
    this.time = rowTime(row);
    if (row.v) {
      const n = Math.min(row.v.length, this.value.length);
      for (let i = 0; i < n; i++) this.set(i, row.v[i]);
      for (let i = n; i < this.value.length; i++) this.state[i] = NOT_SAMPLED;
    } else if (row.c) {
      for (let i = 0; i + 1 < row.c.length; i += 2) this.set(row.c[i], row.c[i + 1]);
    }
  }

  set(column, cell) {
    if (!(column >= 0 && column < this.value.length)) return;
    if (typeof cell === "string" || typeof cell === "number") {
      this.value[column] = Number(cell);
      this.state[column] = Number.isFinite(this.value[column]) ? PRESENT : FAILED;
    } else if (cell === null || cell === undefined) {
      this.state[column] = NOT_SAMPLED;
    } else if ("info" in cell) {
      // There is nothing to draw: the value is a description.
      this.state[column] = ABSENT;
      this.why.set(column, pairs(cell.info));
    } else {
      this.state[column] = "absent" in cell ? ABSENT : FAILED;
      this.why.set(column, String(cell.absent ?? cell.failed ?? "not readable"));
    }
  }

  /** True when the column is known to have no value now. */
  unknown(column) {
    return this.state[column] >= ABSENT;
  }

  /** The column of a metric, -1 when there is none. */
  find(name, instance) {
    return this.index.get(key(name, instance)) ?? -1;
  }

  /** The instances of a metric, in column order. */
  instances(name) {
    return this.columns.filter((c) => c.name === name && c.instance != null).map((c) => c.instance);
  }
}

/** When a row was gathered, in seconds of the clock that never jumps (of the wall clock, if the server has no other). */
export const rowTime = (row) => Number(row.b ?? row.t);

/** `mlx5_0,port=1`: the instance of a column with its labels. */
const labelled = ({ instance, labels }) => [instance, pairs(labels)].filter((part) => part).join(",");

/** `name=value` of each label. */
const pairs = (labels) =>
  Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");

const key = (name, instance) => (instance == null ? name : `${name}\u0000${instance}`);
