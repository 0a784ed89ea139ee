// The page on paper: in light colours, without controls, with the address and the time at the foot. It refuses to leave anything of
// that on the screen.

import { element } from "./element.js";
import { exactText, windowText } from "./moment.js";

/** `shown()`: {name, view}; `repaint()` draws the view in other colours. */
export function hearPrinting(shown, repaint) {
  const root = document.documentElement;
  const foot = element("p", { classes: "print-foot" });
  document.body.append(foot);
  document.head.append(element("link", { rel: "stylesheet", href: "print.css", media: "print" }));
  let theme = null;
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    foot.textContent = `${location.href} · ${timeOf(shown().view)}`;
    repaint();
    paint(shown());
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    // On the screen the plots go on.
    if (shown().view) shown().view.isOnPaper = false;
    repaint();
  });
}

/** Draws the view now: paper waits for no frame, and has what is not on the screen. */
function paint({ name, view }) {
  if (!["node", "board"].includes(name)) return view?.paintNow?.();
  if (!view) return;
  const panels = name === "node" ? [...view.board.panels, ...(view.more?.ownPanels ?? [])] : view.ownPanels;
  const unseen = panels.filter((panel) => !panel.shown);
  for (const panel of unseen) panel.shown = true;
  view.draw(performance.now());
  for (const panel of unseen) panel.shown = false;
  // Chromium prints a canvas by its commands, and what was cleared as white: the axes would cover the curves.
  for (const { picture } of panels) if (picture.axes) flatten(picture.axes);
  view.isOnPaper = true;
}

/** Makes pixels of what a canvas has. */
function flatten(canvas) {
  const { width, height } = canvas;
  const context = canvas.getContext("2d");
  if (width > 1) context.putImageData(context.getImageData(0, 0, width, height), 0, 0);
}

/** The time that is shown, with its day and zone. */
function timeOf(view) {
  const now = Date.now() / 1_000;
  const { from, to } = view?.time?.shown ?? { from: now, to: now };
  const day = new Date(to * 1_000).toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" });
  return `${day}, ${from === to ? exactText(to, 60, to) : windowText(from, to, to)} (${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
}
