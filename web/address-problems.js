// What is wrong in the address of a node's page, in words. It refuses to mend it.

import { momentOf } from "./moment.js";

/** What an address says of itself is cut after this many characters. */
const SHOWN_MAX = 40;

const shown = (text) => (text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text);

/** Sentences about what `asked` says of the time; `compared` are the names that `compare` may have. */
export function problemsOf(asked, compared) {
  const problems = [];
  const [from, to] = ["from", "to"].map((name) => {
    const time = momentOf(asked.get(name));
    if (asked.get(name) && Number.isNaN(time)) problems.push(`${name}=${shown(asked.get(name))} in the address is no time.`);
    return time;
  });
  if (from > to) problems.push("The window in the address ends before it begins: it is shown the other way round.");
  const other = asked.get("compare");
  if (other && !compared.includes(other)) problems.push(`compare=${shown(other)} in the address is not known: there are ${compared.join(", ")}.`);
  return problems;
}
