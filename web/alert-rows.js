// The lines of the view of alerts: one for each rule, and in an opened one a line for each alert. Lines stay the same elements while
// their texts change, so that what is open or has the focus stays so. It refuses to ask for the list.

import { AlertDetail } from "./alert-detail.js";
import { classOf, placeOf, sinceText } from "./alert-list.js";
import { element, visible } from "./element.js";

/** Alerts of a rule that are listed. */
export const ALERTS_MAX = 50;
/** Characters of a hostlist in the line of a rule, and in an opened one. */
const HOSTS_SHORT = 120;
const HOSTS_LONG = 2_000;

const count = (n) => n.toLocaleString("en");
const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);

/** Writes a text, if it is another one. */
function put(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
  node.hidden = shown === "";
}

/** Brings the elements of `parent` in line with `items`: those that stay are kept. `make` makes a row of an item. */
export function reconcile(parent, rows, items, make) {
  const kept = new Set(items.map(({ key }) => key));
  for (const [key, row] of rows) {
    if (kept.has(key)) continue;
    row.close();
    row.root.remove();
    rows.delete(key);
  }
  const focus = document.activeElement;
  items.forEach((item, at) => {
    if (!rows.has(item.key)) rows.set(item.key, make(item));
    const { root } = rows.get(item.key);
    if (parent.children[at] !== root) parent.insertBefore(root, parent.children[at] ?? null);
  });
  // An element that is moved loses the focus.
  if (focus !== document.activeElement && parent.contains(focus)) focus.focus({ preventScroll: true });
}

/** A line that opens. `on` hears opened(row) and closed(row). */
class Row {
  constructor(classes, parts, on) {
    this.parts = Object.fromEntries(parts.map((name) => [name, element("span", { classes: `part ${name}` })]));
    this.line = element("summary", {}, ...Object.values(this.parts));
    this.body = element("div", { classes: "alert-body" });
    this.root = element("details", { classes }, this.line, this.body);
    this.root.addEventListener("toggle", () => {
      if (this.root.open) this.opened();
      else this.shut();
      on(this);
    });
  }

  setState(isFiring, rank, severity) {
    this.root.dataset.state = isFiring ? "firing" : "pending";
    this.root.dataset.rank = classOf(rank);
    if (this.parts.severity) put(this.parts.severity, severity);
  }
}

/** The line of a rule. */
export class RuleRow extends Row {
  constructor(on) {
    super("panel alert-rule", ["severity", "title", "since", "hosts", "says"], on.rule);
    this.on = on;
    this.rows = new Map();
    this.hosts = element("p", { classes: "note hosts" });
    this.list = element("div", { classes: "alert-list" });
    this.more = element("p", { classes: "note" });
    this.body.append(this.hosts, this.list, this.more);
  }

  update(rule, now) {
    Object.assign(this, { rule, now });
    const [first] = rule.alerts;
    this.setState(rule.isFiring, rule.rank, rule.severity);
    const several = rule.alerts.length > 1;
    put(this.parts.title, rule.name);
    const states = [rule.firing ? `${count(rule.firing)} firing` : "", rule.pending ? `${count(rule.pending)} pending` : ""];
    const newest = sinceText(first, now);
    put(this.parts.since, several ? `${states.filter((part) => part).join(", ")}, the newest ${newest.replace(/^[a-z]+,? /, "for ").replace("for there", "there")}` : newest);
    // Folding thousands of names takes a while: not for names that are the same.
    const names = rule.alerts.map((alert) => alert.labels.instance).join("\0");
    if (names !== this.names) {
      this.names = names;
      this.folded = rule.hosts();
    }
    const nodes = rule.instances > 1 ? `${count(rule.instances)} nodes: ` : "";
    put(this.parts.hosts, `${nodes}${cut(this.folded, HOSTS_SHORT)}`);
    put(this.parts.says, several ? "" : first.summary);
    if (this.root.open) this.opened();
  }

  opened() {
    const { rule, now } = this;
    put(this.hosts, this.folded.length > HOSTS_SHORT ? cut(this.folded, HOSTS_LONG) : "");
    const shown = rule.alerts.slice(0, ALERTS_MAX);
    reconcile(this.list, this.rows, shown, () => new AlertRow(this.on));
    const isLone = shown.length === 1;
    for (const alert of shown) {
      const row = this.rows.get(alert.key);
      row.root.classList.toggle("lone", isLone);
      row.update(alert, rule, now);
      // Of a rule with one alert there is nothing to choose.
      if (isLone) row.root.open = true;
    }
    const more = rule.alerts.length - shown.length;
    put(this.more, more ? `${count(more)} more alerts of this rule are not listed: ALERTS{alertname="${rule.name}"} in a query has all.` : "");
  }

  shut() {
    for (const row of this.rows.values()) row.close();
    this.rows.clear();
    this.list.replaceChildren();
  }

  close() {
    this.shut();
  }
}

/** The line of an alert. */
export class AlertRow extends Row {
  constructor(on) {
    super("alert", ["title", "since", "value", "says"], on.alert);
    this.detail = null;
  }

  update(alert, rule, now) {
    Object.assign(this, { alert, rule, now });
    this.setState(alert.isFiring, alert.rank, alert.severity);
    put(this.parts.title, placeOf(alert) || rule.name);
    put(this.parts.since, sinceText(alert, now));
    put(this.parts.value, alert.value);
    put(this.parts.says, alert.summary);
    if (this.root.open) this.opened();
  }

  opened() {
    if (!this.detail) {
      this.detail = new AlertDetail(this.alert, this.rule);
      this.body.replaceChildren(this.detail.root);
    }
    this.detail.update(this.alert, this.rule, this.now);
  }

  shut() {
    this.detail?.close();
    this.detail = null;
    this.body.replaceChildren();
  }

  close() {
    this.shut();
  }
}
