// What stands beside a view and comes after its first picture: signals and events. It refuses to keep a view waiting.

import { NodeGroups } from "./node-groups.js";
import { loadStyle } from "./own-style.js";

/** How often it is checked whether the view has its first numbers. */
const CHECK_MS = 100;

/** Adds what belongs to a view of one node (`node`: its name where there are several) or of all nodes; `groups`: the server's. */
export async function add(view, kind, node, groups) {
  const { signal } = view.ended;
  await firstNumbers(view, signal);
  // Their looks come first: without them they would take another place for a moment.
  await loadStyle("signal.css");
  if (signal.aborted) return;
  if (kind === "cluster") {
    const { ClusterSignals } = await import("./signal-cluster.js");
    if (!signal.aborted) new ClusterSignals(document.querySelector("#all-signals"), view);
    return;
  }
  const [{ NodeSignals }, { NodeEvents }] = await Promise.all([import("./signal-node.js"), import("./event-node.js")]);
  if (signal.aborted) return;
  new NodeEvents(document.querySelector("#events"), view, node);
  new NodeSignals(document.querySelector("#signals"), view, node, new NodeGroups(groups));
}

/** When the view has shown something: the past of a node that is down counts, too. */
function firstNumbers(view, signal) {
  const has = () => signal.aborted || Boolean(view.board?.table) || view.line?.isDown || view.messages > 0;
  return new Promise((then) => {
    const check = () => (has() ? then() : setTimeout(check, CHECK_MS));
    check();
  });
}
