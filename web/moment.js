// Moments: points of time, in seconds since 1970, as people read and write them, in the reader's own time zone. It refuses to know
// what happened then.

import { duration } from "./units.js";

/** Steps between two times that are written, in seconds. */
const TIME_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200,
  86_400, 172_800, 345_600, 604_800, 1_209_600, 2_592_000,
];
const HOUR = 3_600;
const DAY = 86_400;
/** A window of less than this shows its times with milliseconds. */
const MILLISECONDS_BELOW = 20;
/** The years that an address may name: a date that is farther away is a typing error. */
const [EARLIEST, LATEST] = [0, 253_402_300_800];

const two = (n) => String(n).padStart(2, "0");

/** Round local times between two times, at most `most` of them: [{time, text}]. Where they are hours apart, midnight is named by its day. */
export function timeMarks(start, end, most) {
  const step = TIME_STEPS.find((step) => (end - start) / step <= most) ?? (end - start) / most;
  const away = -new Date(end * 1_000).getTimezoneOffset() * 60;
  const marks = [];
  for (let n = Math.ceil((start + away) / step); n * step - away <= end; n++) {
    const time = n * step - away;
    marks.push({ time, text: clockText(time, step >= HOUR && (time + away) % DAY === 0 ? DAY : step) });
  }
  return marks;
}

/** A time as it is read where the reader is: with what a step that long needs, the day alone, or down to milliseconds. */
export function clockText(time, step) {
  // Whole milliseconds first: 0.29 is a little less than it says.
  const date = new Date(Math.round(time * 1_000));
  if (Number.isNaN(date.getTime())) return "–";
  if (step >= DAY) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (step >= 60) return minutes;
  const seconds = `${minutes}:${two(date.getSeconds())}`;
  return step >= 1 ? seconds : `${seconds}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** The time of day as exactly as a window of `span` seconds can tell, with the day where that is not the day of `now`. */
export function exactText(time, span, now = Date.now() / 1_000) {
  const clock = clockText(time, span < MILLISECONDS_BELOW ? 0.001 : 1);
  const isToday = new Date(time * 1_000).toDateString() === new Date(now * 1_000).toDateString();
  return isToday ? clock : `${dayText(time)} ${clock}`;
}

/** "Nov 29", with the year where it is not this one. */
function dayText(time) {
  const date = new Date(time * 1_000);
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return date.toLocaleDateString(undefined, { month: "short", day: "numeric", ...year });
}

/** "14:03:10 … 14:05:40"; the day stands once where it is the same, and not at all where it is today. */
export function windowText(from, to, now = Date.now() / 1_000) {
  const sameDay = new Date(from * 1_000).toDateString() === new Date(to * 1_000).toDateString();
  if (sameDay) return `${exactText(from, to - from, now)} … ${clockText(to, to - from < MILLISECONDS_BELOW ? 0.001 : 1)}`;
  return `${exactText(from, to - from, NaN)} … ${exactText(to, to - from, NaN)}`;
}

/** How long: "2 min 30 s", "350 ms". */
export function spanText(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(2))} s`;
  return duration(Math.round(seconds));
}

/** As addresses write it: UTC, to the millisecond, so that it means the same everywhere. */
export function addressText(time) {
  return new Date(Math.round(time * 1_000)).toISOString().replace(".000Z", "Z");
}

/** What an address says: seconds since 1970, or a date and a time; without a zone, the reader's. NaN: neither. */
export function momentOf(text) {
  if (text === null || text === undefined) return NaN;
  const isDate = /^\d{4}-\d{2}-\d{2}T/.test(text);
  // The `+` of a zone is a blank to those who read addresses.
  const time = isDate ? Date.parse(text.replace(/ (?=\d{2}:?\d{2}$)/, "+")) / 1_000 : /^\d{1,12}(\.\d+)?$/.test(text) ? Number(text) : NaN;
  return time >= EARLIEST && time < LATEST ? time : NaN;
}
