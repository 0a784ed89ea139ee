// The view of the past: what panels show of a window that is over. It takes what the live tracks had when the window was chosen, and
// what the server has stored. It refuses to show anything of one node, or of one time, as that of another.

import { Past } from "./past.js";
import { PastTable } from "./past-rows.js";
import { PastTrack } from "./past-track.js";
import { Samples } from "./samples.js";
import { marksOf } from "./time-axis.js";
import { WINDOWS } from "./track.js";

/** Panels of more series are not kept from memory: the server has them. */
const KEPT_SERIES_MAX = 64;

export class PastView {
  /** `changed()` is called when something has come that a panel may show. */
  constructor(board, node, changed) {
    this.board = board;
    this.past = new Past(node, () => {
      this.version++;
      changed();
    });
    this.version = 0;
    this.window = null;
    this.pictures = new Map();
    /** Samples of each live track at each of its resolutions. */
    this.memory = new Map();
    this.edge = NaN;
    /** How long before the window the time is with which it is compared; 0: with none. */
    this.back = 0;
  }

  /** Compares with the time that long before; 0: with none. */
  compare(back) {
    if (back === this.back) return;
    this.back = back;
    this.pictures.clear();
    this.version++;
  }

  /** Remembers what the tracks have up to `edge`, the right edge of the plots. */
  enter(edge) {
    const { board } = this;
    this.edge = edge + board.offset;
    if (Number.isNaN(this.edge)) return;
    for (const panel of board.panels) {
      if (panel.tracks.length > KEPT_SERIES_MAX) continue;
      for (const track of panel.tracks) {
        if (!this.memory.has(track)) this.memory.set(track, WINDOWS.map(({ tier }) => remembered(track, tier, board.offset)));
      }
    }
  }

  /** Now is shown again: nothing of the past is needed. What was fetched stays for the next time. */
  leave() {
    this.window = null;
    this.memory.clear();
    this.pictures.clear();
    this.past.begin();
    this.past.sweep();
  }

  close() {
    this.leave();
    this.past.close();
  }

  /** Shows another window; panels are asked for as they are seen. */
  show(window) {
    this.window = window;
    this.version++;
    this.past.begin();
  }

  /** Nothing more is wanted of the windows before. */
  settle() {
    this.past.sweep();
  }

  /** What `panel` shows: {trackOf, beforeOf, marks, isLoading, why, isEmpty}; the same object while nothing has changed. */
  picture(panel, now) {
    const { window } = this;
    const known = this.pictures.get(panel);
    const width = panel.frame.clientWidth;
    if (known?.version === this.version && known.width === width) return known;
    const { feeds, ...need } = this.board.needOf(panel);
    const memory = this.fromMemory(panel, window);
    const got = memory?.isWhole ? FROM_MEMORY : this.past.ask(need, window.from, window.to, now);
    const other = this.back && !panel.heat ? this.past.ask(need, window.from - this.back, window.to - this.back, now) : FROM_MEMORY;
    const isLoading = got.isLoading || other.isLoading;
    const isSame = known?.window === window && known.width === width && known.isLoading === isLoading && known.why === got.why && known.id === got.id && known.before?.id === other.id;
    if (isSame) return Object.assign(known, { version: this.version });
    const samples = got.answers.length ? this.derived(known, got, feeds) : null;
    const before = { id: other.id, samples: other.answers.length ? this.derived(known?.before, other, feeds) : null };
    const beforeTracks = before.samples && tracksOf(before.samples, { from: window.from - this.back, to: window.to - this.back });
    const tracks = richer(memory?.tracks, samples && tracksOf(samples, window));
    const nothing = new PastTrack(window.from, window.to);
    const picture = {
      window,
      width,
      samples,
      id: got.id,
      version: this.version,
      before,
      beforeOf: beforeTracks && ((track) => beforeTracks.get(track)),
      isLoading,
      why: got.why,
      pointSeconds: got.answers.find(({ isPoints }) => isPoints)?.width ?? 0,
      isEmpty: panel.tracks.every((track) => tracks.get(track)?.isEmpty ?? true),
      highest: Math.max(...panel.series.map(({ track }) => tracks.get(track)?.extent() ?? 0)),
      marks: marksOf(window.from, window.to, width),
      trackOf: (track) => tracks.get(track) ?? nothing,
    };
    this.pictures.set(panel, picture);
    return picture;
  }

  /** What the tracks had of a window: at the finest resolution that goes back so far. */
  fromMemory(panel, { from, to }) {
    const reaching = WINDOWS.find(({ span }) => this.edge - span <= from);
    const { tier } = reaching ?? WINDOWS.at(-1);
    const kept = panel.tracks.map((track) => [track, this.memory.get(track)?.[tier]]).filter(([, samples]) => samples);
    if (kept.length === 0) return null;
    const tracks = tracksOf(new Map(kept), { from, to });
    const has = [...tracks.values()].some((track) => !track.isEmpty);
    return { tracks, isWhole: has && reaching !== undefined && to <= this.edge + WINDOWS[tier].step };
  }

  /** The samples that feeds make of answers; computed once for the same answers. */
  derived(known, got, feeds) {
    if (known?.samples && known.id === got.id) return known.samples;
    const samples = new Map();
    const again = feeds.map((feed) => {
      const twin = feed.again(() => new Samples());
      feed.tracks.forEach((track, i) => samples.set(track, twin.tracks[i]));
      return twin;
    });
    new PastTable(got.answers).feed(again);
    return samples;
  }
}

const FROM_MEMORY = { answers: [], id: "memory", isLoading: false, why: "" };

/** What a live track has at one of its resolutions, in seconds since 1970. */
function remembered(track, tier, offset) {
  const samples = new Samples();
  track.each(tier, (time, mean, low, high, broken) => {
    if (broken) samples.gap();
    samples.push(time + offset, mean, low, high);
  });
  if (track.broken) samples.gap();
  return samples;
}

function tracksOf(samples, { from, to }) {
  const tracks = new Map();
  for (const [track, list] of samples) {
    const past = new PastTrack(from, to);
    list.fill(past);
    tracks.set(track, past);
  }
  return tracks;
}

/** Of two pictures the one with more values. */
function richer(one, other) {
  const count = (tracks) => [...(tracks?.values() ?? [])].reduce((sum, track) => sum + track.given, 0);
  return (count(one) > count(other) ? one : other) ?? one ?? new Map();
}
