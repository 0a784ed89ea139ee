// Style sheets of parts that come when somebody wants them. It refuses to know what is in them.

import { element } from "./element.js";

/** Loads a style sheet of parts that most readers never open; resolves when it holds. */
export function loadStyle(href) {
  const known = document.querySelector(`link[href="${href}"]`);
  const style = known ?? element("link", { rel: "stylesheet", href });
  if (!known) document.head.append(style);
  return style.sheet ? Promise.resolve() : new Promise((then) => ["load", "error"].forEach((name) => style.addEventListener(name, then, { once: true })));
}
