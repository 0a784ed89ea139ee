// Events of a node as the server has them, in words, and as marks on a time axis: what is too dense for marks of its own becomes one with
// a count. It refuses to ask and to draw.

import { exactText, spanText } from "./moment.js";

/** Marks nearer than this (CSS pixels) become one. */
const NEAR_PIXELS = 22;
/** Events whose words one mark has. */
const WORDS_MAX = 8;

/** What each kind is, from the one that matters most: of several events in one mark it gives the sign. */
export const KINDS = {
  down: { rank: 0, sign: "M3 3 9 9 M9 3 3 9" },
  alert: { rank: 1, sign: "M6 1.5 11 10.5H1Z M6 4.5V7.5" },
  booted: { rank: 2, sign: "M6 1V6 M3 3A4.4 4.4 0 1 0 9 3" },
  restarted: { rank: 3, sign: "M10 3V6H7 M9.6 6A4 4 0 1 0 8.8 8.8" },
  missing: { rank: 4, sign: "M1.5 6H3 M5.3 6H6.7 M9 6H10.5" },
  boost: { rank: 5, sign: "M2 7 6 3 10 7 M2 10.5 6 6.5 10 10.5" },
};

/** The events of an answer of khz/v1/events, times as numbers; `until` is Infinity for what goes on. Kinds that this page does not know are left out. */
export function eventsOf({ events, left_out: leftOut, damage }) {
  const list = events.filter(({ kind }) => Object.hasOwn(KINDS, kind)).map((event) => ({ ...event, from: Number(event.t), until: event.until === null ? Infinity : Number(event.until) }));
  return { list, leftOut, damage };
}

/** "14:03:10 down for 2 min 30 s" */
export function wordsOf({ kind, from, until, earlier, text }, now) {
  const begin = `${exactText(from, 10, now)}${earlier ? " or earlier" : ""}`;
  const length = until === Infinity ? ", and goes on" : until > from ? `, for ${spanText(until - from)}` : "";
  const what = { alert: `alert ${text}`, boost: `boost ${text}` }[kind] ?? text;
  return `${begin}: ${what}${length}`;
}

/** Marks of the events from one time to another on an axis `width` CSS pixels wide: [{share, kind, events}], from left to right. */
export function marksOf(list, from, to, width) {
  const span = to - from;
  const marks = [];
  const seen = list.filter((event) => event.from <= to && event.until >= from);
  for (const event of seen) {
    // What began before the window has its mark at the edge.
    const share = Math.max(NEAR_PIXELS / 2 / width, (event.from - from) / span);
    const last = marks.at(-1);
    if (last && (share - last.last) * width < NEAR_PIXELS && (share - last.share) * width < 4 * NEAR_PIXELS) {
      last.events.push(event);
      last.last = share;
    } else marks.push({ share, last: share, events: [event] });
  }
  for (const mark of marks) {
    mark.share = (mark.share + mark.last) / 2;
    mark.kind = mark.events.reduce((worst, { kind }) => (KINDS[kind].rank < KINDS[worst].rank ? kind : worst), "boost");
  }
  return marks;
}

/** The words of all events of a mark. */
export function wordsOfMark({ events }, now) {
  const words = events.slice(0, WORDS_MAX).map((event) => wordsOf(event, now));
  const more = events.length - words.length;
  return [...words, ...(more > 0 ? [`and ${more} more: look closer`] : [])].join("\n");
}
