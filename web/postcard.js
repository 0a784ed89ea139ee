// The postcard: what is seen as files, a picture, a drawing, a table and a recording, each with the address and the time inside.
// It refuses to send anything: files are saved where the reader's browser saves them.

import { element } from "./element.js";
import { windowText } from "./moment.js";
import { recordingOf } from "./postcard-recording.js";
import { Sheet } from "./postcard-sheet.js";
import { csvOf } from "./postcard-table.js";

/** Signs of a file's name. */
const NAME_MAX = 80;
/** A saved file's address is given back after this time: the browser has read it by then. */
const KEPT_MS = 60_000;

/** How the card of each view is made. */
const CARDS = {
  node: async (view) => (await import("./postcard-node.js")).nodeCard(view),
  cluster: async (view) => (await import("./postcard-nodes.js")).clusterCard(view),
  waterfall: async (view) => (await import("./postcard-nodes.js")).waterfallCard(view),
  compare: async (view) => (await import("./postcard-range.js")).rangeCard(view),
  sums: async (view) => (await import("./postcard-range.js")).rangeCard(view),
  query: async (view) => (await import("./postcard-range.js")).queryCard(view),
};

/** What can be saved: how it is called, its key, and its file. */
const FILES = [
  { id: "png", key: "p", label: "Picture", what: "PNG, at twice the pixels", of: ({ card }) => new Sheet(card).png() },
  { id: "svg", key: "v", label: "Drawing", what: "SVG", of: ({ card }) => new Sheet(card).svg() },
  { id: "csv", key: "c", label: "Table", what: "CSV, unknown is empty", of: ({ card, about }) => csvOf(card.table, about) },
  { id: "khzt", key: "r", label: "Recording", what: ".khzt, for khz plot, export, correlate", of: ({ card, note, say }) => recording(card, note, say) },
];

/** True if there is a postcard of this view. */
export const hasCard = (name, view) => Boolean(view) && Object.hasOwn(CARDS, name) && (name !== "query" || view.answer?.series.length > 0);

export class Postcard {
  /** `shown()`: {name, view}. */
  constructor(shown) {
    this.shown = shown;
    this.say = (text) => (this.state.textContent = text);
    this.buttons = new Map();
    const rows = FILES.map((file) => this.row(file.label, file.what, file.key, () => this.save([file])));
    this.state = element("p", { classes: "note", role: "status" });
    const close = element("button", { type: "button", classes: "boxed", text: "Close" });
    close.addEventListener("click", () => this.dialog.close());
    this.dialog = element(
      "dialog",
      { classes: "keys save", "aria-labelledby": "save-title" },
      element("h2", { id: "save-title", text: "Save what is seen" }),
      element(
        "div",
        { classes: "save-files" },
        this.row("All four", "files with one name", "a", () => this.save(FILES)),
        ...rows,
        this.row("Link", "to this view and time, copied", "l", () => this.copyLink()),
        this.row("Print", "or save as PDF", "d", () => this.print()),
      ),
      this.state,
      close,
    );
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    document.body.append(this.dialog);
  }

  row(label, what, key, then) {
    const button = element("button", { type: "button", classes: "boxed", "aria-keyshortcuts": key }, element("b", { text: label }), " ", element("span", { text: what }), " ", element("kbd", { text: key.toUpperCase() }));
    button.addEventListener("click", then);
    this.buttons.set(key, button);
    return button;
  }

  key(event) {
    const button = event.ctrlKey || event.altKey || event.metaKey ? null : this.buttons.get(event.key.toLowerCase());
    if (!button) return;
    event.preventDefault();
    button.click();
  }

  open() {
    const { name, view } = this.shown();
    const isThere = hasCard(name, view);
    for (const [key, button] of this.buttons) button.disabled = !isThere && !["l", "d"].includes(key);
    this.say(isThere ? "" : "Of this view there is only the link, and what the browser prints.");
    if (!this.dialog.open) this.dialog.showModal();
    [...this.buttons.values()].find((button) => !button.disabled).focus();
  }

  async card() {
    const { name, view } = this.shown();
    const card = await CARDS[name](view);
    return { ...card, title: document.title.replace(" · Kilohertz", ""), ...textsOf(card) };
  }

  /** Saves these files; one that cannot be made does not keep the others away. */
  async save(files) {
    for (const button of this.buttons.values()) button.disabled = true;
    const saved = [];
    const failed = [];
    try {
      const card = await this.card();
      const note = { link: card.link, from: card.from, to: card.to, saved: Date.now() / 1_000, by: "Kilohertz" };
      for (const file of files) {
        this.say(`${file.label}…`);
        const name = `${fileName(card)}.${file.id}`;
        try {
          download(await file.of({ card, about: [card.title, card.time, ...card.foot], note, say: this.say }), name);
          saved.push(name);
        } catch (error) {
          failed.push(`${file.label}: ${error.message}`);
        }
      }
    } catch (error) {
      failed.push(error.message);
    }
    for (const button of this.buttons.values()) button.disabled = false;
    this.say([saved.length ? `Saved ${saved.join(", ")}.` : "", ...failed].filter((text) => text).join(" "));
  }

  async copyLink() {
    const { name, view } = this.shown();
    const link = hasCard(name, view) ? (await CARDS[name](view)).link : location.href;
    try {
      await navigator.clipboard.writeText(link);
      this.say(`Copied ${link}`);
    } catch {
      // Without leave to write, or without TLS, it can still be read.
      this.say(link);
    }
  }

  print() {
    this.dialog.close();
    window.print();
  }
}

async function recording(card, note, say) {
  if (card.match.length === 0) throw new Error("khz does not gather what is shown, so there are no rows of it");
  return recordingOf(card, note, (bytes) => say(`Recording… ${(bytes / (1 << 20)).toFixed(1)} MiB`));
}

/** The time and the address as they stand on the sheet and in the table. */
function textsOf({ from, to, link }) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const iso = (time) => new Date(time * 1_000).toISOString().replace(/\.000Z$/, "Z");
  return { time: `${new Date(to * 1_000).toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" })}, ${windowText(from, to, to)} (${zone})`, foot: [`${iso(from)} to ${iso(to)}`, link] };
}

/** "node7-2026-11-29T14-03-10Z": the node and the end of the time, in signs that every file system has. */
export function fileName({ name, to }) {
  const time = new Date(to * 1_000).toISOString().replace(/\.\d+Z$/, "Z").replaceAll(":", "-");
  const safe = name.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, NAME_MAX) || "khz";
  return `${safe}-${time}`;
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MS);
}
