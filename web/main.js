// The page: joins the line to the server, the board and the controls. It refuses to do anything itself.

import { Board, PATTERNS } from "./board.js";
import { Clock } from "./clock.js";
import { Controls } from "./controls.js";
import { Frames } from "./frames.js";
import { Heading } from "./heading.js";
import { Pointer } from "./pointer.js";
import { Line } from "./stream.js";
import { Table } from "./table.js";
import { readColours } from "./theme-colours.js";
import { WINDOWS } from "./track.js";

/** Numbers change this often: faster, nobody can read them. */
const NUMBERS_MS = 250;
/** A number is no longer what is now when so many rows, and seconds, passed without it. */
const STALE_PERIODS = 3;
const STALE_SECONDS = 2;
/** Screen-reader texts and hidden panels are brought up to date this often. */
const TIDY_MS = 2_000;

const clock = new Clock();
const shownPanels = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const panel = panelOf.get(entry.target);
      if (panel) panel.shown = entry.isIntersecting;
    }
  },
  { rootMargin: "60px" },
);
const resized = new ResizeObserver((entries) => {
  for (const entry of entries) panelOf.get(entry.target)?.picture.refresh();
});
const panelOf = new WeakMap();

let tier = 1;
let edge = NaN;
let frozen = NaN;
let numbersAt = -Infinity;
let tidyAt = -Infinity;

const pointer = new Pointer(() => {
  numbersAt = -Infinity;
  writeNumbers();
});

readColours();
const board = new Board(document.querySelector("#board"), addPanel);
const heading = new Heading(document, board);
const line = new Line(PATTERNS, {
  node: showNode,
  columns(columns, period, granted) {
    board.bind(new Table(columns), period);
    if (granted) heading.granted = Number((1 / period).toPrecision(3));
    heading.restart();
    tidyAt = -Infinity;
  },
  rows(rows, from, lost) {
    board.take(rows, from);
    const live = line.stream !== null;
    if (rows.length === 0) {
      heading.lost += lost;
      return;
    }
    // History is no measure of the network's speed: the clock is set by it but once.
    if (live || Number.isNaN(clock.offset)) clock.hear(board.time, performance.now());
    if (live) heading.count(rows.length, lost, board.time);
  },
  clockSetBack() {
    board.forget();
    clock.offset = NaN;
  },
  state: showState,
});
const controls = new Controls(document, {
  rate(rate) {
    heading.restart();
    line.setRate(rate);
  },
  tier: setTier,
  pause(paused) {
    frozen = paused ? edge : NaN;
    if (paused) line.pause();
    else line.start();
  },
  theme: applyTheme,
});
setTier(controls.tier);
line.rate = controls.rate;
line.start();
const frames = new Frames(draw);

/** For tests and the curious: counts, never a way in. */
window.khz = {
  get framesDrawn() { return frames.drawn; },
  get framesSeen() { return frames.seen; },
  get framesDropped() { return frames.dropped; },
  get frameMs() { return frames.frameMs; },
  get drawingMs() { return frames.busyMs; },
  get rows() { return heading.rows; },
  get lost() { return heading.lost; },
  get rate() { return controls.rate; },
  get rateReached() { return heading.reached; },
  get newest() { return board.time; },
  get oldest() { return board.oldest; },
  get state() { return document.querySelector("#state").dataset.state; },
  get panels() { return board.panels.map((p) => ({ title: p.title, hidden: p.root.hidden, last: p.series.map((s) => s.track.last) })); },
  resetFrames: () => frames.reset(),
};

function addPanel(panel) {
  panelOf.set(panel.root, panel);
  panelOf.set(panel.frame, panel);
  shownPanels.observe(panel.root);
  resized.observe(panel.frame);
  pointer.attach(panel);
  panel.setWindow(tier);
}

function draw(now) {
  edge = Number.isNaN(frozen) ? clock.edge(now) : frozen;
  if (Number.isNaN(edge)) return false;
  if (now - numbersAt >= NUMBERS_MS) writeNumbers(now);
  if (now - tidyAt >= TIDY_MS) tidy(now);
  let drawn = false;
  for (const panel of board.panels) {
    if (panel.shown && !panel.root.hidden && panel.picture.draw(edge, tier, now)) drawn = true;
  }
  return drawn;
}

function writeNumbers(now = performance.now()) {
  numbersAt = now;
  const since = edge - Math.max(STALE_PERIODS * board.period, STALE_SECONDS);
  heading.write(!(board.time < since));
  const { span } = WINDOWS[tier];
  const time = Number.isNaN(pointer.share) ? NaN : edge - (1 - pointer.share) * span;
  for (const panel of board.panels) {
    if (!panel.shown || panel.root.hidden) continue;
    panel.write(tier, time, since);
    pointer.mark(panel, span, panel === pointer.panel ? panel.describeAt(tier, time, pointer.height) : "");
  }
}

function tidy(now) {
  tidyAt = now;
  board.tidy();
  for (const panel of board.panels) if (panel.shown && !panel.root.hidden) panel.describe();
}

function setTier(chosen) {
  tier = chosen;
  for (const panel of board.panels) panel.setWindow(tier);
}

function applyTheme() {
  readColours();
  for (const panel of board.panels) panel.picture.refresh();
}

function showNode(name, { rate_max: rateMax }) {
  document.querySelector("#node").textContent = name ?? "no node";
  document.title = name ? `${name} · Kilohertz` : "Kilohertz";
  controls.setRateMax(parseFloat(rateMax));
}

function showState(state, reason = "") {
  const pill = document.querySelector("#state");
  pill.dataset.state = state;
  pill.textContent = { connecting: "connecting", live: "live", waiting: "reconnecting", paused: "paused" }[state];
  pill.title = reason;
  const notice = document.querySelector("#notice");
  notice.hidden = state !== "waiting";
  notice.textContent = state === "waiting" ? `No data: ${reason}. Trying again…` : "";
}
