// Where every tile goes: groups of nodes, each in rows, in the largest size that fits the screen. It refuses to
// draw, and knows no values.

import { byName, fold, split } from "./hostlist.js";

/**
 * Sizes in CSS pixels, the largest first. Those with `font` have room for a name (its height in pixels) and the last minute
 * as a line; `value`: where its number stands. Names are worth some scrolling: such tiles may take `screens` of the room.
 */
const SIZES = [
  { width: 400, height: 170, gap: 8, font: 16, value: "beside", screens: 1 },
  { width: 260, height: 108, gap: 6, font: 14, value: "beside", screens: 1 },
  { width: 200, height: 80, gap: 5, font: 13, value: "beside", screens: 1 },
  { width: 150, height: 60, gap: 4, font: 12, value: "beside", screens: 1 },
  { width: 112, height: 54, gap: 4, font: 12, value: "below", screens: 1 },
  { width: 92, height: 50, gap: 3, font: 11, value: "below", screens: 1.25 },
  { width: 64, height: 28, gap: 3, font: 10, value: "", screens: 1.75 },
  { width: 34, height: 26, gap: 3, screens: 1 },
  { width: 26, height: 20, gap: 2, screens: 1 },
  { width: 20, height: 16, gap: 2, screens: 1 },
  { width: 15, height: 13, gap: 1, screens: 1 },
  { width: 13, height: 12, gap: 1, screens: 1 },
  { width: 11, height: 11, gap: 1, screens: 1 },
  { width: 10, height: 10, gap: 1, screens: 1 },
  { width: 9, height: 9, gap: 1, screens: 1 },
];
export const LABEL_HEIGHT = 20;
const GROUP_GAP = 8;
/** With more groups than this for each hundred nodes the names have nothing in common that orders them. */
const GROUPS_PER_HUNDRED = 26;

/** Nodes (indices into `names`) by what their names have in common, each group and each node in natural order. */
export function groupsByName(names, shown) {
  const groups = new Map();
  const sorted = [...shown].sort((a, b) => byName(names[a], names[b]));
  for (const at of sorted) {
    const { prefix, suffix } = split(names[at]);
    const key = `${prefix}\0${suffix}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(at);
  }
  if (groups.size > 3 && groups.size * 100 > sorted.length * GROUPS_PER_HUNDRED) return [{ label: "", nodes: sorted }];
  return [...groups].map(([key, nodes]) => ({ label: groups.size > 1 ? labelOf(key, nodes.map((at) => names[at])) : "", nodes }));
}

/** `node[001-128]` where that is all of it, else `node*`. */
function labelOf(key, members) {
  const folded = fold(members);
  const short = folded.length <= 40 ? folded : key.replace("\0", "*");
  return members.length > 1 ? `${short}  ·  ${members.length.toLocaleString("en")}` : short;
}

export class Layout {
  /** Places `groups` of indices into `width` CSS pixels, of which `room` in height are on the screen. */
  constructor(groups, width, room) {
    this.groups = groups;
    this.size = SIZES.find((size) => heightOf(groups, columnsIn(width, size), size) <= room * size.screens) ?? SIZES.at(-1);
    this.columns = columnsIn(width, this.size);
    const { gap, font } = this.size;
    /** Wide tiles share what is left of the row; small ones would only get blurred edges. */
    this.width = font ? Math.min(1.5 * this.size.width, Math.floor((width + gap) / this.columns) - gap) : this.size.width;
    this.height = this.size.height;
    this.stepX = this.width + gap;
    this.stepY = this.height + gap;
    this.total = 0;
    /** {label, top, first, count} for each group; `top` is that of its tiles. */
    this.blocks = [];
    /** The node at each place, and the place of each node. */
    this.order = [];
    this.placeOf = new Map();
    for (const { label, nodes } of groups) {
      const top = this.total + (label ? LABEL_HEIGHT : 0);
      this.blocks.push({ label, top, first: this.order.length, count: nodes.length });
      for (const at of nodes) this.placeOf.set(at, this.order.push(at) - 1);
      this.total = top + Math.ceil(nodes.length / this.columns) * this.stepY + GROUP_GAP;
    }
  }

  /** Left upper corner of a place. */
  corner(place) {
    const block = this.blocks[this.blockOf(place)];
    const within = place - block.first;
    return [(within % this.columns) * this.stepX, block.top + Math.floor(within / this.columns) * this.stepY];
  }

  /** The place at a point; -1 where there is none. */
  at(x, y) {
    const column = Math.floor(x / this.stepX);
    if (column < 0 || column >= this.columns) return -1;
    for (const block of this.blocks) {
      const row = Math.floor((y - block.top) / this.stepY);
      const within = row * this.columns + column;
      if (y >= block.top && row >= 0 && within < block.count) return block.first + within;
    }
    return -1;
  }

  /** The place a step to the side of `place`, or the same where there is none. */
  neighbour(place, key) {
    const last = this.order.length - 1;
    if (key === "Home") return 0;
    if (key === "End") return last;
    if (key === "ArrowLeft") return Math.max(0, place - 1);
    if (key === "ArrowRight") return Math.min(last, place + 1);
    const [x, y] = this.corner(place);
    const down = key === "ArrowDown";
    // Into the next row, over a heading where one stands between, and to the end of a row that is shorter.
    for (let step = 1; step <= 4; step++) {
      for (let back = 0; back < this.columns; back++) {
        const found = this.at(x - back * this.stepX, y + (down ? 1 : -1) * step * Math.min(this.stepY, LABEL_HEIGHT + GROUP_GAP));
        if (found >= 0 && found !== place && this.corner(found)[1] !== y) return found;
      }
    }
    return place;
  }

  blockOf(place) {
    let block = 0;
    while (block + 1 < this.blocks.length && this.blocks[block + 1].first <= place) block++;
    return block;
  }
}

const columnsIn = (width, { width: tile, gap }) => Math.max(1, Math.floor((width + gap) / (tile + gap)));

function heightOf(groups, columns, { height, gap }) {
  return groups.reduce(
    (sum, { label, nodes }) => sum + (label ? LABEL_HEIGHT : 0) + Math.ceil(nodes.length / columns) * (height + gap) + GROUP_GAP,
    0,
  );
}
