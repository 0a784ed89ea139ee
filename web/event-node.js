// The events of one node: asked for when another window is shown, and now and then while it is live. It refuses to keep them, and to say
// that nothing happened where that is not known.

import { ask } from "./ask.js";
import { EventLane } from "./event-lane.js";
import { eventsOf } from "./event-list.js";
import { WindowWatch } from "./window-watch.js";

/** While the page is live, events are asked for this often. */
const AGAIN_MS = 5_000;
const CHECK_MS = 500;
/** A window that moves is asked for when it has stood still for this long. */
const STILL_MS = 300;

export class NodeEvents {
  constructor(root, view, node) {
    Object.assign(this, { root, view, node });
    this.signal = view.ended.signal;
    this.lane = new EventLane(root, view.time, () => view.shownOnes());
    this.watch = new WindowWatch(STILL_MS, AGAIN_MS);
    this.timer = setInterval(() => this.check(), CHECK_MS);
    this.signal.addEventListener("abort", () => this.end());
    view.frames.add(() => this.lane.draw(view.liveWindow().to));
    this.check();
  }

  end() {
    clearInterval(this.timer);
    this.lane.close();
    this.root.replaceChildren();
  }

  async check() {
    if (this.isAsking || document.hidden) return;
    const { past } = this.view.time;
    const { from, to } = this.view.time.shown;
    const window = past ? `${from}|${to}` : `${(to - from).toFixed(0)}`;
    if (!this.watch.isDue(window, past !== null, Boolean(this.problem))) return;
    this.isAsking = true;
    try {
      const query = new URLSearchParams({ ...(this.node ? { node: this.node } : {}), from: from.toFixed(3), to: to.toFixed(3) });
      const { list, leftOut, damage } = eventsOf(await ask(`khz/v1/events?${query}`, this.signal));
      this.problem = "";
      this.lane.take(list);
      this.tell(list, leftOut, damage);
    } catch (error) {
      if (this.signal.aborted) return;
      this.problem = error.message;
      this.lane.take([]);
      this.lane.say(`Events: not known (${error.message})`);
    } finally {
      this.isAsking = false;
    }
    this.watch.note(window);
  }

  tell(list, leftOut, damage) {
    const count = list.length === 0 ? "none in this time" : `${list.length}${leftOut > 0 ? `, and ${leftOut} older ones that are too many` : ""}`;
    const parts = [`Events: ${count}`, "jobs are not known yet", ...damage];
    this.lane.say(parts.join("; "));
  }
}
