// The past of a node's page: the bar, the hands on the time, the overview, and the pictures of a window that is over. It joins
// them; it refuses to draw what comes now.

import { problemsOf } from "./address-problems.js";
import { askLines } from "./ask.js";
import { Overview } from "./overview.js";
import { PastRows, PastTable } from "./past-rows.js";
import { PastView } from "./past-view.js";
import { COMPARED, TimeBar } from "./time-bar.js";
import { TimeHands } from "./time-hands.js";

/** How long a postcard waits for pictures that are still loading, and how often it asks. */
const WHOLE_MS = 10_000;
const WHOLE_CHECK_MS = 100;

export class NodePast {
  /**
   * `node`: its name where there are several; `time`: the TimeWindow. `on` hears hold(bool): plots stand still; settled(): a movement has
   * ended; live(): somebody wants the present; changed(): numbers are old; notice(text). It tells edge(): the right edge of the live plots, now():
   * the node's time, panels(): those that are seen, focus(): the share of the width that keys zoom around, and isPaused().
   */
  constructor(node, board, time, signal, on) {
    this.board = board;
    this.time = time;
    this.signal = signal;
    this.on = on;
    this.isBarOld = true;
    /** With which time the window is compared; "": with none. */
    this.compared = "";
    this.view = new PastView(board, node, () => (this.isBarOld = true));
    this.bar = new TimeBar(document, time, signal, { live: on.live, compare: (name) => this.compare(name) });
    this.hands = new TimeHands(time, signal, { ...on, keys: () => this.bar.showKeys() });
    this.overview = new Overview(document.querySelector("#overview"), node, time, signal, {
      settled: on.settled,
      begins: (begin) => this.takeBeginning(begin),
      isPaused: on.isPaused,
    });
    for (const panel of board.panels) this.attach(panel);
  }

  attach(panel) {
    this.hands.attach(panel);
  }

  /** With what an address compares. */
  ask(asked) {
    const problems = problemsOf(asked, Object.keys(COMPARED));
    if (problems.length > 0) this.on.notice(problems.join(" "));
    const compared = asked.get("compare");
    this.bar.compared.value = this.compared = Object.hasOwn(COMPARED, compared ?? "") ? compared : "";
  }

  /** What the address keeps of the time. */
  address() {
    return this.compared ? `&compare=${this.compared}` : "";
  }

  /** The node has columns: there may be something to show of the past. */
  start() {
    this.overview.start();
  }

  /** A node that sends nothing may still have a past: its columns come from there. */
  async askColumns(patterns) {
    if (this.hasAsked || this.board.table) return;
    this.hasAsked = true;
    const query = new URLSearchParams(patterns.map((pattern) => ["match", pattern]));
    query.append("newest", "1");
    query.append("from", "0");
    try {
      const table = PastTable.newest(new PastRows(await askLines(`khz/v1/range?${query}`, this.signal)));
      if (this.board.table || table.columns.length === 0) return;
      this.board.bindPast(table);
      this.start();
    } catch {
      // Then nothing is known of it: its state says why.
    }
  }

  /** Another window is chosen. */
  enter() {
    if (this.time.past && !this.view.window) this.view.enter(this.on.edge());
  }

  /** Shows the chosen window; false: it is the present again, and the plots have to draw it. */
  show() {
    const { past } = this.time;
    const isOver = !past && this.view.window !== null;
    if (past) {
      this.view.show(past);
      this.view.compare(this.compared ? COMPARED[this.compared].back || past.to - past.from : 0);
    } else if (isOver) {
      this.view.leave();
      for (const panel of this.board.panels) panel.say("");
    }
    this.showBar();
    return !isOver;
  }

  /** Compares the window with a time before it. */
  compare(name) {
    this.compared = name;
    const { from, to } = this.time.shown;
    if (!this.time.past && name) this.time.show(from, to);
    else if (this.time.past) {
      this.show();
      this.on.changed();
      this.on.settled();
    }
  }

  /** Something is known of other times than before: what failed is asked for again. */
  renew() {
    this.view.version++;
  }

  /** When the past begins. */
  takeBeginning(begin) {
    const { past } = this.view;
    if (past.beginning === begin) return;
    this.bar.beginning = past.beginning = begin;
    this.renew();
    this.isBarOld = true;
  }

  /** Draws the window on the panels that are seen; true if something had to be drawn. */
  draw() {
    const now = this.on.now();
    let drawn = false;
    for (const panel of this.on.panels()) {
      const picture = this.view.picture(panel, now);
      if (!panel.picture.drawPast(picture)) continue;
      drawn = this.isBarOld = true;
      panel.axis.show(picture.marks);
      panel.say(wordsOf(picture));
    }
    this.view.settle();
    if (drawn) this.on.changed();
    if (this.isBarOld) this.showBar();
    return drawn;
  }

  /** The pictures of these panels when nothing of them is loading any more, or after a while. */
  async whole(panels) {
    const end = performance.now() + WHOLE_MS;
    for (;;) {
      const now = this.on.now();
      const pictures = new Map(panels.map((panel) => [panel, this.view.picture(panel, now)]));
      const isLoading = [...pictures.values()].some((picture) => picture.isLoading);
      if (!isLoading || performance.now() > end || this.signal.aborted) return pictures;
      await new Promise((done) => setTimeout(done, WHOLE_CHECK_MS));
    }
  }

  showBar() {
    this.isBarOld = false;
    const pictures = this.time.past ? this.on.panels().map((panel) => this.view.pictures.get(panel)).filter((picture) => picture) : [];
    this.bar.show(pictures, this.on.now());
  }

  /** How a legend reads a track: at a time, or, where that is NaN, the mean of the window. */
  reader(panel, time) {
    const picture = this.view.pictures.get(panel);
    const of = (track) => picture?.trackOf(track);
    if (Number.isNaN(time)) return { value: (track) => of(track)?.average() ?? NaN, range: () => null };
    const beforeOf = picture?.beforeOf;
    return {
      value: (track) => of(track)?.at(time) ?? NaN,
      range: (track) => of(track)?.rangeAt(time) ?? null,
      margin: (track) => of(track)?.marginAt(time) ?? 0,
      before: beforeOf && ((track) => beforeOf(track)?.at(time - this.view.back) ?? NaN),
    };
  }

  repaint() {
    this.overview.repaint();
  }

  close() {
    this.view.close();
    this.bar.close();
  }

  /** What is shown of the past: for tests. */
  forTests() {
    const { past, trail, shown } = this.time;
    const { fetched, aborted, bytes, inFlight } = this.view.past;
    const pictures = this.on.panels().map((panel) => [panel.title, this.view.pictures.get(panel)]).filter(([, picture]) => picture);
    const isLoading = pictures.some(([, picture]) => picture.isLoading);
    const panels = Object.fromEntries(pictures.map(([title, { id, isEmpty, pointSeconds, why, highest, beforeOf }]) => [title, { id, isEmpty, pointSeconds, why, highest, isCompared: Boolean(beforeOf) }]));
    return { isPast: past !== null, ...shown, steps: trail.length, isLoading, fetched, aborted, bytes, inFlight, panels };
  }
}

/** What stands over a picture that shows nothing. */
function wordsOf({ isEmpty, isLoading, why }) {
  if (!isEmpty) return "";
  return isLoading ? "loading…" : why ? "no answer" : "no data";
}
