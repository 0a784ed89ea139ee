// The signals of all nodes, summed up: how many nodes are in trouble, and which. Only signals with trouble are shown. It refuses to
// call a cluster well of which it knows nothing.

import { byName, fold } from "./hostlist.js";
import { element, visible } from "./element.js";
import { askHigh } from "./signal-ask.js";
import { Chips } from "./signal-chips.js";
import { SignalDetail, thresholdsOf } from "./signal-detail.js";
import { nowOf, segmentsOf } from "./signal-judge.js";
import { queryAddress, sinceText } from "./signal-past.js";
import { SIGNALS, signalOf } from "./signal-table.js";

/** How often all nodes are asked (s); more than FEW of them less often. */
const SECONDS = 15;
const SECONDS_OF_MANY = 60;
const FEW = 512;
/** Nodes of one signal that are followed: the worst ones. More than these are a disaster that one sees without names. */
const NODES_MAX = 256;
/** Values of a node that are kept: they span more than a state needs to begin. */
const VALUES_KEPT = 12;
/** Nodes that have a link of their own. */
const LINKS_MAX = 24;

export class ClusterSignals {
  /** `view`: the view of all nodes. */
  constructor(root, view) {
    Object.assign(this, { root, view });
    this.signal = view.ended.signal;
    this.words = element("span", { classes: "signal-words", role: "status", text: "What is wrong: asking…" });
    const line = element("div", { classes: "signal-line" }, this.words);
    this.chips = new Chips(line, "Signals of all nodes", SIGNALS, { open: (id) => this.toggle(id) });
    this.detail = new SignalDetail({ close: () => this.close(), panel: () => {} });
    root.append(line, this.detail.root);
    /** Values of the nodes that were in trouble lately: by signal, by node. */
    this.values = new Map(SIGNALS.map(({ id }) => [id, new Map()]));
    this.troubles = new Map();
    this.opened = "";
    for (const { id } of SIGNALS) this.chips.hide(id, true);
    this.signal.addEventListener("abort", () => this.end());
    document.addEventListener("visibilitychange", () => this.round(), { signal: this.signal });
    this.round();
  }

  end() {
    clearTimeout(this.timer);
    this.root.replaceChildren();
  }

  async round() {
    clearTimeout(this.timer);
    if (document.hidden || this.isAsking) return;
    this.isAsking = true;
    const seconds = this.view.nodes.names.length > FEW ? SECONDS_OF_MANY : SECONDS;
    try {
      // What is below the threshold at which a state ends is ok, whatever it was before.
      const { values, now } = await askHigh(SIGNALS, "", NODES_MAX, this.signal);
      for (const signal of SIGNALS) this.take(signal, values.get(signal.id), now, seconds);
      this.show(now);
    } catch (error) {
      if (this.signal.aborted) return;
      this.forget(error.message);
    } finally {
      this.isAsking = false;
    }
    this.timer = setTimeout(() => this.round(), 1_000 * seconds);
  }

  /** Notes the values of one signal, and judges each node by what it had lately. */
  take(signal, high, now, step) {
    const known = this.values.get(signal.id);
    for (const [node, value] of high) {
      if (!known.has(node)) known.set(node, []);
      known.get(node).push([now, value]);
    }
    const nodes = [];
    for (const [node, samples] of known) {
      if (!high.has(node)) samples.push([now, 0]);
      if (samples.length > VALUES_KEPT) samples.shift();
      const state = nowOf(segmentsOf(samples, signal, step, now));
      if (samples.every(([, value]) => value === 0)) known.delete(node);
      if (state.state === "warning" || state.state === "bad") nodes.push({ node, ...state, value: samples.at(-1)[1] });
    }
    nodes.sort((a, b) => (a.state === b.state ? b.value - a.value || byName(a.node, b.node) : a.state === "bad" ? -1 : 1));
    this.troubles.set(signal.id, { nodes, isCut: high.size >= NODES_MAX });
  }

  show(now) {
    this.now = now;
    const all = new Set();
    for (const signal of SIGNALS) {
      const { nodes, isCut } = this.troubles.get(signal.id);
      for (const { node } of nodes) all.add(node);
      this.chips.hide(signal.id, nodes.length === 0);
      if (nodes.length === 0) continue;
      const bad = nodes.filter(({ state }) => state === "bad").length;
      const counts = [bad && `${bad}${isCut ? "+" : ""} bad`, nodes.length - bad && `${nodes.length - bad}${isCut ? "+" : ""} warning`].filter((part) => part).join(", ");
      this.chips.show(signal.id, bad ? "bad" : "warning", counts, `${counts}, worst ${nodes[0].node} with ${signal.format(nodes[0].value)}`);
    }
    const nodes = all.size === 1 ? "1 node" : `${all.size.toLocaleString("en")} nodes`;
    this.say(all.size === 0 ? "Of twelve signals, none shows trouble on a node that is up." : `Trouble on ${nodes}:`);
    if (this.opened) this.showDetail();
  }

  /** Nobody knows any more. */
  forget(why) {
    for (const { id } of SIGNALS) {
      this.values.get(id).clear();
      this.troubles.delete(id);
      this.chips.hide(id, true);
    }
    this.close(false);
    this.say(`What is wrong is not known: ${why}`);
  }

  say(text) {
    const shown = visible(text);
    if (this.words.textContent !== shown) this.words.textContent = shown;
  }

  toggle(id) {
    if (this.opened === id) return this.close();
    this.opened = id;
    this.chips.open(id);
    this.showDetail();
  }

  showDetail() {
    const signal = signalOf(this.opened);
    const { nodes } = this.troubles.get(signal.id);
    if (nodes.length === 0) return this.close(false);
    const links = nodes.slice(0, LINKS_MAX).flatMap(({ node, value, since, isFirst }, at) => [
      at ? " · " : "",
      { href: `#node=${encodeURIComponent(node)}`, text: `${node} ${signal.format(value)}` },
      isFirst ? "" : ` ${sinceText({ since }, this.now)}`,
    ]);
    const of = (state) => fold(nodes.filter((one) => one.state === state).map(({ node }) => node));
    const facts = [
      ["Worst nodes", links],
      ["Bad", of("bad")],
      ["Warning", of("warning")],
      ["Thresholds", thresholdsOf(signal)],
    ];
    this.detail.show(signal, nodes[0].state, `worst ${signal.format(nodes[0].value)}`, facts, [], queryAddress(signal, "", 600));
  }

  close(hasFocus = true) {
    const { opened } = this;
    this.opened = "";
    this.chips.open("");
    this.detail.hide();
    if (hasFocus) this.chips.focus(opened);
  }
}
