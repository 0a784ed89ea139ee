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
    // A frame that comes later is not on the paper.
    shown().view?.paintNow?.();
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    shown().view?.leavePaper?.();
    repaint();
  });
}

/** The time that is shown, with its day and zone. */
function timeOf(view) {
  const now = Date.now() / 1_000;
  const { from, to } = view?.time?.shown ?? { from: now, to: now };
  const day = new Date(to * 1_000).toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" });
  return `${day}, ${from === to ? exactText(to, 60, to) : windowText(from, to, to)} (${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
}
