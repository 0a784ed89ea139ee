// The view of one node: joins the line to the server, the board and the controls. It refuses to do anything itself.

import { askLines } from "./ask.js";
import { Board, PATTERNS } from "./board.js";
import { Clock } from "./clock.js";
import { Controls } from "./controls.js";
import { Frames } from "./frames.js";
import { Heading } from "./heading.js";
import { addressText, exactText, momentOf, spanText } from "./moment.js";
import { Overview } from "./overview.js";
import { PastRows, PastTable } from "./past-rows.js";
import { PastView } from "./past-view.js";
import { Pointer } from "./pointer.js";
import { Line } from "./stream.js";
import { Table } from "./table.js";
import { COMPARED, TimeBar } from "./time-bar.js";
import { TimeHands } from "./time-hands.js";
import { TimeWindow } from "./time-window.js";
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
   * name(name), state(state, reason), notice(text), address(hash), and step(hash): an address that one can go back from.
   */
  constructor(node, asked, on) {
    this.on = on;
    this.node = node;
    this.asked = asked;
    /** What comes after the first picture: a NodeMore. */
    this.more = null;
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
    this.time = new TimeWindow(
      () => this.liveWindow(),
      (how) => this.setWindow(how),
    );
    this.hands = new TimeHands(this.time, this.ended.signal, {
      hold: (isHeld) => (this.frozen = isHeld ? this.edge : NaN),
      settled: () => this.writeAddress(true),
      focus: () => (Number.isNaN(this.pointer.share) ? 0.5 : this.pointer.share),
      live: () => this.goLive(),
      keys: () => this.bar.showKeys(),
    });
    this.board = new Board(document.querySelector("#board"), (panel) => this.addPanel(panel));
    this.heading = new Heading(document, this.board);
    this.pastView = new PastView(this.board, node, () => (this.isBarOld = true));
    this.bar = new TimeBar(document, this.time, this.ended.signal, { live: () => this.goLive(), compare: (name) => this.compare(name) });
    this.isBarOld = false;
    this.overview = new Overview(document.querySelector("#overview"), node, this.time, this.ended.signal, {
      settled: () => this.writeAddress(true),
      begins: (time) => this.takeBeginning(time),
      isPaused: () => this.controls.paused,
    });
    this.line = new Line(PATTERNS, node, this.listener());
    this.controls = new Controls(document, node, asked, this.ended.signal, {
      rate: (rate) => {
        this.heading.restart();
        this.line.setRate(rate);
      },
      tier: (tier) => this.chooseTier(tier),
      pause: (paused) => this.setPaused(paused),
      address: (hash) => {
        this.hash = hash;
        if (this.isReady) this.writeAddress();
      },
    });
    this.tier = this.controls.tier;
    this.ask(asked);
    this.isReady = true;
    this.writeAddress();
    this.showWindow();
    this.line.rate = this.controls.rate;
    this.line.start();
    this.frames = new Frames((now) => this.draw(now), this.ended.signal);
  }

  /** Shows the time that an address asks for. */
  ask(asked) {
    this.asked = asked;
    this.more?.ask(asked);
    const compared = asked.get("compare");
    this.bar.compared.value = this.compared = Object.hasOwn(COMPARED, compared ?? "") ? compared : "";
    const [from, to] = ["from", "to"].map((name) => momentOf(asked.get(name)));
    if (Number.isNaN(from) && Number.isNaN(to)) return this.time.goLive("given");
    const { span } = WINDOWS[this.tier];
    const end = Number.isNaN(to) ? this.liveWindow().to : to;
    this.time.show(Number.isNaN(from) ? end - span : from, end, "given");
  }

  /** Takes everything back: another view follows. */
  close() {
    this.ended.abort();
    this.line.end();
    this.pastView.close();
    this.bar.close();
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
        this.more?.bind(this.board.table);
        this.loadMore();
        if (granted) this.heading.granted = Number((1 / period).toPrecision(3));
        this.heading.asked = this.line.rate;
        this.heading.restart();
        this.tidyAt = -Infinity;
        this.overview.start();
      },
      rows: (rows, from, lost) => this.takeRows(rows, from, lost),
      clockSetBack: () => {
        this.board.forget();
        this.clock.offset = NaN;
      },
      notice: this.on.notice,
      state: (state, reason) => {
        this.on.state(state, reason);
        if (state === "down" && !this.board.table) this.askColumns();
      },
    };
  }

  /** A node that sends nothing may still have a past: its columns come from there. */
  async askColumns() {
    if (this.hasAsked) return;
    this.hasAsked = true;
    const query = new URLSearchParams(this.line.patterns.map((pattern) => ["match", pattern]));
    query.append("newest", "1");
    query.append("from", "0");
    try {
      const table = PastTable.newest(new PastRows(await askLines(`khz/v1/range?${query}`, this.ended.signal)));
      if (this.board.table || table.columns.length === 0) return;
      this.board.bindPast(table);
      this.overview.start();
      this.loadMore();
    } catch {
      // Then nothing is known of it: its state says why.
    }
  }

  /** What the page has beyond its first picture; resolves when it is here. */
  loadMore() {
    const load = async () => {
      const { NodeMore } = await import("./node-more.js");
      if (this.ended.signal.aborted) return;
      this.more = new NodeMore(this, this.asked);
      this.writeAddress();
    };
    this.moreLoads ??= load().catch((error) => this.on.notice(`A part of this page cannot be loaded: ${error.message}. Reload the page.`));
    return this.moreLoads;
  }

  /** Adds a panel of one's own. */
  addOwn(spec) {
    this.loadMore().then(() => this.more?.addPanel(spec));
    return true;
  }

  /** When the past begins. */
  takeBeginning(time) {
    if (this.pastView.past.beginning === time) return;
    this.bar.beginning = this.pastView.past.beginning = time;
    this.pastView.version++;
    this.isBarOld = true;
  }

  takeRows(rows, from, lost) {
    const { board, clock, heading } = this;
    const isFirst = Number.isNaN(board.offset);
    board.take(rows, from);
    // What there is of the past depends on what time it is.
    if (isFirst && this.time.past) this.pastView.version++;
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
    this.hands.attach(panel);
  }

  dropPanel(panel) {
    this.shownPanels.unobserve(panel.root);
    this.resized.unobserve(panel.frame);
  }

  /** What the plots show while nothing of the past is shown, in seconds since 1970. */
  liveWindow() {
    const edge = Number.isNaN(this.frozen) ? this.edge : this.frozen;
    const to = edge + this.board.offset;
    const end = Number.isNaN(to) ? Date.now() / 1_000 : to;
    return { from: end - WINDOWS[this.tier].span, to: end };
  }

  draw(now) {
    this.edge = Number.isNaN(this.frozen) ? this.clock.edge(now) : this.frozen;
    this.overview.draw(this.liveWindow().to, now);
    if (Number.isNaN(this.edge) && !this.time.past) return false;
    if (now - this.numbersAt >= NUMBERS_MS) this.writeNumbers(now);
    if (now - this.tidyAt >= TIDY_MS) this.tidy(now);
    let drawn = this.more?.draw(now) ?? false;
    if (this.time.past) return this.drawPast() || drawn;
    for (const panel of this.shownOnes()) if (panel.picture.draw(this.edge, this.tier, now)) drawn = true;
    return drawn;
  }

  drawPast() {
    const now = this.liveWindow().to;
    let drawn = false;
    for (const panel of this.shownOnes()) {
      const picture = this.pastView.picture(panel, now);
      if (!panel.picture.drawPast(picture)) continue;
      drawn = this.isBarOld = true;
      this.numbersAt = -Infinity;
      panel.axis.show(picture.marks);
      panel.say(wordsOf(picture));
    }
    this.pastView.settle();
    if (this.isBarOld) this.showBar();
    return drawn;
  }

  shownOnes() {
    return this.board.panels.filter((panel) => panel.shown && !panel.root.hidden);
  }

  writeNumbers(now = performance.now()) {
    const { board, edge, pointer } = this;
    this.numbersAt = now;
    const since = edge - Math.max(STALE_PERIODS * board.period, STALE_SECONDS);
    this.heading.write(!(board.time < since));
    const { from, to } = this.time.shown;
    const pointed = from + pointer.share * (to - from);
    for (const panel of this.shownOnes()) {
      const reader = this.time.past ? this.pastReader(panel, pointed) : this.liveReader(pointed - board.offset, since);
      panel.write(reader.value);
      if (!this.time.past) panel.axis.showLive(WINDOWS[this.tier].span, to);
      pointer.mark(panel, () => this.pointedText(panel, reader, pointed, to));
    }
    this.more?.write(pointed);
  }

  /** How the numbers of the stream are read now; `pointed` is pointed at, NaN: nothing is. */
  reader(pointed) {
    const { board, edge } = this;
    return this.liveReader(pointed - board.offset, edge - Math.max(STALE_PERIODS * board.period, STALE_SECONDS));
  }

  /** How the legend reads a live track: at a time, or, where that is NaN, what is known now. */
  liveReader(time, since) {
    if (!Number.isNaN(this.pointer.share)) {
      return { value: (track) => track.at(this.tier, time), range: (track) => track.rangeAt(this.tier, time) };
    }
    return { value: (track, gauge) => newest(track, gauge, since), range: () => null };
  }

  /** The same of a window of the past: at a time, or the mean of the window. */
  pastReader(panel, time) {
    const picture = this.pastView.pictures.get(panel);
    const of = (track) => picture?.trackOf(track);
    if (Number.isNaN(time)) return { value: (track) => of(track)?.average() ?? NaN, range: () => null };
    const beforeOf = picture?.beforeOf;
    return {
      value: (track) => of(track)?.at(time) ?? NaN,
      range: (track) => of(track)?.rangeAt(time) ?? null,
      before: beforeOf && ((track) => beforeOf(track)?.at(time - this.pastView.back) ?? NaN),
    };
  }

  /** The words beside the pointer. */
  pointedText(panel, { value, range, before }, time, to) {
    const { from } = this.time.shown;
    const span = to - from;
    const words = panel.describeAt(value, this.pointer.height);
    const clock = Number.isNaN(time) ? "" : exactText(time, span, this.liveWindow().to);
    const back = this.time.past ? this.liveWindow().to - time : to - time;
    const ago = this.time.past && back >= 120 ? `−${spanText(back)}` : `−${(back).toFixed(span <= 10 ? 2 : 1)} s`;
    const lines = before ? panel.describeBefore(value, before) : [];
    return [[words, clock, ago].filter((part) => part).join(" · "), ...panel.describeRanges(range), ...lines].join("\n");
  }

  tidy(now) {
    this.tidyAt = now;
    this.board.tidy();
    this.more?.tidy();
    const { from, to } = this.time.shown;
    const since = this.edge - Math.max(STALE_PERIODS * this.board.period, STALE_SECONDS);
    for (const panel of this.shownOnes()) {
      panel.describe((this.time.past ? this.pastReader(panel, from + this.pointer.share * (to - from)) : this.liveReader(NaN, since)).value);
    }
    // What failed is asked for again after a while.
    if (this.time.past) this.pastView.version++;
  }

  /** The length of the window: of the live one, or of the past one that is shown, which keeps its end. */
  chooseTier(tier) {
    this.tier = tier;
    const { past } = this.time;
    if (past) this.time.show(past.to - WINDOWS[tier].span, past.to);
    else this.showWindow();
  }

  /** Another window is chosen. */
  setWindow(how) {
    if (this.time.past && !this.pastView.window) this.pastView.enter(this.edge);
    this.showWindow();
    if (how === "step") this.writeAddress(true);
  }

  showWindow() {
    const { past } = this.time;
    const wasPast = this.pastView.window !== null;
    document.body.toggleAttribute("data-past", past !== null);
    if (past) {
      this.pastView.show(past);
      this.pastView.compare(this.compared ? COMPARED[this.compared].back || past.to - past.from : 0);
    } else if (wasPast) {
      this.pastView.leave();
      for (const panel of this.board.panels) panel.say("");
      this.repaint();
    }
    this.numbersAt = -Infinity;
    this.showBar();
  }

  /** Compares the window with a time before it. */
  compare(name) {
    this.compared = name;
    const { from, to } = this.time.shown;
    if (!this.time.past && name) this.time.show(from, to);
    else if (this.time.past) {
      this.showWindow();
      this.writeAddress(true);
    }
  }

  showBar() {
    this.isBarOld = false;
    const pictures = this.time.past ? this.shownOnes().map((panel) => this.pastView.pictures.get(panel)).filter((picture) => picture) : [];
    this.bar.show(pictures, this.liveWindow().to);
  }

  /** Writes into the address what is shown, as a step that one can go back from, or in place of what is there. */
  writeAddress(isStep = false) {
    const { past } = this.time;
    const window = past ? `&from=${addressText(past.from)}&to=${addressText(past.to)}${this.compared ? `&compare=${this.compared}` : ""}` : "";
    const hash = `${this.hash}${window}${this.more?.address ?? keptOf(this.asked)}`;
    if (isStep && location.hash.slice(1) !== hash) this.on.step(hash);
    else this.on.address(hash);
  }

  /** Now again. */
  goLive() {
    if (this.controls.paused) return this.controls.setPaused(false);
    this.time.goLive();
  }

  /** A paused page shows what it showed, and takes no rows. */
  setPaused(paused) {
    if (paused) {
      const { from, to } = this.time.shown;
      this.line.pause();
      if (!this.time.past) this.time.show(from, to);
    } else {
      this.line.start();
      this.time.goLive();
    }
  }

  /** What is shown of the past: for tests. */
  timeForTests() {
    const { past, trail, shown } = this.time;
    const { fetched, aborted, bytes, inFlight } = this.pastView.past;
    const pictures = this.shownOnes().map((panel) => [panel.title, this.pastView.pictures.get(panel)]).filter(([, picture]) => picture);
    const isLoading = pictures.some(([, picture]) => picture.isLoading);
    const panels = Object.fromEntries(pictures.map(([title, { id, isEmpty, pointSeconds, why, highest, beforeOf }]) => [title, { id, isEmpty, pointSeconds, why, highest, isCompared: Boolean(beforeOf) }]));
    return { isPast: past !== null, ...shown, steps: trail.length, isLoading, fetched, aborted, bytes, inFlight, panels };
  }

  /** Colours have changed. */
  repaint() {
    for (const panel of this.board.panels) panel.picture.refresh();
    this.overview.repaint();
    this.more?.repaint();
  }
}

/** What an address says to parts that are not here yet. */
function keptOf(asked) {
  return ["top", "p"].flatMap((name) => asked.getAll(name).map((value) => `&${name}=${encodeURIComponent(value)}`)).join("");
}

/** A rate of the last millisecond nobody can read; a gauge is what it is now. Before `since` nothing is known any more. */
function newest(track, gauge, since) {
  if (track.lastTime < since - (track.slack ?? 0)) return NaN;
  return gauge ? track.last : track.recent();
}

/** What stands over a picture that shows nothing. */
function wordsOf({ isEmpty, isLoading, why }) {
  if (!isEmpty) return "";
  return isLoading ? "loading…" : why ? "no answer" : "no data";
}
