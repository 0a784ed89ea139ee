// From a number to a colour: a scale that gets steadily darker, or in the dark brighter, so that it reads the same
// to those who see no colours. It refuses to hide what lies beyond its end: that has the last colour, and the
// legend says "or more".

import { colours } from "./theme-colours.js";
import { roundUp } from "./units.js";

/** This share of the nodes is below the end of the scale; the rarest would make all others look idle. */
const BELOW = 0.99;
/** A scale shrinks when what is to be shown has been below this share of it... */
const SHRINK_BELOW = 0.4;
/** ...for this many milliseconds: colours that jump cannot be compared. */
const SHRINK_AFTER_MS = 10_000;

export class TileScale {
  /** `top` where it is fixed, else it grows with the values but not below `least`. */
  constructor({ top, least = 1 }) {
    this.fixed = top;
    this.least = least;
    this.top = top ?? 0;
    this.lowSince = NaN;
    /** Whether some values are beyond the end. */
    this.beyond = false;
  }

  /** Takes the values that are to be shown (NaN is unknown). */
  fit(values, binary, now) {
    const known = Float64Array.from(values).filter(Number.isFinite).sort();
    const high = known.length > 0 ? known[Math.floor((known.length - 1) * BELOW)] : 0;
    if (this.fixed === undefined) this.grow(roundUp(Math.max(high, this.least), binary), now);
    this.beyond = known.length > 0 && known[known.length - 1] > this.top;
  }

  grow(wanted, now) {
    if (wanted > this.top) this.top = wanted;
    if (wanted > this.top * SHRINK_BELOW) this.lowSince = NaN;
    else if (Number.isNaN(this.lowSince)) this.lowSince = now;
    else if (now - this.lowSince > SHRINK_AFTER_MS) this.top = wanted;
  }

  /** The step of the scale that a value has. */
  step(value) {
    const last = colours.tiles.length - 1;
    return Math.min(last, Math.max(0, Math.round((value / this.top) * last)));
  }
}
