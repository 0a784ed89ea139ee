// The past of patterns that may name several nodes: pieces of it, as of one node, with the rows of each node apart, because nodes have
// rows at different times. It refuses to know what is drawn.

import { PastRows } from "./past-rows.js";
import { Past } from "./past.js";

/** The node that a line of an answer is about: its first member. */
const NODE = /^\{"node":("(?:[^"\\]|\\.)*")/;

export class NodesPast extends Past {
  constructor(changed) {
    super(null, changed);
  }

  /** As in Past; `beginning`: before this time there is nothing of these series. */
  askSince(beginning, need, from, to, now) {
    this.beginning = beginning;
    return this.ask(need, from, to, now);
  }

  read(text) {
    return new RowsOfNodes(text);
  }
}

/** An answer of khz/v1/range: PastRows of each node. */
export class RowsOfNodes {
  constructor(text) {
    const lines = text.split("\n").filter((line) => line);
    const own = new Map();
    const common = [];
    for (const line of lines) {
      const node = NODE.exec(line)?.[1];
      if (node === undefined) common.push(line);
      else if (own.has(node)) own.get(node).push(line);
      else own.set(node, [line]);
    }
    // Errors, damage and the end of an answer are about all nodes; without nodes, too.
    this.damage = new PastRows(common.join("\n")).damage;
    this.ofNode = new Map([...own].map(([node, parts]) => [JSON.parse(node), new PastRows([...parts, ...common].join("\n"))]));
    this.bytes = [...this.ofNode.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }
}
