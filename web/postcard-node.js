// The postcard of a node's page: all its panels at the time that is shown, each drawn by the code of its panel. It refuses to
// wait without an end for what is still loading.

import { Heat } from "./heat.js";
import { Plot } from "./plot.js";
import { tableOf } from "./postcard-table.js";
import { colours } from "./theme-colours.js";
import { marksOf } from "./time-axis.js";
import { bucketAt, Points, WINDOWS } from "./track.js";

/** Series of a table: those of more are left out, and the table says so. */
const SERIES_MAX = 512;

/** `view`: the NodeView. */
export async function nodeCard(view) {
  const panels = view.board.panels.filter((panel) => !panel.root.hidden).sort(inOrderOfPage);
  const { from, to } = view.time.shown;
  const pictures = view.time.past ? await view.past.whole(panels) : null;
  const now = { edge: view.edge, tier: view.tier, offset: view.board.offset };
  const width = view.board.root.clientWidth;
  return {
    name: view.line.node ?? "node",
    from,
    to,
    link: view.linkTo(from, to),
    width,
    parts: panels.map((panel) => partOf(panel, { from, to, width, now, picture: pictures?.get(panel), value: view.numbers.reader(panel, NaN).value })),
    table: tableOfPanels(panels, { from, to, now, pictures }),
    match: view.line.patterns,
  };
}

const inOrderOfPage = (a, b) => (a.root.compareDocumentPosition(b.root) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);

function partOf(panel, { from, to, width, now, picture, value }) {
  return {
    title: panel.title,
    legend: panel.values.map(({ label, source }) => ({ label, text: panel.textOf(source, value), colour: label && panel.series.includes(source) ? colours.series[source.colour] : null })),
    note: panel.note.textContent,
    share: panel.root.offsetWidth / width,
    height: panel.frame.clientHeight,
    marks: (wide) => marksOf(from, to, wide),
    draw: (layer) => {
      const [trace, axes] = [layer(), layer()];
      const frame = { querySelector: (selector) => (selector === ".axes" ? axes : trace) };
      const twin = panel.heat ? new Heat(frame, panel.picture.tracks) : new Plot(frame, panel.picture);
      if (picture) twin.drawPast(picture);
      else if (!Number.isNaN(now.edge)) twin.draw(now.edge, now.tier, performance.now());
    },
  };
}

/** What the panels show as numbers: the points of their curves. */
function tableOfPanels(panels, { from, to, now, pictures }) {
  const all = panels.flatMap((panel) => panel.series.map((series) => ({ panel, series })));
  const series = all.slice(0, SERIES_MAX).map(({ panel, series }) => ({
    name: [panel.title, series.label].filter((part) => part).join(": "),
    unit: series.format.unit ?? "",
    points: pictures ? pastPoints(pictures.get(panel)?.trackOf(series.track)) : livePoints(series.track, now),
  }));
  const inside = series.map((one) => ({ ...one, points: one.points.filter(([time]) => time >= from && time <= to) }));
  const left = all.length - series.length;
  return { ...tableOf(inside), notes: left > 0 ? [`${left} series more than ${SERIES_MAX} are left out`] : [] };
}

function livePoints(track, { edge, tier, offset }) {
  const { step, span } = WINDOWS[tier];
  const points = new Points().collect(track, tier, bucketAt(tier, edge - span), bucketAt(tier, edge));
  return listed(points, (bucket) => (bucket + 0.5) * step + offset);
}

function pastPoints(track) {
  if (!track) return [];
  return listed(new Points().collect(track), (bucket) => track.from + (bucket + 0.5) * track.step);
}

const listed = ({ length, bucket, mean, low, high }, timeOf) => Array.from({ length }, (_, i) => [timeOf(bucket[i]), mean[i], low[i], high[i]]);
