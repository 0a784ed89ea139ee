// What a typed text finds among many names: each word has to be found, as it is or with letters left out, and what begins a word counts
// most. The work is cut into slices, so that a frame is never late. It refuses to know what the names are of.

/** Names that are searched: as many as a hub has of nodes and metrics together. */
export const NAMES_MAX = 131_072;
/** Names between two looks at the clock. */
const AT_ONCE = 256;
/** A slice of the work lasts this long; a frame has 16 ms. */
const SLICE_MS = 4;

/** What a word in a name is worth: at the begin of the name, of one of its parts, anywhere, or with letters left out. */
const [WHOLE, BEGIN, PART, INSIDE, FUZZY, IN_HELP] = [120, 100, 80, 60, 40, 20];
/** Letters that may be left out, and what each costs. */
const SKIPPED_MAX = 24;
/** Longer names say less of what was typed. */
const LENGTH_COST = 0.25;

const isLetter = (code) => (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code > 127;

/** How well `words` (in small letters) fit: more is better, 0 is not at all. */
export function score(words, name, help) {
  let sum = 0;
  for (const word of words) {
    const found = wordScore(word, name) || (help.includes(word) ? IN_HELP : 0);
    if (found === 0) return 0;
    sum += found;
  }
  return Math.max(1, sum - LENGTH_COST * name.length);
}

function wordScore(word, name) {
  const at = name.indexOf(word);
  if (at === 0) return word.length === name.length ? WHOLE : BEGIN;
  if (at > 0) {
    // A later place may begin a part: `bytes` in `kilobytes.bytes`.
    for (let place = at; place > 0; place = name.indexOf(word, place + 1)) if (!isLetter(name.charCodeAt(place - 1))) return PART;
    return INSIDE;
  }
  return word.length > 1 ? fuzzy(word, name) : 0;
}

/** The letters of `word` in their order, with others between them; the first one begins a part. */
function fuzzy(word, name) {
  let best = 0;
  for (let start = name.indexOf(word[0]); start >= 0; start = name.indexOf(word[0], start + 1)) {
    if (start > 0 && isLetter(name.charCodeAt(start - 1))) continue;
    let skipped = 0;
    let at = start;
    let i = 1;
    for (; i < word.length; i++) {
      const next = name.indexOf(word[i], at + 1);
      if (next < 0) break;
      // Letters between are skipped; what is none costs nothing.
      for (let k = at + 1; k < next; k++) if (isLetter(name.charCodeAt(k))) skipped++;
      at = next;
    }
    if (i === word.length && skipped <= SKIPPED_MAX) best = Math.max(best, FUZZY - skipped);
  }
  return best;
}

/** The best of many, in order. */
class Best {
  constructor(most) {
    this.most = most;
    this.list = [];
  }

  add(entry, score) {
    const { list, most } = this;
    if (list.length === most && score <= list[most - 1].score) return;
    let at = list.length;
    while (at > 0 && list[at - 1].score < score) at--;
    list.splice(at, 0, { entry, score });
    if (list.length > most) list.pop();
  }
}

export class Search {
  /** `entries`: [{name, help, weight}] in small letters; weight is added to what fits. */
  constructor(entries, most) {
    this.entries = entries.length > NAMES_MAX ? entries.slice(0, NAMES_MAX) : entries;
    this.most = most;
    this.turn = 0;
    /** The longest slice of the last search, for tests. */
    this.sliceMs = 0;
  }

  /** The best entries for `text`; null: another search has begun meanwhile. */
  async find(text) {
    const turn = ++this.turn;
    const words = text.toLowerCase().split(/\s+/).filter((word) => word);
    const best = new Best(this.most);
    this.sliceMs = 0;
    let begun = performance.now();
    for (let at = 0; at < this.entries.length; at++) {
      if (at % AT_ONCE === 0 && performance.now() - begun > SLICE_MS) {
        this.sliceMs = Math.max(this.sliceMs, performance.now() - begun);
        await rest();
        if (turn !== this.turn) return null;
        begun = performance.now();
      }
      const entry = this.entries[at];
      const fit = words.length === 0 ? 1 : score(words, entry.name, entry.help);
      if (fit > 0) best.add(entry, fit + entry.weight);
    }
    return best.list.map(({ entry }) => entry);
  }

  /** What is still searched for is not wanted any more. */
  stop() {
    this.turn++;
  }
}

/** Lets the browser paint and hear of keys. */
function rest() {
  return new Promise((then) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      then();
    };
    port2.postMessage(0);
  });
}
