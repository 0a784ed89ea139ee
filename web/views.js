// The views of the page: how an address asks for each, and which modules it needs. These are asked for at once: none waits
// until another one names it. It refuses to know what a view does.

/** The module of each view first, then those that it imports and that main.js does not. */
const MODULES = {
  node: "node-view board canvas clock controls feeds frames heading heat measures moment node-numbers panel plot pointer stream table time-axis time-window track units",
  past: "node-past ask overview past past-rows past-track past-view samples time-bar time-hands",
  more: "node-more hostlist node-more-feeds node-more-history node-more-panels node-more-ranks node-more-table own-lines own-live own-panel own-panels own-past own-query own-spec own-style query-answer",
  palette: "palette ask own-spec own-style palette-actions palette-names palette-rank",
  cluster: "cluster-view ask canvas hostlist measure-choice measures node-choice node-groups nodes-view tile-layout tile-map tile-mark tile-past tile-scale tile-stream totals units",
  waterfall: "waterfall-view ask canvas hostlist measure-choice measures node-choice node-groups nodes-view tile-layout tile-scale tile-stream totals units waterfall-cells waterfall-layout waterfall-picture waterfall-pointer",
  compare: "compare-view ask canvas correlation hostlist measure-choice measure-queries measures moment node-choice query-answer query-chart range-panels range-view units",
  sums: "sums-view ask canvas hostlist measure-choice measure-queries measures moment node-groups query-answer query-chart range-panels range-view tile-layout units",
  query: "query-view ask canvas moment query-answer query-chart units",
  board: "own-board ask canvas feeds frames heat hostlist measures moment own-file own-lines own-panel own-panels own-past own-query own-spec own-style own-time panel past past-rows past-track plot pointer query-answer samples table time-axis time-hands time-window track units",
  alerts: "alerts-view alert-detail alert-list alert-rows ask canvas hostlist moment query-answer query-chart query-view units",
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

/** Asks for all modules of a view, of the past of a node, of what else its page has, or of the search; resolves to the first. */
export function load(name) {
  const [first, ...others] = MODULES[name].split(" ").map((module) => import(`./${module}.js`));
  // If one of them does not come, the first one says so.
  for (const other of others) other.catch(() => {});
  return first;
}

/** Makes a view of its module. */
export const make = (name, module, ...rest) => new module[CLASSES[name]](...rest);
