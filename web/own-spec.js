// What a panel of one's own shows, as the address and files of boards write it. It refuses what does not fit into an address that can
// be sent.

/** Panels of a page. More would be slow to read and to ask for. */
export const PANELS_MAX = 24;
/** Characters that panels may take of an address: mail and chat programs cut longer ones. */
export const ADDRESS_MAX = 6_000;
/** Characters of a pattern or a query. */
export const EXPRESSION_MAX = 2_000;
export const TITLE_MAX = 80;

export const KINDS = { line: "lines", stack: "stacked", heat: "heat map" };
const LETTERS = { l: "line", s: "stack", h: "heat" };

/** A pattern: `net.rx_bytes[eth*]`, `node[1-3]:cpu.*`. Its metric has a dot or a wildcard, which a name of PromQL does not have. */
const PATTERN = /^(?:(?:\[[^\]]*\]|[^\s:[\](){}"=])+:)?([a-z*?][a-z0-9_.*?]*)(?:\[[^\]]*\])?$/;

/** True for text that can only be meant as a pattern of series. */
export function isPattern(text) {
  const metric = PATTERN.exec(text)?.[1];
  return metric !== undefined && /[.*?]/.test(metric);
}

/** Nodes and the rest of a pattern; without nodes `hosts` is "". */
export function splitPattern(pattern) {
  const found = /^((?:\[[^\]]*\]|[^:[\]])+):(.+)$/s.exec(pattern);
  return found ? { hosts: found[1], series: found[2] } : { hosts: "", series: pattern };
}

/** The panel that a typed text means: a query if it begins with `=` or is no pattern. Null: nothing is typed. */
export function specOf(text) {
  const typed = text.trim();
  const expression = typed.replace(/^=\s*/, "").slice(0, EXPRESSION_MAX);
  if (!expression) return null;
  return typed[0] !== "=" && isPattern(expression) ? spec({ match: expression }) : spec({ query: expression });
}

/** A panel with everything that is left out. */
export function spec({ match, query, title = "", kind = "line", wide = false }) {
  return { match, query, title: title.replaceAll("*", "").slice(0, TITLE_MAX), kind: Object.hasOwn(KINDS, kind) ? kind : "line", wide: Boolean(wide) };
}

export const titleOf = ({ title, match, query }) => title || match || query;

/** The panels that an address names, and how many of them there is no room for. */
export function readPanels(asked) {
  const all = asked.getAll("p").map(read).filter((panel) => panel);
  return { panels: all.slice(0, PANELS_MAX), leftOut: Math.max(0, all.length - PANELS_MAX) };
}

function read(text) {
  const found = /^([lsh])(w?)\*([^*]*)\*(.+)$/s.exec(text);
  if (!found || found[4].length > EXPRESSION_MAX) return null;
  const [, letter, wide, title, expression] = found;
  const what = expression[0] === "=" ? { query: expression.slice(1) } : { match: expression };
  return spec({ ...what, title, kind: LETTERS[letter], wide });
}

/** The panels as a part of an address: `p=l**net.rx_bytes%5Beth0%5D&p=...`; "": there are none. */
export function writePanels(panels) {
  return panels.map((panel) => `p=${escaped(write(panel))}`).join("&");
}

function write({ match, query, title, kind, wide }) {
  return `${kind[0]}${wide ? "w" : ""}*${title}*${match ?? `=${query}`}`;
}

/** Only what would end the value, or what mail and chat programs take for the end of a link. */
function escaped(text) {
  return encodeURIComponent(text).replace(/%(3A|2C|3D|2F|40|3F)/g, decodeURIComponent);
}

/** Why these panels cannot be in one address; "": they can. */
export function whyNot(panels) {
  if (panels.length > PANELS_MAX) return `A page has at most ${PANELS_MAX} panels. Remove one first.`;
  if (writePanels(panels).length > ADDRESS_MAX) return `The panels take more than the ${ADDRESS_MAX} characters that an address has for them. Save the board as a file, or remove one first.`;
  return "";
}
