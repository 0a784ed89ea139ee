// The strip of signals of one node: how each is now, or how it was at its worst in the window that is shown. It asks while the page is
// seen, and again when another window is shown. It refuses to call ok what it does not know.

import { exactText } from "./moment.js";
import { instanceSelector, otherSelector } from "./signal-select.js";
import { askValues, BEFORE, stepOf } from "./signal-ask.js";
import { Chips, WORDS } from "./signal-chips.js";
import { SignalDetail, thresholdsOf } from "./signal-detail.js";
import { nowOf, segmentsOf, worstOf } from "./signal-judge.js";
import { beginOf, peersOf, queryAddress, sinceText } from "./signal-past.js";
import { SIGNALS, signalOf } from "./signal-table.js";
import { whyMissing } from "./signal-why.js";
import { duration } from "./units.js";
import { WindowWatch } from "./window-watch.js";

/** Values of now are this far apart (s), and asked for as often. */
const STEP = 5;
/** How far back values of now are kept (s), to see since when. */
const KEPT = 600;
/** How much is asked for again each time (s): rows may come late. */
const AGAIN = 60;
/** How often it is checked whether there is something to ask. */
const CHECK_MS = 500;
/** A window that moves is asked for when it has stood still for this long. */
const STILL_MS = 400;
/** Why there is no value, and how others are, is asked again after this. */
const SELDOM_MS = 30_000;

export class NodeSignals {
  /** `view`: the view of the node; `node`: its name where there are several; `groups`: those of the configuration. */
  constructor(root, view, node, groups) {
    Object.assign(this, { root, view, node });
    this.signal = view.ended.signal;
    this.only = instanceSelector(node);
    this.others = otherSelector(node, groups);
    this.chips = new Chips(root, "Signals of this node", SIGNALS, { open: (id) => this.toggle(id) });
    this.detail = new SignalDetail({ close: () => this.close(), panel: (title) => this.showPanel(title) });
    root.append(this.detail.root);
    /** Values of now, what they say, and why there are none: by signal. */
    this.values = new Map();
    this.states = new Map();
    this.why = new Map();
    this.whyAt = -Infinity;
    /** When a trouble began that is older than the values: by signal. */
    this.begins = new Map();
    this.peers = { id: "", text: "", at: -Infinity };
    this.opened = "";
    this.watch = new WindowWatch(STILL_MS, 1_000 * STEP);
    this.showAll("asking…");
    this.timer = setInterval(() => this.check(), CHECK_MS);
    this.signal.addEventListener("abort", () => this.end());
    this.check();
  }

  end() {
    clearInterval(this.timer);
    this.root.replaceChildren();
  }

  /** Asks if something is to be asked: nobody waits for an answer that nobody sees. */
  async check() {
    if (this.isAsking || document.hidden) return;
    const { past } = this.view.time;
    const window = past ? `${past.from}|${past.to}` : "now";
    if (!this.watch.isDue(window, past !== null, Boolean(this.problem))) return this.askPeers();
    this.isAsking = true;
    try {
      await (past ? this.askPast(past) : this.askNow());
      this.problem = "";
    } catch (error) {
      if (this.signal.aborted) return;
      this.problem = error.message;
      // Nothing is known any more.
      this.values.clear();
      this.showAll(error.message);
    } finally {
      this.isAsking = false;
    }
    this.watch.note(window);
  }

  async askNow() {
    const { to } = this.view.liveWindow();
    const end = Math.floor((to - 1) / STEP) * STEP;
    const start = this.values.size > 0 && this.until >= end - KEPT / 2 ? this.until - AGAIN : end - KEPT;
    const values = await askValues(SIGNALS, this.only, { start, end, step: STEP }, this.signal);
    for (const { id } of SIGNALS) {
      const before = (this.values.get(id) ?? []).filter(([time]) => time < start && time >= end - KEPT);
      this.values.set(id, [...before, ...(values.get(id) ?? [])]);
    }
    this.until = end;
    if (this.view.time.past) return;
    await this.askWhy(SIGNALS.filter(({ id }) => this.values.get(id).at(-1)?.[0] !== end));
    for (const signal of SIGNALS) this.judgeNow(signal, end);
    await this.askBegin(end);
  }

  judgeNow(signal, end) {
    const samples = this.values.get(signal.id);
    const segments = segmentsOf(samples, signal, STEP, end);
    const now = nowOf(segments);
    const isTrouble = now.state === "warning" || now.state === "bad";
    if (!isTrouble) this.begins.delete(signal.id);
    const begin = (now.isFirst && this.begins.get(signal.id)) || now;
    const why = now.state === "unknown" ? this.why.get(signal.id) : null;
    const state = this.view.line.isDown ? "unknown" : (why?.state ?? now.state);
    const value = state === "unknown" || state === "absent" ? NaN : samples.at(-1)[1];
    const reason = this.view.line.isDown ? "the node is down" : (why?.why ?? "");
    this.states.set(signal.id, { state, value, begin, isTrouble, levelSince: now.levelSince, why: reason, end });
    this.show(signal);
  }

  /** How each was at its worst in a window of the past. */
  async askPast({ from, to }) {
    const step = stepOf(to - from + BEFORE);
    const at = (time) => Math.floor(time / step) * step;
    const end = Math.min(at(to), at(this.view.liveWindow().to));
    const values = await askValues(SIGNALS, this.only, { start: at(from - BEFORE), end, step }, this.signal);
    await this.askWhy(SIGNALS.filter(({ id }) => !values.has(id)));
    for (const signal of SIGNALS) {
      const worst = worstOf(segmentsOf(values.get(signal.id) ?? [], signal, step, end), from, to);
      const isTrouble = worst.state === "warning" || worst.state === "bad";
      // What the node does not have now, it is not asked to have had then.
      const none = worst.state === "unknown" && this.why.get(signal.id)?.state === "absent" ? this.why.get(signal.id) : null;
      const why = none?.why ?? (worst.state === "unknown" ? "nothing is known of it in this window" : "");
      this.states.set(signal.id, { state: none?.state ?? worst.state, value: worst.highest, worst, isTrouble, why, end, from, to });
      this.show(signal);
    }
  }

  /** Asks why there are no values, seldom. */
  async askWhy(missing) {
    if (missing.length === 0 || (performance.now() - this.whyAt < SELDOM_MS && missing.every(({ id }) => this.why.has(id)))) return;
    this.why = await whyMissing(missing, this.node, this.signal);
    this.whyAt = performance.now();
  }

  /** Searches when one trouble began that is older than the values: one at a time. */
  async askBegin(end) {
    const signal = SIGNALS.find(({ id }) => this.states.get(id).isTrouble && this.states.get(id).begin.isFirst && !this.begins.has(id));
    if (!signal) return;
    const found = await beginOf(signal, this.only, end, this.signal);
    this.begins.set(signal.id, Number.isNaN(found.since) ? this.states.get(signal.id).begin : found);
    if (!this.view.time.past) this.judgeNow(signal, end);
  }

  /** How other nodes are, for the signal that is open. */
  async askPeers() {
    const signal = signalOf(this.opened);
    const state = this.states.get(this.opened);
    if (!this.others || !signal || !state?.isTrouble) return;
    const time = state.worst ? Math.min(state.worst.to, state.to) : state.end;
    const id = `${this.opened}|${state.worst ? time : "now"}`;
    if (this.peers.id === id && performance.now() - this.peers.at < SELDOM_MS) return;
    this.isAsking = true;
    let text;
    try {
      text = await peersOf(signal, this.others, time, this.signal);
    } catch (error) {
      text = `how other nodes are is not known: ${error.message}`;
    }
    this.isAsking = false;
    if (this.signal.aborted) return;
    this.peers = { id, text, at: performance.now() };
    this.show(signal);
  }

  /** All of them are unknown. */
  showAll(why) {
    for (const signal of SIGNALS) {
      this.states.set(signal.id, { state: "unknown", value: NaN, isTrouble: false, why });
      this.show(signal);
    }
  }

  show(signal) {
    const state = this.states.get(signal.id);
    const isKnown = Number.isFinite(state.value);
    const value = isKnown ? signal.format(state.value) : "";
    const since = this.sinceOf(state);
    // There is room for the larger part of it: "4 min".
    const age = state.isTrouble && !state.worst ? duration(Math.max(0, state.end - state.begin.since)).split(" ").slice(0, 2).join(" ") : "";
    const text = isKnown ? [value, age].filter((part) => part).join(" · ") : WORDS[state.state];
    const words = [WORDS[state.state], value, since, state.why].filter((part) => part).join(", ");
    this.chips.show(signal.id, state.state, text, words);
    if (this.opened === signal.id) this.showDetail(signal, state, value, since);
  }

  sinceOf({ begin, worst, isTrouble, end }) {
    if (!isTrouble) return "";
    if (!worst) return sinceText(begin, end);
    const [from, to] = [worst.from, worst.to].map((time) => exactText(time, 60, end));
    return `${worst.isFirst ? `before ${from}` : `from ${from}`} to ${to}`;
  }

  showDetail(signal, state, value, since) {
    const { worst } = state;
    const facts = [
      [worst ? "At its worst" : "Since when", state.isTrouble ? this.troubleText(signal, state, since) : ""],
      ["Why", state.why],
      ["Unknown for", worst?.unknown > 0 ? duration(worst.unknown) : ""],
      ["Thresholds", thresholdsOf(signal)],
    ];
    const panels = signal.panels.filter((title) => this.panelOf(title)).slice(0, 1);
    const span = worst ? state.to - state.from : KEPT;
    this.detail.show(signal, state.state, worst && value ? `highest ${value}` : value, facts, panels, queryAddress(signal, this.only, span));
  }

  /** "since 14:03:10; most of 62 other nodes have 3 to 7 %": what tells a trouble of this node from one of all nodes. */
  troubleText({ id }, { state, begin, levelSince, worst, end }, since) {
    const isWorse = !worst && levelSince > begin.since;
    const peers = this.peers.id.startsWith(`${id}|`) ? this.peers.text : this.others ? "other nodes: asking…" : "";
    return [since, isWorse ? `${WORDS[state]} ${sinceText({ since: levelSince }, end)}` : "", peers].filter((part) => part).join("; ");
  }

  toggle(id) {
    if (this.opened === id) return this.close();
    this.opened = id;
    this.chips.open(id);
    this.show(signalOf(id));
    this.askPeersSoon();
  }

  askPeersSoon() {
    if (!this.isAsking) this.askPeers();
  }

  close() {
    const { opened } = this;
    this.opened = "";
    this.chips.open("");
    this.detail.hide();
    this.chips.focus(opened);
  }

  panelOf(title) {
    return this.view.board.panels.find((panel) => panel.title === title && !panel.root.hidden);
  }

  showPanel(title) {
    const panel = this.panelOf(title);
    panel?.root.scrollIntoView({ block: "center" });
    panel?.frame.focus({ preventScroll: true });
  }
}
