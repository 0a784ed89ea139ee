// The palette: one field that finds everything there is, and does what is chosen. Keyboard first: it is a combobox with a list. It
// refuses to know views: the page says what choosing does.

import { specOf } from "./own-spec.js";
import { loadStyle } from "./own-style.js";
import { element } from "./element.js";
import { pageEntries, serverEntries, typedEntry } from "./palette-names.js";
import { Search } from "./palette-rank.js";

/** Rows of the list: more are found by typing more. */
const ROWS_MAX = 20;
/** Rows that a page key goes through. */
const PAGE_ROWS = 8;
/** Characters of the field: a query may be long. */
const TEXT_MAX = 2_000;
/** What looks like a query or a pattern: then a panel of it is offered first. */
const EXPRESSION = /^=|[({[*:]|[^\s]\.[^\s]/;

export class Palette {
  /** `page`: as pageEntries takes it. The style has to be there before it is seen. */
  static async open(page) {
    if (document.querySelector(".palette")) return null;
    await loadStyle("palette.css");
    return document.querySelector(".palette") ? null : new Palette(page);
  }

  constructor(page) {
    this.page = page;
    this.ended = new AbortController();
    this.rows = [];
    this.chosen = 0;
    this.isFinding = this.isEntered = false;
    this.input = element("input", {
      id: "palette-text", type: "text", role: "combobox", maxlength: TEXT_MAX, placeholder: "Metric, node, view, action … or = and a query",
      autocomplete: "off", autocapitalize: "off", spellcheck: "false", "aria-label": "Search metrics, nodes, views and actions", "aria-autocomplete": "list",
      "aria-expanded": "true", "aria-controls": "palette-list",
    });
    this.list = element("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
    this.note = element("p", { classes: "palette-note", role: "status" });
    this.root = element("dialog", { classes: "palette", "aria-label": "Search" }, this.input, this.list, this.note);
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => this.click(event));
    this.root.addEventListener("click", (event) => event.target === this.root && this.root.close());
    this.root.addEventListener("close", () => this.end());
    document.body.append(this.root);
    this.root.showModal();
    this.input.focus();
    const own = pageEntries(page);
    this.search = new Search(own, ROWS_MAX);
    this.find();
    serverEntries(page, this.ended.signal).then((more) => {
      if (this.ended.signal.aborted) return;
      this.search.stop();
      this.search = new Search([...own, ...more], ROWS_MAX);
      this.find();
    });
  }

  end() {
    this.ended.abort();
    this.search.stop();
    this.root.remove();
  }

  async find() {
    const text = this.input.value.trim();
    this.isFinding = true;
    const typed = EXPRESSION.test(text) ? specOf(text) : null;
    const found = text[0] === "=" ? [] : await this.search.find(text);
    if (found === null || this.ended.signal.aborted || text !== this.input.value.trim()) return;
    const own = typed ? [typedEntry(this.page, typed)] : [];
    // A name that is typed in full is meant as it is.
    const isWhole = found[0]?.name === text.toLowerCase();
    this.show((isWhole ? [found[0], ...own, ...found.slice(1)] : [...own, ...found]).slice(0, ROWS_MAX));
    this.isFinding = false;
    if (this.isEntered) this.run(this.rows[0]);
  }

  show(rows) {
    this.rows = rows;
    this.list.replaceChildren(
      ...rows.map(({ kind, shown, said }, i) =>
        element("li", { id: `palette-${i}`, role: "option", "data-row": i, "data-kind": kind }, element("span", { classes: "palette-name", text: shown }), element("span", { classes: "palette-help", text: said }), element("span", { classes: "palette-kind", text: kind })),
      ),
    );
    const text = this.input.value.trim();
    const count = rows.length === ROWS_MAX ? `The best ${ROWS_MAX} are shown` : rows.length === 0 ? "Nothing is called so. Begin with = to ask in PromQL" : rows.length === 1 ? "1 found" : `${rows.length} found`;
    this.note.textContent = text ? count : "Type to search; ↑ ↓ choose, Enter does it, Esc closes";
    this.choose(0);
  }

  /** Marks a row; the focus stays in the field. */
  choose(at) {
    this.list.children[this.chosen]?.removeAttribute("aria-selected");
    this.chosen = at;
    const row = this.list.children[at];
    if (!row) return this.input.removeAttribute("aria-activedescendant");
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", row.id);
  }

  key(event) {
    if (event.isComposing) return;
    const last = this.rows.length - 1;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_ROWS, PageUp: -PAGE_ROWS }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      const at = this.chosen + by;
      // One step beyond an end leads to the other one.
      this.choose(Math.abs(by) === 1 ? (at + last + 1) % (last + 1) : Math.min(last, Math.max(0, at)));
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.root.close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      // What is shown may still be what the text before has found.
      if (this.isFinding) this.isEntered = true;
      else this.run(this.rows[this.chosen]);
    } else if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.root.close();
    }
  }

  click({ target }) {
    const row = target.closest("[data-row]");
    if (row) this.run(this.rows[Number(row.dataset.row)]);
  }

  run(entry) {
    this.isEntered = false;
    if (!entry) return;
    this.root.close();
    entry.go();
  }
}
