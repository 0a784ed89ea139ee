// The page: decides by the address and the number of nodes which view is shown, loads it, and says above it how things stand. It
// refuses to know what the views do.

import { ask } from "./ask.js";
import { visible } from "./element.js";
import { askFirst } from "./first-rows.js";
import { addLater } from "./later.js";
import { readColours } from "./theme-colours.js";
import { isStill, load, make, partOf, viewIn } from "./views.js";

/** Pause before the list of nodes is asked for again. */
const RETRY_MS = 2_000;
/** A notice is shown for this time. */
const NOTICE_MS = 20_000;

const find = (selector) => document.querySelector(selector);

/** What the server said of its nodes: their names, and groups that its configuration names. */
let names = [];
let groups = [];
/** True when the server has more than one node. */
let several = false;
/** The server's answer, for the first view that asks the same. */
let answered = null;
let view = null;
/** Which view is shown, or on its way: its name, and which node; null is the only one. */
let shown = { name: "", node: null };
/** How many alerts fire; loaded when a view is shown. */
let alertCount = null;
let isRest = false;
/** Resolves when the first picture is there. */
let seen;
const picture = new Promise((then) => (seen = then));
/** The dialog that saves what is seen; loaded when somebody wants it. */
let postcard = null;
let noticeTimer = 0;

readColours();
find("#theme").addEventListener("click", () => window.khzTheme.toggle());
window.addEventListener("khz-theme", repaint);
window.addEventListener("hashchange", route);
// A page that the browser keeps for the way back would hold its stream, and so a connection: there are six for a server.
window.addEventListener("pagehide", ({ persisted }) => persisted && leave());
window.addEventListener("pageshow", ({ persisted }) => persisted && route());
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
find("#save").addEventListener("click", openPostcard);
document.addEventListener("keydown", (event) => {
  if (event.key !== "s" || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select, dialog")) return;
  event.preventDefault();
  openPostcard();
});
start();

/** What the address asks for. */
function asked() {
  return new URLSearchParams(location.hash.slice(1));
}

/** What is shown, for those that are loaded later. */
function here() {
  return { name: shown.name, view, alertCount };
}

/** Colours have changed. */
function repaint() {
  readColours();
  view?.repaint();
}

async function openPostcard() {
  postcard ??= import("./postcard.js").then(({ Postcard }) => new Postcard(here));
  try {
    (await postcard).open();
  } catch (error) {
    postcard = null;
    showNotice(`Nothing can be saved: ${error.message}`);
  }
}

/** Asks which nodes there are, and shows the view that fits. */
async function start() {
  showState("connecting");
  // What the address names is needed in any case.
  const named = viewIn(asked());
  if (named) load(named).catch(() => {});
  try {
    const found = await (takeEarly() ?? ask("khz/v1/nodes?brief=1"));
    several = found.nodes.length > 1;
    groups = found.groups ?? [];
    names = found.nodes;
    answered = found;
  } catch (error) {
    showState("waiting", { TypeError: "the server cannot be reached", TimeoutError: "the server does not answer" }[error.name] ?? error.message);
    setTimeout(start, RETRY_MS);
    return;
  }
  const { name, node } = wanted();
  // Nobody looks at the present of a page that shows the past.
  if (name === "node" && !asked().has("from")) askFirst(node, asked().get("window"));
  route();
}

/** The answer that early.js has asked for, once. */
function takeEarly() {
  const found = window.khzFound;
  window.khzFound = null;
  return found;
}

/** Which view the address asks for. */
function wanted() {
  const name = viewIn(asked());
  if (name && name !== "node") return { name, node: null };
  const node = several ? asked().get("node") : null;
  return { name: several && !node ? "cluster" : "node", node };
}

function leave() {
  view?.close();
  view = null;
  shown = { name: "", node: null };
}

/** Shows what the address asks for. */
async function route() {
  const next = wanted();
  if (view?.ask && next.name === shown.name && next.node === shown.node) return view.ask(asked());
  view?.close();
  view = null;
  shown = next;
  showParts(next);
  const module = await loaded(next.name);
  // The address may have changed meanwhile.
  if (!module || shown !== next) return;
  // Its markup may have come with it.
  showMarkup(next.name);
  const place = next.name === "node" ? next.node : find(partOf(next.name));
  view = make(next.name, module, place, asked(), on());
  if (isStill(next.name)) loadRest();
  if (["node", "cluster"].includes(next.name)) addBeside(view, next);
}

/** What views may say, and what they hear. */
function on() {
  return {
    state: showState,
    notice: showNotice,
    name: showName,
    address: setAddress,
    step: stepAddress,
    open: openNode,
    go,
    past: () => loaded("past"),
    more: () => loaded("more"),
    seen: loadRest,
    nodes: takeAnswer,
    counts: (counts) => alertCount?.show(counts),
    groups,
  };
}

/** What the server said of its nodes when the page was opened, once. */
function takeAnswer() {
  const found = answered;
  answered = null;
  return found;
}

/** The module of a view, or of another part; null if it cannot be had. */
async function loaded(name) {
  try {
    return await load(name);
  } catch (error) {
    showNotice(`A part of this page cannot be loaded: ${error.message}. Reload the page.`);
    return null;
  }
}

/** What is wrong and what happened come after the first picture. */
async function addBeside(of, { name, node }) {
  await picture;
  try {
    const { add } = await import("./beside.js");
    await add(of, name, node, groups);
  } catch (error) {
    if (of === view) showNotice(`Signals and events cannot be loaded: ${error.message}. Reload the page.`);
  }
}

/** The first picture is there: loads what could wait for it. */
async function loadRest() {
  if (isRest) return;
  isRest = true;
  performance.mark("khz-picture");
  // Those who need it say what went wrong.
  addLater().catch(() => {});
  import("./probe.js").then(({ probe }) => (window.khz = probe(here)));
  // The address that a demo prints.
  if (new URLSearchParams(location.search).has("tour")) import("./tour.js");
  import("./print.js").then(({ hearPrinting }) => hearPrinting(here, repaint));
  const { AlertCount } = await import("./alert-count.js");
  alertCount = new AlertCount(find("#alerts-link"));
  seen();
}

/** The search over everything; its modules come then. */
async function openPalette() {
  const module = await loaded("palette");
  const page = { names, several, groups: groups.map(({ name }) => name), go, notice: showNotice, addPanel: (spec) => view?.addOwn?.(spec) ?? false };
  module?.Palette.open(page).catch((error) => showNotice(`The search cannot be shown: ${error.message}`));
}

function showMarkup(name) {
  for (const part of document.querySelectorAll("[data-view]")) {
    if (part !== document.body) part.hidden = !part.dataset.view.split(" ").includes(name);
  }
}

/** Shows the parts of one view and hides those of others. */
function showParts({ name, node }) {
  document.body.dataset.view = name;
  showMarkup(name);
  find("#all").textContent = several ? "← All nodes" : "← Live";
  find("#all").hidden = name === "cluster" || (name === "node" && !several);
  find("#ask").hidden = name === "query";
  find("#boards").hidden = name === "board";
  find("#alerts-link").hidden = name === "alerts";
  find("#state").hidden = isStill(name);
  find("#notice").hidden = true;
  const links = [find("#previous"), find("#next")];
  for (const link of links) link.hidden = true;
  if (node !== null) import("./neighbours.js").then(({ showNeighbours }) => shown.node === node && showNeighbours(links, names, node));
}

/** Goes there in place of this node, so that the way back still leads to the tiles. */
function goToNeighbour(event) {
  event.preventDefault();
  // Rate and window stay as they are.
  const hash = asked();
  hash.set("node", event.currentTarget.title);
  history.replaceState(history.state, "", `#${hash}`);
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
  // Without numbers there is nothing to wait for.
  if (!["connecting", "live"].includes(state)) loadRest();
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
