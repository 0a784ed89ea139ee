// The list in which a measure is chosen, and the links from one view of all nodes to another, which keep the choice.
// It refuses to know what is done with it.

import { ask } from "./ask.js";
import { element } from "./element.js";
import { MEASURE_DEFAULT, namedMeasures } from "./measures.js";

/** Characters that are shown of a name in the address. */
const ASKED_SHOWN_MAX = 60;

const option = ({ id, label }) => element("option", { value: id, text: label });

/** Fills a list: `none` if nothing may be chosen, then the measures by name. One that is neither stands last. */
export function fillMeasures(list, measure, none = []) {
  list.replaceChildren(...none.map(option), element("optgroup", { label: "Usual" }, ...namedMeasures().map(option)));
  if (![...namedMeasures(), ...none].includes(measure)) list.append(option(measure));
  list.value = measure.id;
}

/** Adds every metric that the server knows to these lists. Resolves to what is chosen in them and unknown to the server. */
export async function addCatalogue(lists, signal) {
  // Without the catalogue the usual ones are still there.
  const { metrics } = await ask("khz/v1/catalog", signal).catch(() => ({ metrics: [] }));
  const unknown = [];
  if (signal.aborted || metrics.length === 0) return unknown;
  for (const list of lists) {
    const chosen = list.value;
    list.querySelector(":scope > option:last-child:not(:first-child)")?.remove();
    const options = metrics.map(({ name }) => option({ id: name, label: name }));
    list.append(element("optgroup", { label: "Any metric; instances added up" }, ...options));
    list.value = chosen;
    if (list.value === chosen) continue;
    // What the address asks for stays to be seen.
    unknown.push(chosen);
    list.append(option({ id: chosen, label: chosen }));
    list.value = chosen;
  }
  return unknown;
}

/** What an address asks for that cannot be a metric, in words; "" where it can. */
export function problemOf(asked, measure) {
  return !asked || asked === measure.id ? "" : `${asked.slice(0, ASKED_SHOWN_MAX)} in the address is no metric: ${measure.label} is shown.`;
}

/** The addresses of the views of all nodes, with what they have in common. */
const VIEWS = {
  tiles: (asked) => address(asked, { measure: "metric" }),
  waterfall: (asked) => address(asked, {}, "view=waterfall"),
  sums: ({ measure, group }) => address({ measure, group }, {}, "view=sums"),
};

function address({ measure, find, group }, names, start = "") {
  const hash = new URLSearchParams(start);
  if (measure !== MEASURE_DEFAULT) hash.set(names.measure ?? "measure", measure.id);
  if (group) hash.set("group", group);
  if (find) hash.set("find", find);
  return `#${hash}`;
}

/** Links to the other views, in `place`; `here` is shown. */
export function linkViews(place, here, asked) {
  const links = Object.entries(VIEWS).map(([name, of]) =>
    element("a", { text: name, href: of(asked), ...(name === here ? { "aria-current": "page" } : {}) }),
  );
  place.replaceChildren(...links);
}
