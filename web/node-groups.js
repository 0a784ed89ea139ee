// Groups of nodes as the hub's configuration names them: racks, partitions. They arrange tiles and rows under headings, and
// are a filter. It refuses to guess where a node belongs: those in no group stand last, by their names.

import { byName, hostlistMatcher, hostlistPattern } from "./hostlist.js";
import { element } from "./element.js";
import { groupsByName } from "./tile-layout.js";

/** Names that a range stands for in a selector: as many as a page has rows. */
const NAMES_MAX = 4_096;
const ALL = { value: "", text: "all nodes" };

export class NodeGroups {
  /** `list` is the server's: [{name, nodes: hostlist}]. */
  constructor(list = []) {
    this.list = list.map(({ name, nodes }) => ({ name, nodes, has: matcherOf(nodes) }));
  }

  get some() {
    return this.list.length > 0;
  }

  /** A function that tells whether a node is in the group called `name`; any node is where there is no such group. */
  matcher(name) {
    return this.list.find((group) => group.name === name)?.has ?? (() => true);
  }

  /** The nodes of the group called `name` as a hostlist; "": of all. */
  hosts(name) {
    return this.list.find((group) => group.name === name)?.nodes ?? "";
  }

  /** A selector of PromQL for the nodes of the group called `name`. */
  selector(name) {
    const { nodes } = this.list.find((group) => group.name === name) ?? {};
    return nodes ? `,instance=~${JSON.stringify(hostlistPattern(nodes, NAMES_MAX))}` : "";
  }

  /** Nodes (positions in `names`) under the heading of the first group that has them. Without groups, by what their names have in common. */
  blocks(names, shown) {
    if (!this.some) return groupsByName(names, shown);
    const blocks = this.list.map(({ name }) => ({ name, nodes: [] }));
    const others = [];
    for (const at of [...shown].sort((a, b) => byName(names[a], names[b]))) {
      const group = this.list.findIndex(({ has }) => has(names[at]));
      (group < 0 ? others : blocks[group].nodes).push(at);
    }
    const labelled = blocks.filter(({ nodes }) => nodes.length > 0).map(({ name, nodes }) => ({ label: labelOf(name, nodes), nodes }));
    return others.length > 0 ? [...labelled, { label: labelled.length > 0 ? labelOf("in no group", others) : "", nodes: others }] : labelled;
  }

  /** Fills the list of the filter; hides it where there are no groups. */
  fill(select, chosen) {
    const options = [ALL, ...this.list.map(({ name }) => ({ value: name, text: name }))];
    select.replaceChildren(...options.map(({ value, text }) => element("option", { value, text })));
    select.value = this.list.some(({ name }) => name === chosen) ? chosen : "";
    select.closest(".choice").hidden = !this.some;
  }
}

const labelOf = (name, nodes) => `${name}  ·  ${nodes.length.toLocaleString("en")}`;

/** The server has checked the hostlist; one that this page does not understand has no node. */
function matcherOf(hosts) {
  try {
    return hostlistMatcher(hosts);
  } catch {
    return () => false;
  }
}
