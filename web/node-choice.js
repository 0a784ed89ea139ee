// The nodes that somebody has chosen to compare, and the bar that says which. It refuses more than can be told apart.

import { fold } from "./hostlist.js";

/** Lines of a panel that can be told apart. */
export const NODES_MAX = 8;

export class NodeChoice {
  /** `bar` has the markup, `button` begins and ends the choice; `on` hears changed(), compare(hash) and notice(text). */
  constructor(bar, button, signal, on) {
    Object.assign(this, { bar, button });
    /** True while a click or a touch chooses: with Shift it always does, but phones have no such key. */
    this.isChoosing = false;
    this.on = on;
    this.names = [];
    bar.querySelector(".compare").addEventListener("click", () => on.compare(`#view=compare&nodes=${encodeURIComponent(fold(this.names))}`), { signal });
    bar.querySelector(".clear").addEventListener("click", () => this.set([]), { signal });
    button.addEventListener("click", () => this.begin(!this.isChoosing), { signal });
    this.begin(false);
  }

  begin(isChoosing) {
    this.isChoosing = isChoosing;
    this.button.setAttribute("aria-pressed", String(isChoosing));
    this.set(this.names);
  }

  has(name) {
    return this.names.includes(name);
  }

  /** Takes a node, or leaves it again. */
  toggle(name) {
    if (this.has(name)) this.set(this.names.filter((other) => other !== name));
    else if (this.names.length < NODES_MAX) this.set([...this.names, name]);
    else this.on.notice(`At most ${NODES_MAX} nodes can be compared.`);
  }

  set(names) {
    this.names = names;
    this.bar.hidden = names.length === 0 && !this.isChoosing;
    this.bar.querySelector(".compare").disabled = names.length === 0;
    this.bar.querySelector("span").textContent = names.length === 0 ? `Click or touch up to ${NODES_MAX} nodes to compare` : `${names.length} of ${NODES_MAX} nodes to compare: ${fold(names)}`;
    this.on.changed();
  }
}
