// When the palette opens: Ctrl-K, the key k outside of fields, or its button. Its modules come then. It refuses to know what it finds.

export function hearPalette(button, page, notice) {
  const open = async () => {
    try {
      const { Palette } = await import("./palette.js");
      await Palette.open(page());
    } catch (error) {
      notice(`The search cannot be loaded: ${error.message}. Reload the page.`);
    }
  };
  button.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
    const isPlain = !event.ctrlKey && !event.metaKey;
    if (isPlain && event.target.closest("input, textarea, select, dialog")) return;
    event.preventDefault();
    open();
  });
}
