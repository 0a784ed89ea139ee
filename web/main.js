// The page: decides by the address and the number of nodes which view is shown, one node, all of them,
// their waterfall, a query or the alerts, and says above it how things stand. It refuses to know what the views do.

import { AlertCount } from "./alert-count.js";
import { ClusterView } from "./cluster-view.js";
import { byName } from "./hostlist.js";
import { NodeGroups } from "./node-groups.js";
import { NodeView } from "./node-view.js";
import { visible } from "./panel.js";
import { readColours } from "./theme-colours.js";

/** Pause before the list of nodes is asked for again. */
const RETRY_MS = 2_000;
/** A notice is shown for this time. */
const NOTICE_MS = 20_000;

const find = (selector) => document.querySelector(selector);

/** Views whose modules come when somebody wants them, so that the page does not wait: how they are loaded, and made of their part. */
const LAZY = {
  query: { load: () => import("./query-view.js"), make: ({ QueryView }, ...rest) => new QueryView(...rest) },
  alerts: { load: () => import("./alerts-view.js"), make: ({ AlertsView }, ...rest) => new AlertsView(...rest) },
  waterfall: { load: () => import("./waterfall-view.js"), make: ({ WaterfallView }, ...rest) => new WaterfallView(...rest), isLive: true },
  compare: { load: () => import("./compare-view.js"), make: ({ CompareView }, ...rest) => new CompareView(...rest), isLive: true },
  sums: { load: () => import("./sums-view.js"), make: ({ SumsView }, ...rest) => new SumsView(...rest), isLive: true },
  board: { load: () => import("./own-board.js"), make: ({ BoardView }, ...rest) => new BoardView(...rest), isLive: true, place: "#own" },
};
/** Whether the address asks for a lazy view: `#query=…`, `#view=waterfall`. */
const isAsked = (name, asked) => (LAZY[name].isLive ? asked.get("view") === name : asked.has(name));
/** All nodes in natural order, for the ways to the next one. */
let names = [];
/** Groups of nodes that the server's configuration names. */
let groups = new NodeGroups();
/** True when the server has more than one node. */
let several = false;
let view = null;
/** Which of the lazy views is shown; "": none of them. */
let lazy = "";
/** Which node is shown; null is all of them, or the only one. */
let shownNode;
let noticeTimer = 0;

readColours();
const alertCount = new AlertCount(find("#alerts-link"));
find("#theme").addEventListener("click", () => window.khzTheme.toggle());
window.addEventListener("khz-theme", () => {
  readColours();
  view?.repaint();
});
// The address that a demo prints.
if (new URLSearchParams(location.search).has("tour")) import("./tour.js");
window.addEventListener("hashchange", route);
find("#palette-open").addEventListener("click", openPalette);
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || event.defaultPrevented || event.altKey || event.shiftKey) return;
  if (!event.ctrlKey && !event.metaKey && event.target.closest("input, textarea, select, dialog")) return;
  event.preventDefault();
  openPalette();
});
for (const id of ["#previous", "#next"]) find(id).addEventListener("click", goToNeighbour);
find("#all").addEventListener("click", (event) => {
  event.preventDefault();
  // Back where one came from, with its search and its order, where that is the page of all nodes: over the windows that were shown since.
  if (history.state?.fromCluster) history.go(-1 - (history.state.steps ?? 0));
  else location.hash = "";
});
start();

/** Asks which nodes there are, and shows the view that fits. */
async function start() {
  showState("connecting");
  try {
    const answer = await fetch("khz/v1/nodes?brief=1", { cache: "no-store" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const found = await answer.json();
    several = found.nodes.length > 1;
    groups = new NodeGroups(found.groups);
    names = found.nodes.sort(byName);
  } catch (error) {
    showState("waiting", error instanceof TypeError ? "the server cannot be reached" : error.message);
    setTimeout(start, RETRY_MS);
    return;
  }
  route();
}

/** Shows what the address asks for. */
function route() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const wanted = Object.keys(LAZY).find((name) => isAsked(name, asked));
  if (wanted) return routeLazy(wanted, asked);
  const node = several ? asked.get("node") : null;
  if (view && !lazy && node === shownNode && (node || !several)) return view.ask?.(asked);
  view?.close();
  lazy = "";
  shownNode = node;
  const cluster = several && !node;
  showParts(cluster ? "cluster" : "node");
  find("#all").hidden = cluster || !several;
  showNeighbours(node);
  const on = { state: showState, notice: showNotice, address: setAddress, step: stepAddress, name: showName, go };
  if (cluster) {
    showName("All nodes");
    view = new ClusterView(find("#cluster"), asked, groups, { ...on, open: openNode });
  } else {
    view = new NodeView(node, asked, on);
  }
}

/** Shows a query or the alerts; an open view of them shows what the address now asks for. */
async function routeLazy(name, asked) {
  if (view && lazy === name) return view.ask(asked);
  view?.close();
  view = null;
  lazy = name;
  shownNode = undefined;
  showParts(name);
  find("#all").hidden = false;
  let module;
  try {
    module = await LAZY[name].load();
  } catch (error) {
    return showNotice(`This view cannot be loaded: ${error.message}. Reload the page.`);
  }
  // The address may have changed meanwhile.
  const now = new URLSearchParams(location.hash.slice(1));
  if (view || lazy !== name || !isAsked(name, now)) return;
  const on = { name: showName, address: setAddress, step: stepAddress, state: showState, notice: showNotice, open: openNode, go, groups, counts: (counts) => alertCount.show(counts) };
  view = LAZY[name].make(module, find(LAZY[name].place ?? `#${name}`), now, on);
}

/** The search over everything; its modules come then. */
async function openPalette() {
  try {
    const { Palette } = await import("./palette.js");
    await Palette.open({ names, several, groups: groups.list.map(({ name }) => name), go, notice: showNotice, addPanel: (spec) => view?.addOwn?.(spec) ?? false });
  } catch (error) {
    showNotice(`The search cannot be loaded: ${error.message}. Reload the page.`);
  }
}

/** Shows the parts of one view and hides those of others. */
function showParts(name) {
  document.body.dataset.view = name;
  for (const part of document.querySelectorAll("[data-view]")) {
    if (part !== document.body) part.hidden = !part.dataset.view.split(" ").includes(name);
  }
  find("#all").textContent = several ? "← All nodes" : "← Live";
  for (const id of ["#previous", "#next"]) find(id).hidden = true;
  find("#ask").hidden = name === "query";
  find("#boards").hidden = name === "board";
  find("#alerts-link").hidden = name === "alerts";
  find("#state").hidden = LAZY[name] !== undefined && !LAZY[name].isLive;
  find("#notice").hidden = true;
}

/** The ways to the nodes before and after this one. */
function showNeighbours(node) {
  const at = names.indexOf(node);
  for (const [id, by] of [["#previous", -1], ["#next", 1]]) {
    const name = names[at + by];
    const link = find(id);
    link.hidden = at < 0 || !name;
    if (link.hidden) continue;
    link.href = `#node=${encodeURIComponent(name)}`;
    link.setAttribute("aria-label", `${by < 0 ? "Previous" : "Next"} node: ${name}`);
    link.title = name;
  }
}

/** Goes there in place of this node, so that the way back still leads to the tiles. */
function goToNeighbour(event) {
  event.preventDefault();
  // Rate and window stay as they are.
  const asked = new URLSearchParams(location.hash.slice(1));
  asked.set("node", event.currentTarget.title);
  history.replaceState(history.state, "", `#${asked}`);
  route();
}

/** A tile was chosen: the browser's way back leads to the tiles again. */
function openNode(name) {
  history.pushState({ fromCluster: true }, "", `#node=${encodeURIComponent(name)}`);
  route();
  scrollTo(0, 0);
}

/** Another view, with a step for the way back. */
function go(hash) {
  location.hash = hash;
}

/** Remembers the controls in the address, without a step for the way back. */
function setAddress(hash) {
  history.replaceState(history.state, "", hash ? `#${hash}` : location.pathname + location.search);
}

/** The same as a step that the browser's way back undoes. */
function stepAddress(hash) {
  history.pushState({ ...history.state, steps: (history.state?.steps ?? 0) + 1 }, "", `#${hash}`);
}

function showName(name) {
  find("#node").textContent = name ?? "no node";
  document.title = name ? `${name} · Kilohertz` : "Kilohertz";
}

function showState(state, reason = "") {
  const pill = find("#state");
  pill.dataset.state = state;
  pill.textContent = { connecting: "connecting", live: "live", waiting: "reconnecting", paused: "paused", down: "down" }[state];
  const words = visible(reason);
  pill.title = words;
  const notice = find("#notice");
  if (state === "waiting" || state === "down") {
    clearTimeout(noticeTimer);
    notice.dataset.of = "state";
    notice.hidden = false;
    notice.textContent = state === "down" ? words : `No data: ${words}. Trying again…`;
  } else if (notice.dataset.of === "state") {
    notice.hidden = true;
  }
}

/** Something that the reader should know once. */
function showNotice(text) {
  const notice = find("#notice");
  notice.dataset.of = "notice";
  notice.textContent = visible(text);
  notice.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => {
    if (notice.dataset.of === "notice") notice.hidden = true;
  }, NOTICE_MS);
}

const node = () => (view instanceof NodeView ? view : null);
const query = () => (lazy === "query" ? view : null);
const alerts = () => (lazy === "alerts" ? view : null);
const ranges = () => (["compare", "sums"].includes(lazy) ? view : null);
const board = () => (lazy === "board" ? view : null);
const waterfall = () => (lazy === "waterfall" ? view : null);
const cluster = () => (view instanceof ClusterView ? view : null);

/** For tests and the curious: counts, never a way in. */
window.khz = {
  get view() { return document.body.dataset.view; },
  get framesDrawn() { return node()?.frames.drawn; },
  get framesSeen() { return node()?.frames.seen; },
  get framesDropped() { return node()?.frames.dropped; },
  get frameMs() { return node()?.frames.frameMs; },
  get drawingMs() { return node()?.frames.busyMs; },
  get rows() { return node()?.heading.rows; },
  get lost() { return node()?.heading.lost; },
  get rate() { return node()?.controls.rate; },
  get rateReached() { return node()?.heading.reached; },
  get newest() { return node()?.board.time; },
  get oldest() { return node()?.board.oldest; },
  get state() { return find("#state").dataset.state; },
  get panels() { return node()?.board.panels.map((p) => ({ title: p.title, hidden: p.root.hidden, last: p.series.map((s) => s.track.last) })); },
  get query() { return query() && { state: query().state, series: query().answer?.series.length, drawn: query().lines?.length }; },
  get alerts() { return alerts() && { state: alerts().state, rules: alerts().list?.rules.length, firing: alerts().list?.firing, pending: alerts().list?.pending, plots: alerts().open.map(({ detail }) => detail?.state) }; },
  get firing() { return find("#alerts-link b").textContent; },
  refreshAlerts: () => alerts()?.refresh() ?? alertCount.refresh(),
  get time() { return node()?.timeForTests(); },
  resetFrames: () => node()?.frames.reset(),
  get repaints() { return cluster()?.map.repaints; },
  get paintMs() { return cluster()?.map.paintMs; },
  get messages() { return cluster()?.messages; },
  get crosses() { return cluster()?.map.crosses; },
  get highest() { return cluster()?.highest; },
  get nodes() { return cluster()?.nodes.names.length; },
  get known() { return cluster()?.known; },
  get unknown() { return cluster()?.unknown; },
  get down() { return cluster()?.down; },
  get shown() { return cluster()?.shown.length; },
  tile: (name) => cluster()?.tile(name),
  before: (name, back) => cluster()?.before(name, back),
  get waterfall() {
    const v = waterfall();
    return v && { nodes: v.names.length, shown: v.shown.length, edge: v.cells.edge, columns: v.cells.columns, known: v.facts?.known, down: v.facts?.gone[0].length, rowHeight: v.picture.layout?.rowHeight, steps: v.picture.shown, repaints: v.picture.repaints, copies: v.picture.copies, order: v.picture.layout?.order.map((at) => v.names[at]) };
  },
  get ranges() { return ranges() && { rounds: ranges().panels.rounds, nodes: ranges().nodes, panels: ranges().panels.panels.map((p) => ({ title: p.title, note: p.note.textContent, lines: p.lines.map(({ label, runs, colour, dashed, shown }) => ({ label, points: runs.flat().length, colour, dashed, shown: shown.textContent })) })) }; },
  get chosen() { return (cluster() ?? waterfall())?.choice.names; },
  cell: (name, back) => waterfall()?.cell(name, back),
  get own() { return (board()?.panels ?? node()?.more?.own)?.forTests(); },
  get ranks() { return node()?.more?.table.forTests(); },
};
