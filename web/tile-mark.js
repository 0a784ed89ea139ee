// The second number of every tile, drawn as a bar: a stream of its own, beside that of the colours. It refuses to guess:
// while the two lists of nodes differ, no node has a mark.

import { fillMeasures } from "./measure-choice.js";
import { addressOf, formatOf, isBinary, measureOf } from "./measures.js";
import { TileScale } from "./tile-scale.js";
import { TileStream } from "./tile-stream.js";

const NONE = { id: "none", label: "none" };

export class TileMark {
  /** `list` is where it is chosen, `asked` what the address says; `on` hears changed() and chosen(). */
  constructor(list, asked, signal, on) {
    this.on = on;
    this.names = [];
    this.values = new Float64Array(0);
    this.format = String;
    this.measure = asked ? measureOf(asked) : null;
    this.stream = new TileStream({
      nodes: ({ nodes, unit }) => this.takeNodes(nodes, unit),
      tiles: ({ v }) => this.takeTiles(v),
      notice: () => {}, // The colours' stream says the same.
      state: (state) => {
        if (state === "waiting") this.values.fill(NaN);
      },
    });
    fillMeasures(list, this.measure ?? NONE, [NONE]);
    list.addEventListener("change", () => this.choose(list.value === NONE.id ? null : measureOf(list.value)), { signal });
    signal.addEventListener("abort", () => this.stream.close());
    this.choose(this.measure);
  }

  choose(measure) {
    this.measure = measure;
    this.values = new Float64Array(0);
    this.scale = measure && new TileScale(measure);
    if (measure) this.stream.open(addressOf(measure));
    else this.stream.close();
    this.on.chosen();
    this.on.changed();
  }

  takeNodes(names, unit) {
    this.names = names;
    this.format = formatOf(unit);
    this.isBinary = isBinary(unit);
    this.values = new Float64Array(names.length).fill(NaN);
  }

  takeTiles(v) {
    for (let at = 0; at < this.values.length; at++) this.values[at] = v[at] ?? NaN;
    this.scale.fit(this.values, this.isBinary, performance.now());
    this.on.changed();
  }

  /** True while it has numbers of just these nodes. */
  fits(names) {
    return this.measure !== null && names.length === this.values.length && names.every((name, at) => name === this.names[at]);
  }

  /** How much of a tile's width its bar takes; NaN: the number is unknown. */
  share(node) {
    return Math.min(1, Math.max(0, this.values[node] / this.scale.top));
  }
}
