// The views of the page: how an address asks for each, and which module it is. It refuses to know what a view does.

import { addLater } from "./later.js";

/**
 * What loads the module of each view, of the past of a node, of what else its page has, and of the search. The build joins what each of
 * these needs into a few files, and makes each line ask for all of them at once.
 */
const LOADS = {
  node: () => import("./node-view.js"),
  past: () => import("./node-past.js"),
  more: () => import("./node-more.js"),
  palette: () => import("./palette.js"),
  cluster: () => import("./cluster-view.js"),
  waterfall: () => import("./waterfall-view.js"),
  compare: () => import("./compare-view.js"),
  sums: () => import("./sums-view.js"),
  query: () => import("./query-view.js"),
  board: () => import("./own-board.js"),
  alerts: () => import("./alerts-view.js"),
};

/** The class of each view. */
const CLASSES = { node: "NodeView", cluster: "ClusterView", waterfall: "WaterfallView", compare: "CompareView", sums: "SumsView", query: "QueryView", board: "BoardView", alerts: "AlertsView" };

/** Views without numbers of now: whether these come is not said there. */
const STILL = ["query", "alerts"];
export const isStill = (name) => STILL.includes(name);

/** The view that an address names; null: that depends on how many nodes there are. */
export function viewIn(asked) {
  if (STILL.some((name) => asked.has(name))) return STILL.find((name) => asked.has(name));
  const view = asked.get("view");
  if (["waterfall", "compare", "sums", "board"].includes(view)) return view;
  // Only the page of a node has a window.
  return asked.has("node") || asked.has("window") ? "node" : null;
}

/** The element of a view other than a node's: the plots of a node are `#board`. */
export const partOf = (name) => (name === "board" ? "#own" : `#${name}`);

/** The markup and the looks of these are there from the beginning. */
const FIRST = ["node", "cluster"];

/** Asks for the module of a view, or of another part, and for the markup that it needs. */
export async function load(name) {
  const [module] = await Promise.all([LOADS[name](), FIRST.includes(name) ? null : addLater()]);
  return module;
}

/** Makes a view of its module. */
export const make = (name, module, ...rest) => new module[CLASSES[name]](...rest);
