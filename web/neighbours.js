// The ways from a node's page to the nodes before and after it, by their names. They refuse to leave the page's rate and window.

import { byName } from "./hostlist.js";

/** Shows the links `previous` and `next`, each with the name of its node; without a neighbour a link is hidden. */
export function showNeighbours([previous, next], names, node) {
  const sorted = [...names].sort(byName);
  const at = sorted.indexOf(node);
  for (const [link, by] of [[previous, -1], [next, 1]]) {
    const name = sorted[at + by];
    link.hidden = at < 0 || !name;
    if (link.hidden) continue;
    link.href = `#node=${encodeURIComponent(name)}`;
    link.setAttribute("aria-label", `${by < 0 ? "Previous" : "Next"} node: ${name}`);
    link.title = name;
  }
}
