// The view of one node: joins the line to the server, the board and the controls. Its past comes when the present is shown, or
// when somebody wants it. It refuses to do anything itself.

import { Board } from "./board.js";
import { Clock } from "./clock.js";
import { Controls } from "./controls.js";
import { PATTERNS } from "./first-rows.js";
import { Frames } from "./frames.js";
import { Heading } from "./heading.js";
import { addressText, momentOf } from "./moment.js";
import { NodeNumbers } from "./node-numbers.js";
import { Pointer } from "./pointer.js";
import { Line } from "./stream.js";
import { Table } from "./table.js";
import { TimeWindow } from "./time-window.js";
import { WINDOWS } from "./track.js";

/** Screen-reader texts and hidden panels are brought up to date this often. */
const TIDY_MS = 2_000;

export class NodeView {
  /**
   * `node`: its name, or null for the only one there is; `asked`: what the address asks for. `on` hears name(name), state(state, reason),
   * notice(text), address(hash), and step(hash): an address that one can go back from. past() loads the module
   * of the past, more() that of what else the page has; null if that fails. seen(): the first picture is there. nodes(): the
   * server's answer about its nodes, if it has just come.
   */
  constructor(node, asked, on) {
    this.node = node;
    this.on = on;
    this.ended = new AbortController();
    this.clock = new Clock();
    this.tier = 1;
    this.edge = NaN;
    this.frozen = NaN;
    this.tidyAt = -Infinity;
    /** The past, once it is loaded. */
    this.past = null;
    /** What else comes after the first picture: a NodeMore. */
    this.more = null;
    this.panelOf = new WeakMap();
    this.observe();
    this.numbers = new NodeNumbers(this);
    this.pointer = new Pointer(() => this.numbers.write());
    this.time = new TimeWindow(
      () => this.liveWindow(),
      (how) => this.setWindow(how),
    );
    this.board = new Board(document.querySelector("#board"), (panel) => this.addPanel(panel));
    this.heading = new Heading(document, this.board);
    this.line = new Line(PATTERNS, node, this.listener(), node ? null : on.nodes());
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
    this.line.span = WINDOWS[this.tier].span;
    this.line.start();
    this.frames = new Frames((now) => this.draw(now), this.ended.signal);
  }

  /** Shows the time that an address asks for. */
  ask(asked) {
    this.asked = asked;
    this.past?.ask(asked);
    this.more?.ask(asked);
    let [from, to] = ["from", "to"].map((name) => momentOf(asked.get(name)));
    // The past says so.
    if (from > to) [from, to] = [to, from];
    if (Number.isNaN(from) && Number.isNaN(to)) return this.time.goLive("given");
    const { span } = WINDOWS[this.tier];
    const end = Number.isNaN(to) ? this.liveWindow().to : to;
    this.time.show(Number.isNaN(from) ? end - span : from, end, "given");
  }

  /** Takes everything back: another view follows. */
  close() {
    this.ended.abort();
    this.line.end();
    this.past?.close();
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
        this.past?.start();
        this.more?.bind(this.board.table);
        this.showMore();
      },
      rows: (rows, from, lost) => this.takeRows(rows, from, lost),
      clockSetBack: () => this.forget(),
      notice: this.on.notice,
      state: (state, reason) => {
        this.on.state(state, reason);
        this.isDown = state === "down";
        if (this.isDown) this.askPastColumns();
        // Without a present there may still be a past.
        if (this.isDown || state === "waiting") this.openPast();
      },
    };
  }

  /** Loads the past, once; resolves when it is here. */
  openPast() {
    return (this.opening ??= this.loadPast());
  }

  async loadPast() {
    const module = await this.on.past();
    if (!module || this.ended.signal.aborted) return;
    this.past = new module.NodePast(this.node, this.board, this.time, this.ended.signal, {
      hold: (isHeld) => (this.frozen = isHeld ? this.edge : NaN),
      settled: () => this.writeAddress(true),
      live: () => this.goLive(),
      changed: () => this.numbers.refresh(),
      notice: this.on.notice,
      edge: () => this.edge,
      now: () => this.liveWindow().to,
      panels: () => this.shownOnes(),
      focus: () => (Number.isNaN(this.pointer.share) ? 0.5 : this.pointer.share),
      isPaused: () => this.controls.paused,
    });
    this.past.ask(this.asked);
    if (this.board.table) this.past.start();
    if (this.isDown) this.askPastColumns();
    this.past.enter();
    this.past.show();
    this.writeAddress();
    this.showMore();
  }

  /** A node that sends nothing may still have a past. */
  async askPastColumns() {
    await this.past?.askColumns(this.line.patterns);
    this.showMore();
  }

  /** The rest of the page follows the past, and needs to know what the node has. */
  showMore() {
    if (this.past && this.board.table) this.loadMore();
  }

  /** Loads what the page has beyond its first picture, once; resolves when it is here. Its panels share the hands of the past. */
  loadMore() {
    const load = async () => {
      await this.openPast();
      const module = await this.on.more();
      if (!module || this.ended.signal.aborted) return;
      this.more = new module.NodeMore(this, this.asked);
      this.writeAddress();
    };
    return (this.moreLoads ??= load());
  }

  /** Adds a panel of one's own. */
  addOwn(spec) {
    this.loadMore().then(() => this.more?.addPanel(spec));
    return true;
  }

  takeRows(rows, from, lost) {
    const { board, clock, heading } = this;
    const isFirst = Number.isNaN(board.offset);
    board.take(rows, from);
    // What there is of the past depends on what time it is.
    if (isFirst && this.time.past) this.past?.renew();
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
    this.past?.attach(panel);
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
    // The paper has another width: a plot that went on would be empty there.
    if (this.isOnPaper) return false;
    this.edge = Number.isNaN(this.frozen) ? this.clock.edge(now) : this.frozen;
    this.past?.overview.draw(this.liveWindow().to, now);
    if (Number.isNaN(this.edge) && !this.time.past) return false;
    this.numbers.writeAt(now);
    if (now - this.tidyAt >= TIDY_MS) this.tidy(now);
    let drawn = this.more?.draw(now) ?? false;
    if (this.time.past) drawn = this.past?.draw() || drawn;
    else for (const panel of this.shownOnes()) if (panel.picture.draw(this.edge, this.tier, now)) drawn = true;
    // What is shown now comes first. On a small screen all plots may be below its edge.
    if (!this.isSeen && (drawn || this.shownOnes().length === 0)) {
      this.isSeen = true;
      this.on.seen();
      this.openPast();
    }
    return drawn;
  }

  shownOnes() {
    return this.board.panels.filter((panel) => panel.shown && !panel.root.hidden);
  }

  tidy(now) {
    this.tidyAt = now;
    this.board.tidy();
    this.more?.tidy();
    this.numbers.describe();
    // What failed is asked for again after a while.
    if (this.time.past) this.past?.renew();
  }

  /** The length of the window: of the live one, or of the past one that is shown, which keeps its end. */
  chooseTier(tier) {
    this.tier = tier;
    const { past } = this.time;
    if (past) this.time.show(past.to - WINDOWS[tier].span, past.to);
    else this.showWindow();
    // Over a slow line only what is shown was fetched.
    const { span } = WINDOWS[tier];
    if (!(this.board.time - this.board.oldest >= span) && this.line.reachTo(span)) this.forget();
  }

  /** The rows begin once more. */
  forget() {
    this.board.forget();
    this.clock.offset = NaN;
  }

  /** Another window is chosen. */
  setWindow(how) {
    this.openPast();
    this.past?.enter();
    this.showWindow();
    if (how === "step") this.writeAddress(true);
  }

  showWindow() {
    document.body.toggleAttribute("data-past", this.time.past !== null);
    if (this.past?.show() === false) this.repaint();
    this.numbers.refresh();
  }

  /** Writes into the address what is shown, as a step that one can go back from, or in place of what is there. */
  writeAddress(isStep = false) {
    const { past } = this.time;
    // What it is compared with is known when the past is here.
    if (past && !this.past) return;
    const hash = past ? this.linkTo(past.from, past.to).split("#")[1] : `${this.hash}${this.moreAddress}`;
    if (isStep && location.hash.slice(1) !== hash) this.on.step(hash);
    else this.on.address(hash);
  }

  /** A link to this time of this node. */
  linkTo(from, to) {
    const compared = this.past?.address() ?? "";
    return `${location.href.split("#")[0]}#${this.hash}&from=${addressText(from)}&to=${addressText(to)}${compared}${this.moreAddress}`;
  }

  /** What the address keeps of the rest of the page, also while that is not here yet. */
  get moreAddress() {
    return this.more?.address ?? keptOf(this.asked);
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

  /** Colours have changed. */
  repaint() {
    for (const panel of this.board.panels) panel.picture.refresh();
    this.past?.repaint();
    this.more?.repaint();
  }
}

/** What an address says to the parts that come later. */
function keptOf(asked) {
  return ["top", "p"].flatMap((name) => asked.getAll(name).map((value) => `&${name}=${encodeURIComponent(value)}`)).join("");
}
