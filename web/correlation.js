// How alike two lines are: Pearson's correlation of the values that both have at the same times. It refuses to say
// anything of lines that are level, or that share only few times.

/** Times that both must have. */
const COMMON_MIN = 10;

/** From -1 to 1; NaN where nothing can be said. `runs`: [[[time, value]…]…]. */
export function correlation(one, other) {
  const values = new Map(other.flat());
  const pairs = one.flat().flatMap(([time, value]) => (values.has(time) ? [[value, values.get(time)]] : []));
  if (pairs.length < COMMON_MIN) return NaN;
  const mean = (i) => pairs.reduce((sum, pair) => sum + pair[i], 0) / pairs.length;
  const [a, b] = [mean(0), mean(1)];
  let [ab, aa, bb] = [0, 0, 0];
  for (const [x, y] of pairs) {
    ab += (x - a) * (y - b);
    aa += (x - a) ** 2;
    bb += (y - b) ** 2;
  }
  // A level line is like none: what is left of it are roundings.
  const isLevel = (squares, middle) => squares <= pairs.length * (1e-9 * Math.abs(middle)) ** 2;
  return isLevel(aa, a) || isLevel(bb, b) ? NaN : ab / Math.sqrt(aa * bb);
}
