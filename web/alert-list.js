// Rules and their alerts as /api/v1/rules has them, in the order in which people want to see them: the worst first, then the
// newest. It refuses to ask and to draw.

import { byName, fold } from "./hostlist.js";
import { seriesName } from "./query-answer.js";
import { duration } from "./units.js";

/** How bad a word for severity is; a word that is not here is between a warning and an error. */
const RANKS = { critical: 0, page: 0, fatal: 0, emergency: 0, error: 1, major: 1, high: 1, warning: 3, warn: 3, minor: 3, low: 3, info: 4, notice: 4, none: 4 };
const RANK_UNKNOWN = 2;
const CLASSES = ["bad", "bad", "middling", "middling", "mild"];

/** {rules, failed, count, firing, pending} of an answer: the rules with alerts, those that failed, and how many of each there are. */
export function listOf({ groups }) {
  const list = { rules: [], failed: [], count: 0, firing: 0, pending: 0 };
  for (const group of groups) {
    group.rules.forEach((rule, at) => {
      list.count++;
      if (rule.health === "err") list.failed.push({ name: rule.name, group: group.name, error: rule.lastError ?? "" });
      if (!rule.alerts?.length) return;
      const made = ruleOf(rule, group, at);
      list.firing += made.firing;
      list.pending += made.pending;
      list.rules.push(made);
    });
  }
  list.rules.sort(byUrgency);
  return list;
}

function ruleOf(rule, group, at) {
  const alerts = rule.alerts.map(alertOf).sort(byUrgency);
  const firing = alerts.filter((alert) => alert.isFiring).length;
  const instances = [...new Set(alerts.map((alert) => alert.labels.instance).filter((name) => name !== undefined))];
  const { severity, rank, since, isFiring } = alerts[0];
  return {
    key: JSON.stringify([group.file, group.name, at, rule.name]),
    name: rule.name,
    group: group.name,
    query: rule.query,
    hold: rule.duration,
    alerts,
    firing,
    pending: alerts.length - firing,
    instances: instances.length,
    /** The hostlist is folded when it is needed. */
    hosts: () => fold(instances),
    severity,
    rank,
    since,
    isFiring,
  };
}

function alertOf({ labels, annotations, state, activeAt, firedAt, keepFiringSince, value }) {
  const isFiring = state === "firing";
  const severity = labels.severity ?? "";
  const active = Date.parse(activeAt);
  return {
    key: seriesName(labels),
    labels,
    annotations,
    isFiring,
    severity,
    rank: rankOf(severity),
    /** Times in ms. */
    active,
    fired: isFiring ? Date.parse(firedAt ?? "") : NaN,
    kept: Date.parse(keepFiringSince ?? ""),
    /** Since when it does what it does now. */
    since: isFiring && firedAt ? Date.parse(firedAt) : active,
    value: numberText(value),
    summary: annotations.summary || annotations.description || annotations.message || "",
  };
}

const rankOf = (severity) => (Object.hasOwn(RANKS, severity.toLowerCase()) ? RANKS[severity.toLowerCase()] : RANK_UNKNOWN);

/** The class for the colour of a severity. */
export const classOf = (rank) => CLASSES[rank];

/** What fires first, then the worst, then the newest; names make the order one that stays. */
function byUrgency(a, b) {
  return (
    Number(b.isFiring) - Number(a.isFiring) ||
    a.rank - b.rank ||
    (b.since || 0) - (a.since || 0) ||
    byName(a.labels?.instance ?? "", b.labels?.instance ?? "") ||
    byName(a.key, b.key)
  );
}

/** `9.25e+00` as people read it. */
export function numberText(text) {
  const number = Number(text);
  if (text === "" || !Number.isFinite(number)) return String(text);
  // A whole number keeps all its digits.
  return String(Number.isSafeInteger(number) ? number : Number(number.toPrecision(6)));
}

/** The labels by which an alert differs from others of its rule. */
export function placeOf({ labels }) {
  const { alertname, severity, instance, job, ...others } = labels;
  const rest = Object.entries(others).map(([name, value]) => `${name}=${value}`);
  return [instance ?? "", ...rest].filter((part) => part).join(" ") || (job ?? "");
}

/** "firing 5 min": for how long an alert does what it does now. */
export function sinceText({ isFiring, fired, since }, now) {
  const age = Number.isFinite(since) ? duration(Math.max(0, (now - since) / 1_000)) : "";
  if (isFiring && Number.isNaN(fired)) return `firing, there ${age}`.trim();
  return `${isFiring ? "firing" : "pending"} ${age}`.trim();
}

/** The series that belong to an alert: those with its labels, as far as both have them; all if none is such. */
export function seriesOfAlert(result, labels) {
  const its = result.filter(({ metric }) => Object.entries(metric ?? {}).every(([name, value]) => name === "__name__" || !Object.hasOwn(labels, name) || labels[name] === value));
  return its.length ? its : result;
}
