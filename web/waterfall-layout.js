// Where the rows of the waterfall go: groups of nodes one below the other, all rows of one height, as large as the
// screen has room for. It refuses to draw, and knows no values.

/** A row higher than this shows no more (CSS pixels)... */
const ROW_MAX = 40;
/** ...and one that is lower than this has no pixel. */
const ROW_MIN = 1;
/** A name needs this height; where rows are lower, some of them have their name. */
const NAME_HEIGHT = 12;
export const HEADING_HEIGHT = 20;
const GROUP_GAP = 6;

export class WaterfallLayout {
  /** Places `groups` of {label, nodes: indices}, with `room` CSS pixels in height on the screen. */
  constructor(groups, room) {
    const rows = groups.reduce((sum, { nodes }) => sum + nodes.length, 0);
    const between = groups.reduce((sum, { label }) => sum + (label ? HEADING_HEIGHT : 0) + GROUP_GAP, 0);
    this.rowHeight = Math.min(ROW_MAX, Math.max(ROW_MIN, Math.floor((room - between) / Math.max(1, rows))));
    /** Every how many rows have their name. */
    this.nameEvery = Math.ceil(NAME_HEIGHT / this.rowHeight);
    /** {label, top, first, count} for each group; `top` is that of its rows. */
    this.blocks = [];
    /** The node in each row, and the row of each node. */
    this.order = [];
    this.rowOf = new Map();
    this.total = 0;
    for (const { label, nodes } of groups) {
      const top = this.total + (label ? HEADING_HEIGHT : 0);
      this.blocks.push({ label, top, first: this.order.length, count: nodes.length });
      for (const at of nodes) this.rowOf.set(at, this.order.push(at) - 1);
      this.total = top + nodes.length * this.rowHeight + GROUP_GAP;
    }
  }

  /** The upper edge of a row. */
  top(row) {
    const block = this.blocks.findLast(({ first, count }) => first <= row && count > 0);
    return block.top + (row - block.first) * this.rowHeight;
  }

  /** The row at a height; -1: there is none. */
  at(y) {
    for (const { top, first, count } of this.blocks) {
      const row = Math.floor((y - top) / this.rowHeight);
      if (y >= top && row < count) return first + row;
    }
    return -1;
  }
}
