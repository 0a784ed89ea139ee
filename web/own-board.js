// The view of a board: a page of panels of one's own, from a named file or from the address, over one time. It refuses to draw, and to
// write files: it shows the text of one.

import { ask, clock } from "./ask.js";
import { Frames } from "./frames.js";
import { addressText, exactText, momentOf } from "./moment.js";
import { BoardFile } from "./own-file.js";
import { OwnPanels } from "./own-panels.js";
import { readPanels, spec, specOf, TITLE_MAX, writePanels } from "./own-spec.js";
import { OwnTime, SPAN_DEFAULT, SPANS } from "./own-time.js";
import { loadStyle } from "./own-style.js";
import { element } from "./element.js";
import { Pointer } from "./pointer.js";
import { TimeHands } from "./time-hands.js";
import { TimeWindow } from "./time-window.js";

/** Boards that cannot be listed are asked for again after this long. */
const AGAIN_MS = 5_000;
const BOARDS_PATH = "khz/v1/boards";
const EMPTY = "This board has no panels. Type a pattern (net.rx_bytes[eth*], node[1-3]:load.1m) or a query in PromQL above, or press Ctrl-K and search.";

export class BoardView {
  /** `on` hears name(name), address(hash), step(hash), state(state, reason), notice(text), go(hash), and seen(): the first picture is there. */
  constructor(root, asked, on) {
    this.root = root;
    this.on = on;
    this.ended = new AbortController();
    const { signal } = this.ended;
    this.name = "";
    this.title = "";
    this.frozen = NaN;
    this.time = new TimeWindow(() => this.liveWindow(), (how) => this.setWindow(how));
    this.pointer = new Pointer(() => this.point());
    this.hands = new TimeHands(this.time, signal, {
      hold: (isHeld) => (this.frozen = isHeld ? this.now : NaN),
      settled: () => this.writeAddress(true),
      focus: () => (Number.isNaN(this.pointer.share) ? 0.5 : this.pointer.share),
      live: () => this.time.goLive(),
      keys: () => document.querySelector("#keys").showModal(),
    });
    this.bar = new OwnTime(this.time, () => this.chooseSpan());
    this.build();
    this.panels = new OwnPanels(this.grid, null, signal, { attach: (panel) => this.attach(panel), detach: (panel) => this.detach(panel), changed: () => this.edited(), notice: on.notice });
    this.ask(asked);
    this.askBoards();
    this.frames = new Frames((now) => this.draw(now), signal);
  }

  build() {
    this.field = element("input", { type: "text", maxlength: "2000", placeholder: "net.rx_bytes[eth*] or rate(node_network_receive_bytes_total[1m])", "aria-label": "A pattern or a query in PromQL", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    const form = element("form", { classes: "own-form" }, this.field, element("button", { classes: "boxed", text: "Add" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const panel = specOf(this.field.value);
      if (panel && this.panels.add(panel)) this.field.value = "";
    });
    this.save = element("button", { type: "button", classes: "boxed", text: "Save as a file" });
    this.save.addEventListener("click", () => new BoardFile(this.shown, this.folder));
    this.grid = element("div", { classes: "own-grid own-panels" });
    this.empty = element("p", { classes: "own-empty", text: EMPTY });
    this.problem = element("p", { classes: "notice", role: "alert" });
    this.list = element("section", { classes: "group", "aria-label": "Boards" });
    const controls = element("nav", { classes: "controls", "aria-label": "Controls" }, form, this.bar.choice, element("div", { classes: "actions" }, this.save), this.bar.root);
    const heading = element("h2", { classes: "visually-hidden", text: "Panels" });
    this.root.replaceChildren(controls, this.problem, this.empty, heading, this.grid, this.list);
    this.observe();
    loadStyle("own.css");
  }

  observe() {
    this.panelOf = new WeakMap();
    const of = ({ target }) => this.panelOf.get(target);
    this.seen = new IntersectionObserver((entries) => entries.forEach((entry) => of(entry) && (of(entry).shown = entry.isIntersecting)), { rootMargin: "60px" });
    this.resized = new ResizeObserver((entries) => entries.forEach((entry) => of(entry)?.picture.refresh()));
  }

  attach(panel) {
    this.panelOf.set(panel.root, panel);
    this.panelOf.set(panel.frame, panel);
    this.seen.observe(panel.root);
    this.resized.observe(panel.frame);
    this.pointer.attach(panel);
    this.hands.attach(panel);
  }

  detach(panel) {
    this.seen.unobserve(panel.root);
    this.resized.unobserve(panel.frame);
  }

  close() {
    this.ended.abort();
    clearTimeout(this.timer);
    this.seen.disconnect();
    this.resized.disconnect();
    document.body.removeAttribute("data-past");
    this.root.replaceChildren();
  }

  /** Shows what an address asks for. */
  ask(asked) {
    const { panels, leftOut } = readPanels(asked);
    this.bar.span = asked.get("range");
    this.name = panels.length === 0 ? (asked.get("name") ?? "") : "";
    this.title = (asked.get("title") ?? "").slice(0, TITLE_MAX);
    if (leftOut > 0) this.on.notice(`${leftOut} panels of this address are not shown: a page has room for fewer.`);
    if (this.name) this.showNamed();
    else this.panels.show(panels);
    const [from, to] = ["from", "to"].map((name) => momentOf(asked.get(name)));
    if (Number.isNaN(from) && Number.isNaN(to)) this.time.goLive("given");
    else {
      const end = Number.isNaN(to) ? this.now : to;
      this.time.show(Number.isNaN(from) ? end - SPANS[this.bar.span] : from, end, "given");
    }
    this.showState();
  }

  /** Which boards there are; the answer also tells the server's time. */
  async askBoards() {
    try {
      const answer = await ask(BOARDS_PATH, this.ended.signal);
      [this.boards, this.folder] = [answer.boards, answer.folder];
      this.problems = answer.problems;
    } catch (error) {
      if (this.ended.signal.aborted) return;
      [this.boards, this.problems] = [[], [{ text: `The boards of this server cannot be listed: ${error.message}` }]];
      this.timer = setTimeout(() => this.askBoards(), AGAIN_MS);
    }
    if (this.name) this.showNamed();
    this.showState();
    // A board without panels has no picture.
    if (this.panels.specs.length === 0) this.on.seen();
  }

  /** The panels of a board of the server; none, until its boards are known. */
  showNamed() {
    const board = this.boards?.find(({ name }) => name === this.name);
    this.title = board?.title ?? this.name;
    this.panels.show((board?.panels ?? []).map(spec));
  }

  /** What is shown, for a file. */
  get shown() {
    return { name: this.name, title: this.title, panels: this.panels.specs };
  }

  /** Somebody has changed the panels: what is shown is no longer what the file has. */
  edited() {
    this.name = "";
    this.showState();
    this.writeAddress(true);
  }

  showState() {
    const { length } = this.panels.specs;
    const isUnknown = this.name && this.boards && !this.boards.some(({ name }) => name === this.name);
    this.on.name(this.title || (length > 0 ? "Board" : "Boards"));
    this.problem.textContent = isUnknown ? `This server has no board called ${this.name}.` : "";
    this.empty.hidden = length > 0 || (this.name !== "" && !isUnknown);
    this.save.disabled = length === 0;
    this.writeList();
    this.bar.show(this.now);
  }

  /** The server's boards, and why some of them cannot be shown. */
  writeList() {
    const { boards = [], problems = [] } = this;
    this.list.hidden = boards.length + problems.length === 0;
    const links = boards.map(({ name, title, panels }) =>
      element("li", {}, element("a", { href: `#view=board&name=${encodeURIComponent(name)}`, text: title, ...(name === this.name ? { "aria-current": "page" } : {}) }), element("small", { text: panels.length === 1 ? "1 panel" : `${panels.length} panels` })),
    );
    const broken = problems.map(({ text }) => element("p", { classes: "notice", text }));
    this.list.replaceChildren(element("h2", { text: "Boards of this server" }), element("ul", { classes: "own-boards" }, ...links), ...broken);
  }

  get now() {
    return (Date.now() - clock.ahead) / 1_000;
  }

  liveWindow() {
    const to = Number.isNaN(this.frozen) ? this.now : this.frozen;
    return { from: to - SPANS[this.bar.span], to };
  }

  setWindow(how) {
    this.bar.show(this.now);
    if (how === "step") this.writeAddress(true);
  }

  chooseSpan() {
    const { past } = this.time;
    if (past) this.time.show(past.to - SPANS[this.bar.span], past.to);
    else this.setWindow("step");
  }

  writeAddress(isStep = false) {
    const hash = new URLSearchParams({ view: "board" });
    const { past } = this.time;
    if (this.name) hash.set("name", this.name);
    else if (this.title) hash.set("title", this.title);
    if (this.bar.span !== SPAN_DEFAULT) hash.set("range", this.bar.span);
    if (past) ["from", "to"].forEach((name) => hash.set(name, addressText(past[name])));
    const panels = this.name ? "" : writePanels(this.panels.specs);
    const address = [hash.toString(), panels].filter((part) => part).join("&");
    if (isStep && location.hash.slice(1) !== address) this.on.step(address);
    else this.on.address(address);
  }

  draw(now) {
    // The paper has another width: a plot that went on would be empty there.
    if (this.isOnPaper) return false;
    const { past, shown } = this.time;
    this.tellState();
    const drawn = this.panels.draw({ ...shown, now: this.now }, past === null, this.pointed, now);
    if (drawn) this.on.seen();
    return drawn;
  }

  /** Says if nothing comes any more: all panels that were asked for say why. */
  tellState() {
    const seen = this.panels.panels.filter(({ panel }) => panel.shown);
    const why = seen.length > 0 && seen.every((own) => /^the server /.test(own.why)) ? seen[0].why : "";
    if (why === this.toldWhy) return;
    this.toldWhy = why;
    this.on.state(why ? "waiting" : "live", why);
  }

  /** The time that is pointed at; NaN: nothing is. */
  get pointed() {
    const { from, to } = this.panels.window ?? this.time.shown;
    return from + this.pointer.share * (to - from);
  }

  point() {
    this.panels.write(this.pointed);
    for (const own of this.panels.panels) this.pointer.mark(own.panel, () => this.pointedText(own));
  }

  pointedText(own) {
    const { range, margin, value } = own.reader(this.pointed, false);
    const { from, to } = this.time.shown;
    const words = own.panel.describeAt(value, this.pointer.height);
    return [[words, exactText(this.pointed, to - from, this.now)].filter((part) => part).join(" · "), ...own.panel.describeOpen({ range, margin })].join("\n");
  }

  /** Adds a panel that was chosen elsewhere. */
  addOwn(panel) {
    this.panels.add(panel);
    return true;
  }

  /** For paper. */
  get ownPanels() {
    return this.panels.panels.map(({ panel }) => panel);
  }

  repaint() {
    this.panels.repaint();
  }
}
