// The view of alerts: which rules have alerts, the worst and newest first, each with its alerts. It asks while somebody can see it,
// and says when nobody answers: what is old is not what is now. It refuses to judge.

import { momentText } from "./alert-detail.js";
import { listOf } from "./alert-list.js";
import { reconcile, RuleRow } from "./alert-rows.js";
import { askPrometheus } from "./ask.js";
import { element, visible } from "./element.js";

/** Pause between two questions; a server that needs long has a longer one. */
const REFRESH_MS = 10_000;
const TIMES_TAKEN = 20;
/** Lines of rules. */
const RULES_MAX = 200;
/** Alerts that are open at once: each has a plot. */
const OPEN_MAX = 6;
/** Lines about rules that fail and files that are refused. */
const NOTES_MAX = 10;

const count = (n, one, several) => `${n.toLocaleString("en")} ${n === 1 ? one : several}`;

export class AlertsView {
  /** `asked`: what the address asks for. `on` hears name(name), address(hash) and counts({rules, firing}), null: unknown. */
  constructor(root, asked, on) {
    this.root = root;
    this.on = on;
    this.ended = new AbortController();
    this.rows = new Map();
    this.open = [];
    /** asking, shown or failed. */
    this.state = "asking";
    this.list = null;
    document.addEventListener("visibilitychange", () => this.refresh(), { signal: this.ended.signal });
    on.name("Alerts");
    this.say("asking…");
    this.ask(asked);
  }

  close() {
    this.ended.abort();
    this.asking?.abort();
    clearTimeout(this.timer);
    for (const row of this.rows.values()) row.close();
    this.rows.clear();
    this.root.querySelector(".alerts-list").replaceChildren();
    for (const part of [".alerts-more", ".alerts-notes", ".alerts-problem", ".alerts-none"]) this.root.querySelector(part).replaceChildren();
  }

  /** Opens the rule, and the alert, that an address names. */
  ask(asked) {
    this.wanted = asked.get("alerts") || null;
    this.wantedNode = asked.get("instance");
    this.refresh();
  }

  async refresh() {
    clearTimeout(this.timer);
    this.asking?.abort();
    if (document.hidden || this.ended.signal.aborted) return;
    const asking = (this.asking = new AbortController());
    const begun = performance.now();
    try {
      const { answer, now } = await askPrometheus("api/v1/rules", null, asking.signal);
      if (asking.signal.aborted) return;
      this.take(answer, now);
    } catch (error) {
      if (asking.signal.aborted) return;
      this.fail(error);
    }
    this.timer = setTimeout(() => this.refresh(), REFRESH_MS + TIMES_TAKEN * (performance.now() - begun));
  }

  take({ data, warnings = [] }, now) {
    const list = listOf(data);
    Object.assign(this, { list, now, state: "shown" });
    this.on.counts({ rules: list.count, firing: list.firing });
    const shown = list.rules.slice(0, RULES_MAX);
    reconcile(this.root.querySelector(".alerts-list"), this.rows, shown, () => this.row());
    for (const rule of shown) this.rows.get(rule.key).update(rule, now);
    this.root.classList.remove("old");
    this.write(list, warnings, list.rules.length - shown.length);
    this.openWanted(shown);
  }

  row() {
    return new RuleRow({ rule: () => this.remember(), alert: (row) => this.limitOpen(row) });
  }

  /** The rule that is open stands in the address. */
  remember() {
    const open = [...this.rows.values()].find((row) => row.root.open);
    if (!this.wanted) this.on.address(`alerts=${open ? encodeURIComponent(open.rule.name) : ""}`);
  }

  /** Each open alert costs a query a minute. */
  limitOpen(row) {
    this.open = this.open.filter((other) => other !== row && other.root.isConnected && other.root.open);
    if (row.root.open) this.open.push(row);
    if (this.open.length > OPEN_MAX) this.open.shift().root.open = false;
  }

  openWanted(rules) {
    if (!this.wanted) return;
    const row = this.rows.get(rules.find(({ name }) => name === this.wanted)?.key);
    this.wanted = null;
    if (!row) return;
    row.root.open = true;
    row.opened();
    const alert = [...row.rows.values()].find(({ alert }) => alert.labels.instance === this.wantedNode);
    if (alert) alert.root.open = true;
  }

  write({ rules, failed, count: all, firing, pending }, warnings, more) {
    const words = [];
    if (firing) words.push(`${count(firing, "alert fires", "alerts fire")}`);
    if (pending) words.push(`${count(pending, "is", "are")} pending`);
    this.say(words.length ? `${words.join(", ")} (${count(rules.length, "rule", "rules")})` : all ? `No alert fires, of ${count(all, "rule", "rules")}.` : "");
    this.root.querySelector(".alerts-time").textContent = `as of ${momentText(this.now, this.now)}`;
    this.put(".alerts-problem", []);
    this.put(".alerts-none", all ? [] : [element("p", { text: "This khz evaluates no rules, so it has no alerts." }), element("p", {}, "Rules are files of Prometheus; a hub evaluates those of a directory: ", element("code", { text: "khz hub --rules DIR" }), ".")]);
    const notes = warnings.flatMap((warning) => String(warning).split("\n"));
    notes.push(...failed.map(({ name, group, error }) => `The rule ${name} of the group ${group} fails: ${error}`));
    const kept = notes.slice(0, NOTES_MAX);
    if (notes.length > kept.length) kept.push(`and ${notes.length - kept.length} more`);
    this.put(".alerts-notes", kept.map((text) => element("li", { text })));
    this.put(".alerts-more", more ? [visible(`${count(more, "more rule has", "more rules have")} alerts; they are not listed.`)] : []);
  }

  fail(error) {
    this.state = "failed";
    this.on.counts(null);
    this.root.classList.add("old");
    const old = this.list ? ` What is below was so at ${momentText(this.now, this.now)}.` : "";
    this.say("It is not known what fires.");
    this.root.querySelector(".alerts-time").textContent = "";
    this.put(".alerts-problem", [element("p", { text: `${error.message}. Trying again…${old}` })]);
  }

  say(text) {
    const state = this.root.querySelector(".alerts-state");
    if (state.textContent !== text) state.textContent = text;
  }

  put(selector, children) {
    const part = this.root.querySelector(selector);
    const text = children.map((child) => child.textContent ?? child).join("\n");
    part.hidden = children.length === 0;
    if (part.dataset.text === text && children.length) return;
    part.dataset.text = text;
    part.replaceChildren(...children);
  }

  /** Colours have changed. */
  repaint() {
    for (const { detail } of this.open) detail?.repaint();
  }
}
