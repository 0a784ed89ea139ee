// The markup and the looks of what comes after the first picture: other views than a node's and the tiles, and dialogs. It refuses to
// know what is in them.

import { ANSWER_MS_MAX } from "./ask.js";
import { element } from "./element.js";

let coming = null;

/** Adds both to the page, once; resolves when they are there. What failed is tried again by the next one who needs it. */
export function addLater() {
  coming ??= add().catch((error) => {
    coming = null;
    throw error;
  });
  return coming;
}

async function add() {
  const [markup] = await Promise.all([textOf("later.html"), styled("later.css")]);
  document.querySelector("noscript").before(...new DOMParser().parseFromString(markup, "text/html").body.children);
}

async function textOf(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
  if (!answer.ok) throw new Error(`the server answered ${answer.status} to ${path}`);
  return answer.text();
}

/** It stands before the styles of parts, which may overrule it. */
function styled(href) {
  const style = element("link", { rel: "stylesheet", href });
  document.querySelector("link[rel=stylesheet]").after(style);
  return new Promise((then, fail) => {
    style.addEventListener("load", then);
    style.addEventListener("error", () => {
      style.remove();
      fail(new Error(`${href} cannot be loaded`));
    });
  });
}
