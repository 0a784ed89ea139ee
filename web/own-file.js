// The text of a board's file: what is shown, as the server reads it. It refuses to write anything anywhere: a page may not.

import { element } from "./element.js";

/** Characters of a file's name. */
const NAME_MAX = 64;

export class BoardFile {
  /** `board`: {name, title, panels}; `folder`: where the server looks for boards, if it says. */
  constructor(board, folder) {
    const name = board.name || fileName(board.title) || "board";
    this.text = textOf(board);
    const path = `${folder ?? "/etc/khz/boards"}/${name}.toml`;
    const button = (text, then) => {
      const made = element("button", { type: "button", classes: "boxed", text });
      made.addEventListener("click", then);
      return made;
    };
    this.copied = element("p", { role: "status" });
    const pre = element("pre", { tabindex: "0", text: this.text, "aria-label": "The file" });
    // `visible` would write line breaks as signs.
    pre.textContent = this.text;
    this.root = element(
      "dialog",
      { classes: "own-file", "aria-labelledby": "own-file-title" },
      element("h2", { id: "own-file-title", text: "This board as a file" }),
      element("p", { text: `Put this text into ${path} on the server, and restart khz: then everybody finds the board under its name.` }),
      pre,
      element("div", { classes: "own-buttons" }, button("Copy", () => this.copy()), this.download(name), button("Close", () => this.root.close())),
      this.copied,
    );
    this.root.addEventListener("close", () => {
      URL.revokeObjectURL(this.url);
      this.root.remove();
    });
    document.body.append(this.root);
    this.root.showModal();
  }

  async copy() {
    const isCopied = await navigator.clipboard?.writeText(this.text).then(() => true, () => false);
    this.copied.textContent = isCopied ? "Copied." : "This browser does not let the page copy: select the text above.";
  }

  download(name) {
    const link = element("a", { classes: "boxed own-link", download: `${name}.toml`, text: "Download" });
    this.url = link.href = URL.createObjectURL(new Blob([this.text], { type: "application/toml" }));
    return link;
  }
}

/** A file's name out of a title: small letters, digits and dashes. */
const fileName = (title) =>
  title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, NAME_MAX);

/** A text as TOML quotes it: as JSON does, and DEL, too. */
const quoted = (text) => JSON.stringify(text).replaceAll("\u007f", "\\u007f");

export function textOf({ title, panels }) {
  const head = `title = ${quoted(title || "Board")}\n`;
  const parts = panels.map(({ match, query, title, kind, wide }) => {
    const lines = [match === undefined ? `query = ${quoted(query)}` : `match = ${quoted(match)}`];
    if (title) lines.push(`title = ${quoted(title)}`);
    if (kind !== "line") lines.push(`kind = ${quoted(kind)}`);
    if (wide) lines.push("wide = true");
    return `\n[[panel]]\n${lines.join("\n")}\n`;
  });
  return head + parts.join("");
}
