// The list in which a measure is chosen, and the links from one view of all nodes to another, which keep the choice.
// It refuses to know what is done with it.

import { MEASURE_DEFAULT, namedMeasures } from "./measures.js";
import { element } from "./element.js";

/** Fills a list: `none` if nothing may be chosen, the measures by name, then every metric that the server knows. */
export function fillMeasures(list, measure, signal, none = []) {
  const option = ({ id, label }) => element("option", { value: id, text: label });
  list.replaceChildren(...none.map(option), element("optgroup", { label: "Usual" }, ...namedMeasures().map(option)));
  const odd = namedMeasures().includes(measure) || none.includes(measure) ? null : option(measure);
  if (odd) list.append(odd);
  list.value = measure.id;
  fetch("khz/v1/catalog", { signal })
    .then((response) => response.json())
    .then(({ metrics }) => {
      const options = metrics.map(({ name }) => option({ id: name, label: name }));
      const chosen = list.value;
      odd?.remove();
      list.append(element("optgroup", { label: "Any metric; instances added up" }, ...options));
      list.value = chosen;
    })
    .catch(() => {}); // Without the catalogue the usual ones are still there.
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
