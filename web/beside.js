// What stands beside a view and comes after its first picture: signals and events. It refuses to keep a view waiting.

/** How often it is checked whether the view has its first numbers. */
const CHECK_MS = 100;

/** Adds what belongs to a view of one node (`node`: its name where there are several) or of all nodes. */
export async function add(view, kind, node, groups) {
  const { signal } = view.ended;
  await firstNumbers(view, signal);
  await styles();
  if (signal.aborted) return;
  if (kind === "cluster") {
    const { ClusterSignals } = await import("./signal-cluster.js");
    if (!signal.aborted) new ClusterSignals(document.querySelector("#all-signals"), view);
    return;
  }
  const [{ NodeSignals }, { NodeEvents }] = await Promise.all([import("./signal-node.js"), import("./event-node.js")]);
  if (signal.aborted) return;
  new NodeEvents(document.querySelector("#events"), view, node);
  new NodeSignals(document.querySelector("#signals"), view, node, groups);
}

/** When the view has shown something: the past of a node that is down counts, too. */
function firstNumbers(view, signal) {
  const has = () => signal.aborted || Boolean(view.board?.table) || view.line?.isDown || view.messages > 0;
  return new Promise((then) => {
    const check = () => (has() ? then() : setTimeout(check, CHECK_MS));
    check();
  });
}

/** Their looks come first: without them they would take another place for a moment. */
function styles() {
  if (document.querySelector("link[href='signal.css']")) return null;
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "signal.css" });
  return new Promise((then) => {
    link.addEventListener("load", then, { once: true });
    link.addEventListener("error", then, { once: true });
    document.head.append(link);
  });
}
