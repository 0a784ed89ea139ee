// The reader's choice of light or dark, applied before the first paint so that nothing flashes. Without a choice
// the system's preference holds (see style.css). This is no module: those run only after the page was parsed.

(() => {
  const KEY = "khz-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // Storage may be forbidden; the choice then lasts as long as the page.
    }
  }

  const choice = stored();
  if (choice === "light" || choice === "dark") root.dataset.theme = choice;

  window.khzTheme = {
    current: () => root.dataset.theme ?? (system.matches ? "dark" : "light"),
    toggle() {
      const next = this.current() === "dark" ? "light" : "dark";
      root.dataset.theme = next;
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // As above.
      }
      window.dispatchEvent(new Event("khz-theme"));
    },
  };
  system.addEventListener("change", () => window.dispatchEvent(new Event("khz-theme")));
})();
