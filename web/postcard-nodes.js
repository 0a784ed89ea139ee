// The postcards of tiles and waterfall: the picture, its scale, and a number of each node. It refuses to move anything of the
// view that it takes them from.

import { fold } from "./hostlist.js";
import { ROOM_MIN } from "./nodes-view.js";
import { inside } from "./postcard-sheet.js";
import { CELLS_MAX } from "./postcard-table.js";
import { colours } from "./theme-colours.js";
import { Layout } from "./tile-layout.js";
import { GONE } from "./tile-map.js";
import { PAST_SECONDS } from "./tile-past.js";
import { marksOf } from "./time-axis.js";

/** Steps of the scale that a legend names. */
const SCALE = [0, 0.25, 0.5, 0.75, 1];
/** A hostlist longer than this does not fit into an address: the rows of all nodes are asked for. */
const HOSTS_MAX = 2_000;

/** `view`: the ClusterView. */
export function clusterCard(view) {
  const { map, nodes, mark } = view;
  const to = Date.now() / 1_000;
  const width = inside(view.part("frame").clientWidth);
  const layout = new Layout(map.layout.groups, width, Math.max(ROOM_MIN, innerHeight));
  const second = mark?.fits(nodes.names) ? mark : null;
  const draw = (layer) => {
    const shown = map.layout;
    map.layout = layout;
    map.draw(layer());
    map.layout = shown;
  };
  const row = (at) => [
    nodes.names[at],
    nodes.down[at] ? GONE[nodes.down[at]] : Number.isNaN(nodes.values[at]) ? "unknown" : "up",
    nodes.down[at] ? null : nodes.values[at],
    ...(second ? [nodes.down[at] ? null : second.values[at]] : []),
  ];
  return {
    name: "nodes",
    from: to - PAST_SECONDS,
    to,
    link: location.href,
    width: view.part("frame").clientWidth,
    parts: [{ title: titleOf(view), legend: legendOf(view), note: "", share: 1, height: Math.max(1, layout.total), draw }],
    table: {
      columns: ["node", "state", `${view.measure.label} [${nodes.unit}]`, ...(second ? [second.measure.label] : [])],
      rows: layout.order.map(row),
    },
    match: matchOf(view, layout.order.map((at) => nodes.names[at]), nodes.names.length),
  };
}

/** `view`: the WaterfallView. */
export function waterfallCard(view) {
  const { picture, cells, nodes } = view;
  const { layout } = picture;
  const to = (cells.edge + 1) * cells.periodSeconds;
  const from = to - picture.shown * cells.periodSeconds;
  const names = layout.order.map((at) => cells.names[at]);
  return {
    name: "waterfall",
    from,
    to,
    link: location.href,
    width: view.part("frame").clientWidth,
    parts: [
      {
        title: titleOf(view),
        legend: legendOf(view),
        note: view.find(".fall-note").textContent,
        share: 1,
        height: Math.max(1, layout.total),
        marks: (width) => picture.marksIn(to, width, marksOf),
        draw: (layer) => picture.drawOn(layer),
      },
    ],
    table: stepsTable(cells, layout.order, picture.shown, nodes.unit, view.measure),
    match: matchOf(view, names, view.all.length || names.length),
  };
}

/** A row for each step, a column for each node: the newest steps, where all have more cells than a table. */
function stepsTable(cells, order, shown, unit, measure) {
  const most = Math.max(1, Math.floor(CELLS_MAX / (order.length + 2)));
  const steps = Math.min(shown, most);
  const rows = [];
  for (let step = cells.edge - steps + 1; step <= cells.edge; step++) {
    const time = step * cells.periodSeconds;
    rows.push([new Date(time * 1_000).toISOString(), time, ...order.map((at) => cells.cell(at, step).value)]);
  }
  const notes = [`${measure.label} [${unit}]`, ...(steps < shown ? [`the first ${shown - steps} steps are left out: a table has at most ${CELLS_MAX} cells`] : [])];
  return { columns: ["time (UTC)", "time (s since 1970)", ...order.map((at) => cells.names[at])], rows, notes };
}

const titleOf = (view) => `${view.shown.length.toLocaleString("en")} nodes by ${view.measure.label}`;

function legendOf({ scale, format, nodes }) {
  const last = colours.tiles.length - 1;
  const steps = SCALE.map((share) => ({ label: format(share * scale.top), colour: colours.tiles[Math.round(share * last)].fill }));
  const gone = nodes.down.some((down) => down > 0) ? [{ label: "down", colour: colours.downSurface }] : [];
  return nodes.unit ? [...steps, ...gone] : gone;
}

/** What the rows of these nodes are asked for with: all nodes, where they are all, or too many to be named. */
function matchOf({ measure }, names, all) {
  const hosts = names.length < all ? fold(names) : "";
  const patterns = [...new Set([...measure.match, ...(measure.of ?? [])])];
  return patterns.map((pattern) => (hosts && hosts.length <= HOSTS_MAX ? `${hosts}:${pattern}` : pattern));
}
