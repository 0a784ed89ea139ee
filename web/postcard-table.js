// The table of a postcard: what is seen as CSV, with the address and the time in lines before the header. What is unknown is an
// empty cell, never 0. It refuses to be larger than a spreadsheet can open.

/** Cells of a table. */
export const CELLS_MAX = 1_000_000;

/**
 * `table`: {columns: [text], rows: [[value…]…], notes}; a value is a text, a number, or NaN or null where nothing is known. The oldest
 * rows are left out where there are too many.
 */
export function csvOf({ columns, rows, notes = [] }, about) {
  const most = Math.max(1, Math.floor(CELLS_MAX / columns.length));
  const left = Math.max(0, rows.length - most);
  const words = left > 0 ? [`the first ${left} rows are left out: a table has at most ${CELLS_MAX} cells`] : [];
  const comments = [...about, ...notes, ...words].map((line) => `# ${line.replace(/[\r\n]+/g, " ")}`);
  const lines = [columns, ...rows.slice(left)].map((cells) => cells.map(cellOf).join(","));
  return new Blob([[...comments, ...lines].join("\r\n"), "\r\n"], { type: "text/csv;charset=utf-8" });
}

/** A text in quotes where it needs them; one that a spreadsheet would take for a formula begins with an apostrophe. */
function cellOf(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const safe = /^[=+\-@\t]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * Several series as one table by time: `series`: [{name, unit, points: [[time, mean, low, high]…]}]. A series whose points sum up several values
 * has three columns.
 */
export function tableOf(series) {
  const rows = new Map();
  const columns = ["time (UTC)", "time (s since 1970)"];
  for (const { name, unit, points } of series) {
    const at = columns.length;
    const unitText = unit ? ` [${unit}]` : "";
    const isRange = points.some(([, , low, high]) => low !== high);
    columns.push(`${name}${unitText}`, ...(isRange ? [`${name}, lowest${unitText}`, `${name}, highest${unitText}`] : []));
    for (const [time, mean, low, high] of points) {
      // Whole milliseconds: finer, and equal times of two series differ by how they were computed.
      const key = Math.round(time * 1_000);
      if (!rows.has(key)) rows.set(key, []);
      const row = rows.get(key);
      row[at] = mean;
      if (isRange) [row[at + 1], row[at + 2]] = [low, high];
    }
  }
  const times = [...rows.keys()].sort((a, b) => a - b);
  return {
    columns,
    rows: times.map((key) => [new Date(key).toISOString(), key / 1_000, ...Array.from({ length: columns.length - 2 }, (_, i) => rows.get(key)[i + 2])]),
  };
}
