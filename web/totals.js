// The facts above a view of all nodes: how many there are, who is not there, mean and highest. It refuses to know how
// nodes are drawn.

import { UNKNOWN_TEXT } from "./units.js";

export const count = (n) => (Number.isNaN(n) ? UNKNOWN_TEXT : n.toLocaleString("en"));

/** The facts of the nodes `shown` (positions): `gone` has the names of those that are down, left and missing. */
export function totalsOf({ names, values, down }, shown) {
  const facts = { known: 0, unknown: 0, sum: 0, highest: -1, gone: [[], [], []] };
  for (const at of shown) {
    if (down[at]) facts.gone[down[at] - 1].push(names[at]);
    else if (Number.isNaN(values[at])) facts.unknown++;
    else {
      facts.known++;
      facts.sum += values[at];
      if (facts.highest < 0 || values[at] > values[facts.highest]) facts.highest = at;
    }
  }
  return facts;
}

/** Writes them. `isCurrent`: numbers come, else nobody knows who is down. */
export function writeTotals({ names, values }, shown, facts, isCurrent, format) {
  const [fell, left, missing] = facts.gone.map((some) => some.length);
  put("nodes", names.length === 0 ? UNKNOWN_TEXT : shown < names.length ? `${count(shown)} of ${count(names.length)}` : count(names.length));
  put("down", count(isCurrent ? fell : NaN));
  // Hidden while they are 0: most clusters name no expected nodes, and few agents are stopped.
  putWhere(left > 0, "left", count(left));
  putWhere(missing > 0, "missing", count(missing));
  put("unknown", names.length > 0 ? count(facts.unknown) : UNKNOWN_TEXT);
  put("mean", facts.known > 0 ? format(facts.sum / facts.known) : UNKNOWN_TEXT);
  put("highest", facts.highest >= 0 ? `${format(values[facts.highest])} ${names[facts.highest]}` : UNKNOWN_TEXT);
}

const cell = (fact) => document.querySelector(`[data-total="${fact}"]`);

function put(fact, text) {
  if (cell(fact).textContent !== text) cell(fact).textContent = text;
}

/** Puts a fact, and shows or hides it. */
function putWhere(isShown, fact, text) {
  put(fact, text);
  const place = cell(fact).parentElement;
  if (place.hidden === isShown) place.hidden = !isShown;
}
