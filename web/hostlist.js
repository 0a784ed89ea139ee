// Node names as people of clusters write them: hostlists and globs (node[001-128,200], gpu*), their natural order,
// what names have in common, and the way back from names to a hostlist. It refuses to expand: matching costs the
// same for ten nodes as for a billion.

const collator = new Intl.Collator("en", { numeric: true });

/** Natural order: node9 before node10. */
export const byName = collator.compare;

/**
 * A function that tells whether a name is meant by `text`: hostlists and globs, separated by blanks or commas; a
 * word without marks is found anywhere in a name. Throws a sentence where a bracket is wrong.
 */
export function matcher(text) {
  const lists = words(text).map((word) => (/[[\]*?]/.test(word) ? parts(word) : parts(`*${word}*`)));
  return lists.length === 0 ? () => true : (name) => lists.some((list) => matches(list, 0, name, 0));
}

/** The same for a hostlist as the server has it: a word without marks is a whole name. */
export function hostlistMatcher(text) {
  const lists = words(text).map(parts);
  return (name) => lists.some((list) => matches(list, 0, name, 0));
}

/** The names of a hostlist without globs, `most` of them at most: ranges longer than that are cut. */
export function hostlistNames(text, most) {
  const names = [];
  for (const word of words(text)) {
    let found = [""];
    try {
      for (const { glob, ranges } of parts(word)) {
        const ends = glob === undefined ? ranges.flatMap((range) => numbers(range, most)) : [glob];
        found = found.flatMap((start) => ends.map((end) => start + end)).slice(0, most);
      }
    } catch {
      continue;
    }
    names.push(...found.filter((name) => name && !/[*?]/.test(name) && !names.includes(name)));
  }
  return names.slice(0, most);
}

/** The numbers of a range as they are written, `most` at most. */
function numbers({ first, last, width }, most) {
  return Array.from({ length: Math.min(most, last - first + 1) }, (_, i) => String(first + i).padStart(width, "0"));
}

/** A hostlist as a regular expression that matches whole names, for PromQL; ranges become alternatives. */
export function hostlistPattern(text, most) {
  const literal = (glob) => glob.replace(/[.\\+()|{}^$]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  const one = (word) => parts(word).map(({ glob, ranges }) => (glob === undefined ? `(?:${ranges.flatMap((range) => numbers(range, most)).join("|")})` : literal(glob))).join("");
  return words(text).map(one).join("|");
}

/** Split at blanks and at commas outside brackets. */
function words(text) {
  return text.match(/(?:\[[^\]]*\]?|[^\s,[])+/g) ?? [];
}

function parts(word) {
  const found = [];
  for (const piece of word.match(/\[[^\]]*\]?|[^[]+/g) ?? []) {
    if (piece[0] !== "[") {
      if (piece.includes("]")) throw new Error("']' without '['");
      found.push({ glob: piece });
    } else if (!piece.endsWith("]")) {
      throw new Error("'[' is never closed");
    } else {
      found.push({ ranges: piece.slice(1, -1).split(",").map(range) });
    }
  }
  return found;
}

/** `001-128` as numbers with their width; 0 when they are not padded. */
function range(text) {
  const found = /^(\d+)(?:-(\d+))?$/.exec(text.trim());
  if (!found) throw new Error("brackets hold numbers and ranges, as [1-8,12]");
  const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
  if (first > last) throw new Error("the range runs backwards");
  return { first, last, width: found[1].length > 1 && found[1][0] === "0" ? found[1].length : 0 };
}

/** Whether `name` from `at` on is what `list` from `part` on says. */
function matches(list, part, name, at) {
  if (part === list.length) return at === name.length;
  const { glob, ranges } = list[part];
  if (ranges) {
    for (let end = at + 1; end <= name.length && name[end - 1] >= "0" && name[end - 1] <= "9"; end++) {
      const digits = name.slice(at, end);
      if (ranges.some((r) => within(r, digits)) && matches(list, part + 1, name, end)) return true;
    }
    return false;
  }
  return globbed(glob, 0, name, at, (end) => matches(list, part + 1, name, end));
}

function within({ first, last, width }, digits) {
  const padded = digits.length > 1 && digits[0] === "0";
  const fits = width > 0 ? digits.length === Math.max(width, String(Number(digits)).length) : !padded;
  const n = Number(digits);
  return fits && first <= n && n <= last;
}

/** Tries every end that the glob may have, until `then` is content with one. */
function globbed(glob, g, name, at, then) {
  for (; g < glob.length; g++, at++) {
    if (glob[g] === "*") {
      for (let end = at; end <= name.length; end++) if (globbed(glob, g + 1, name, end, then)) return true;
      return false;
    }
    if (at >= name.length || (glob[g] !== "?" && glob[g] !== name[at])) return false;
  }
  return then(at);
}

/** `rack1-node007` as what comes before its last number, and that number's digits. */
export function split(name) {
  const found = /^(.*?)(\d+)(\D*)$/.exec(name);
  return found ? { prefix: found[1], digits: found[2], suffix: found[3] } : { prefix: name, digits: "", suffix: "" };
}

/** Names as few words as say the same: `gpu[3-4],node[001-128,200]`. */
export function fold(names) {
  const groups = new Map();
  for (const name of [...names].sort(byName)) {
    const { prefix, digits, suffix } = split(name);
    const width = digits.length > 1 && digits[0] === "0" ? digits.length : 0;
    const open = [...(groups.get(`${prefix}\0${suffix}`) ?? [])].pop();
    const n = Number(digits);
    if (open && digits && n === open.last + 1 && String(n).padStart(open.width, "0") === digits) open.last = n;
    else {
      const key = `${prefix}\0${suffix}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push({ digits, first: n, last: n, width });
    }
  }
  return [...groups].map(([key, ranges]) => {
    const [prefix, suffix] = key.split("\0");
    const shown = ranges.map(({ digits, first, last, width }) =>
      last > first ? `${digits}-${String(last).padStart(width, "0")}` : digits,
    );
    const alone = shown.length === 1 && !shown[0].includes("-");
    return alone ? `${prefix}${shown[0]}${suffix}` : `${prefix}[${shown.join(",")}]${suffix}`;
  }).join(",");
}
