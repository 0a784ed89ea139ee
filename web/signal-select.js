// Which nodes a signal is asked of, as selectors of PromQL. It refuses to ask.

/** A selector of this node; of the only node there is, where it has no name. */
export const instanceSelector = (node) => (node ? `,instance=${JSON.stringify(node)}` : "");

/** A selector of the nodes to compare this one with: the others of its group, or all others. Empty: there are none. */
export function otherSelector(node, groups) {
  if (!node) return "";
  const group = groups.list.find(({ has }) => has(node));
  return `${group ? groups.selector(group.name) : ""},instance!=${JSON.stringify(node)}`;
}
