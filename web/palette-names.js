// What the palette finds: views, actions, boards, groups, nodes and metrics, each with what choosing it does. It refuses to search.

import { ask } from "./ask.js";
import { spec, writePanels } from "./own-spec.js";
import { actions } from "./palette-actions.js";

/** Views and actions stand before names that fit as well. */
const [ACTION_WEIGHT, BOARD_WEIGHT, NODE_WEIGHT, METRIC_WEIGHT] = [12, 8, 4, 0];
/** Characters of a name and of what is said of it: they come from nodes. */
const NAME_MAX = 256;
const HELP_MAX = 200;

/** `shown`: what is written; `help`: what is said beside it; `kind`: what it is; `go`: what choosing it does. */
function entry(kind, shown, help, weight, go) {
  const [name, said] = [String(shown).slice(0, NAME_MAX), String(help).slice(0, HELP_MAX)];
  return { kind, shown: name, said, name: name.toLowerCase(), help: `${said} ${kind}`.toLowerCase(), weight, go };
}

/** Adds a panel to what is shown; where that takes none, to a board. */
const addTo = (page, panel) => page.addPanel(panel) || page.go(`#view=board&${writePanels([panel])}`);

/** `page`: {names, groups, several, go(hash), notice(text), addPanel(spec)}, which is false where no panel can be. Without what only the server knows. */
export function pageEntries(page) {
  const view = (label, help, hash) => entry("view", label, help, ACTION_WEIGHT, () => page.go(hash));
  const views = [
    ...(page.several
      ? [
          view("All nodes", "tiles: one number of each node now", "#"),
          view("Waterfall", "nodes over time as colours", "#view=waterfall"),
          view("Sums", "all nodes together over time", "#view=sums"),
          view("Compare nodes", "up to eight nodes, with a line each", "#view=compare"),
        ]
      : [view("Live numbers", "this node, now", "#")]),
    view("Boards", "pages of panels that you choose", "#view=board"),
    view("Query", "PromQL over a time", "#query="),
    view("Alerts", "what fires, and since when", "#alerts="),
  ];
  const doing = actions(page).map(({ label, help, run }) => entry("action", label, help, ACTION_WEIGHT, run));
  const groups = page.groups.map((name) => entry("group", name, "tiles of this group", BOARD_WEIGHT, () => page.go(`#group=${encodeURIComponent(name)}`)));
  const nodes = page.several ? page.names.map((name) => entry("node", name, "", NODE_WEIGHT, () => page.go(`#node=${encodeURIComponent(name)}`))) : [];
  return [...views, ...doing, ...groups, ...nodes];
}

/** What only the server knows: metrics and boards. What it does not tell is left out. */
export async function serverEntries(page, signal) {
  const none = () => null;
  const [catalogue, boards] = await Promise.all([ask("khz/v1/catalog", signal).catch(none), ask("khz/v1/boards", signal).catch(none)]);
  const metrics = (catalogue?.metrics ?? []).filter(({ type }) => type !== "labels");
  return [
    ...(boards?.boards ?? []).map(({ name, title }) => entry("board", title, name, BOARD_WEIGHT, () => page.go(`#view=board&name=${encodeURIComponent(name)}`))),
    ...metrics.map(({ name, help, prometheus }) => entry("metric", name, `${help} ${prometheus}`, METRIC_WEIGHT, () => addTo(page, spec({ match: name })))),
  ];
}

/** Adding a panel of what was typed. */
export function typedEntry(page, panel) {
  const what = panel.match === undefined ? "query" : "pattern";
  return entry("panel", panel.match ?? panel.query, `Add a panel of this ${what}`, 0, () => addTo(page, panel));
}
