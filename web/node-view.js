// The view of one node: joins the line to the server, the board and the controls. It refuses to do anything itself.

import { Board, PATTERNS } from "./board.js";
import { Clock } from "./clock.js";
import { Controls } from "./controls.js";
import { Frames } from "./frames.js";
import { Heading } from "./heading.js";
import { Pointer } from "./pointer.js";
import { Line } from "./stream.js";
import { Table } from "./table.js";
import { WINDOWS } from "./track.js";

/** Numbers change this often: faster, nobody can read them. */
const NUMBERS_MS = 250;
/** A number is no longer what is now when this many rows, and seconds, passed without it. */
const STALE_PERIODS = 3;
const STALE_SECONDS = 2;
/** Screen-reader texts and hidden panels are brought up to date this often. */
const TIDY_MS = 2_000;

export class NodeView {
  /**
   * `node`: its name, or null for the only one there is; `asked`: what the address asks for. `on` hears
   * name(name), state(state, reason), notice(text) and address(hash).
   */
  constructor(node, asked, on) {
    this.on = on;
    this.ended = new AbortController();
    this.clock = new Clock();
    this.tier = 1;
    this.edge = NaN;
    this.frozen = NaN;
    this.numbersAt = -Infinity;
    this.tidyAt = -Infinity;
    this.panelOf = new WeakMap();
    this.observe();
    this.pointer = new Pointer(() => {
      this.numbersAt = -Infinity;
      this.writeNumbers();
    });
    this.board = new Board(document.querySelector("#board"), (panel) => this.addPanel(panel));
    this.heading = new Heading(document, this.board);
    this.line = new Line(PATTERNS, node, this.listener());
    this.controls = new Controls(document, node, asked, this.ended.signal, {
      rate: (rate) => {
        this.heading.restart();
        this.line.setRate(rate);
      },
      tier: (tier) => this.setTier(tier),
      pause: (paused) => this.setPaused(paused),
      address: on.address,
    });
    this.setTier(this.controls.tier);
    this.line.rate = this.controls.rate;
    this.line.start();
    this.frames = new Frames((now) => this.draw(now), this.ended.signal);
  }

  /** Takes everything back: another view follows. */
  close() {
    this.ended.abort();
    this.line.end();
    this.shownPanels.disconnect();
    this.resized.disconnect();
    this.board.root.replaceChildren();
    this.heading.clear();
  }

  observe() {
    const { panelOf } = this;
    this.shownPanels = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const panel = panelOf.get(entry.target);
          if (panel) panel.shown = entry.isIntersecting;
        }
      },
      { rootMargin: "60px" },
    );
    this.resized = new ResizeObserver((entries) => {
      for (const entry of entries) panelOf.get(entry.target)?.picture.refresh();
    });
  }

  listener() {
    return {
      node: (name, { rate_max: rateMax }) => {
        this.on.name(name);
        this.controls.setRateMax(parseFloat(rateMax));
      },
      columns: (columns, period, granted) => {
        this.board.bind(new Table(columns), period);
        if (granted) this.heading.granted = Number((1 / period).toPrecision(3));
        this.heading.asked = this.line.rate;
        this.heading.restart();
        this.tidyAt = -Infinity;
      },
      rows: (rows, from, lost) => this.takeRows(rows, from, lost),
      clockSetBack: () => {
        this.board.forget();
        this.clock.offset = NaN;
      },
      notice: this.on.notice,
      state: this.on.state,
    };
  }

  takeRows(rows, from, lost) {
    const { board, clock, heading } = this;
    board.take(rows, from);
    const live = this.line.stream !== null;
    if (rows.length === 0) {
      heading.lost += lost;
      return;
    }
    // History is no measure of the network's speed: the clock is set by it but once.
    if (live || Number.isNaN(clock.offset)) clock.hear(board.time, performance.now());
    if (live) heading.count(rows.length, lost, board.time);
  }

  addPanel(panel) {
    this.panelOf.set(panel.root, panel);
    this.panelOf.set(panel.frame, panel);
    this.shownPanels.observe(panel.root);
    this.resized.observe(panel.frame);
    this.pointer.attach(panel);
    panel.setWindow(this.tier);
  }

  draw(now) {
    this.edge = Number.isNaN(this.frozen) ? this.clock.edge(now) : this.frozen;
    if (Number.isNaN(this.edge)) return false;
    if (now - this.numbersAt >= NUMBERS_MS) this.writeNumbers(now);
    if (now - this.tidyAt >= TIDY_MS) this.tidy(now);
    let drawn = false;
    for (const panel of this.board.panels) {
      if (panel.shown && !panel.root.hidden && panel.picture.draw(this.edge, this.tier, now)) drawn = true;
    }
    return drawn;
  }

  writeNumbers(now = performance.now()) {
    const { board, edge, pointer, tier } = this;
    this.numbersAt = now;
    const since = edge - Math.max(STALE_PERIODS * board.period, STALE_SECONDS);
    this.heading.write(!(board.time < since));
    const { span } = WINDOWS[tier];
    const time = Number.isNaN(pointer.share) ? NaN : edge - (1 - pointer.share) * span;
    for (const panel of board.panels) {
      if (!panel.shown || panel.root.hidden) continue;
      panel.write(tier, time, since);
      pointer.mark(panel, span, panel === pointer.panel ? panel.describeAt(tier, time, pointer.height) : "");
    }
  }

  tidy(now) {
    this.tidyAt = now;
    this.board.tidy();
    for (const panel of this.board.panels) if (panel.shown && !panel.root.hidden) panel.describe();
  }

  setTier(chosen) {
    this.tier = chosen;
    for (const panel of this.board.panels) panel.setWindow(chosen);
  }

  setPaused(paused) {
    this.frozen = paused ? this.edge : NaN;
    if (paused) this.line.pause();
    else this.line.start();
  }

  /** Colours have changed. */
  repaint() {
    for (const panel of this.board.panels) panel.picture.refresh();
  }
}
