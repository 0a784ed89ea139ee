// What tests and the curious may read of the page: counts and states, never a way in. It refuses to change anything but the
// counts of frames, and to ask for what the page would ask for anyway.

/** `shown()`: {name, view, alertCount}. */
export function probe(shown) {
  const find = (selector) => document.querySelector(selector);
  const of = (...names) => (names.includes(shown().name) ? shown().view : null);
  const node = () => of("node");
  const cluster = () => of("cluster");
  const waterfall = () => of("waterfall");
  const alerts = () => of("alerts");
  return {
    get view() { return document.body.dataset.view; },
    get state() { return find("#state").dataset.state; },
    get firing() { return find("#alerts-link b").textContent; },
    refreshAlerts: () => alerts()?.refresh() ?? shown().alertCount?.refresh(),
    get framesDrawn() { return node()?.frames.drawn; },
    get framesSeen() { return node()?.frames.seen; },
    get framesDropped() { return node()?.frames.dropped; },
    get frameMs() { return node()?.frames.frameMs; },
    get drawingMs() { return node()?.frames.busyMs; },
    resetFrames: () => node()?.frames.reset(),
    get rows() { return node()?.heading.rows; },
    get lost() { return node()?.heading.lost; },
    get rate() { return node()?.controls.rate; },
    get rateReached() { return node()?.heading.reached; },
    get newest() { return node()?.board.time; },
    get oldest() { return node()?.board.oldest; },
    get panels() { return node()?.board.panels.map((p) => ({ title: p.title, hidden: p.root.hidden, last: p.series.map((s) => s.track.last) })); },
    get time() { return node()?.past?.forTests(); },
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
    get chosen() { return of("cluster", "waterfall")?.choice.names; },
    cell: (name, back) => waterfall()?.cell(name, back),
    get waterfall() {
      const v = waterfall();
      return v && { nodes: v.names.length, shown: v.shown.length, edge: v.cells.edge, columns: v.cells.columns, known: v.facts?.known, down: v.facts?.gone[0].length, rowHeight: v.picture.layout?.rowHeight, steps: v.picture.shown, repaints: v.picture.repaints, copies: v.picture.copies, order: v.picture.layout?.order.map((at) => v.names[at]) };
    },
    get own() { return (of("board")?.panels ?? node()?.more?.own)?.forTests(); },
    get ranks() { return node()?.more?.table.forTests(); },
    get query() { const v = of("query"); return v && { state: v.state, series: v.answer?.series.length, drawn: v.lines?.length }; },
    get alerts() { const v = alerts(); return v && { state: v.state, rules: v.list?.rules.length, firing: v.list?.firing, pending: v.list?.pending, plots: v.open.map(({ detail }) => detail?.state) }; },
    get ranges() {
      const v = of("compare", "sums");
      const lines = (p) => p.lines.map(({ label, runs, colour, dashed, shown }) => ({ label, points: runs.flat().length, colour, dashed, shown: shown.textContent }));
      return v && { rounds: v.panels.rounds, nodes: v.nodes, panels: v.panels.panels.map((p) => ({ title: p.title, note: p.note.textContent, lines: lines(p) })) };
    },
  };
}
