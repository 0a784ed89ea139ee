// The controls of the view of one node: rate, window and pause, and the address's fragment that remembers the first
// two. They refuse rates that the server does not offer.

export const RATE_MIN = 1;
export const RATE_DEFAULT = 10;
const TIER_DEFAULT = 1;
const TIER_NAMES = ["10s", "1min", "10min"];

export class Controls {
  /**
   * `node` is named in the address where there are several; `asked` is what the address said; `signal` ends them.
   * `on` hears rate(hertz), tier(index), pause(bool) and address(hash).
   */
  constructor(root, node, asked, signal, on) {
    this.on = on;
    this.node = node;
    this.rateMax = 1_000;
    this.rateInput = root.querySelector("#rate");
    this.rateButtons = [...root.querySelectorAll("[data-rate]")];
    this.tierButtons = [...root.querySelectorAll("[data-tier]")];
    this.pauseButton = root.querySelector("#pause");
    this.rate = this.allowed(Number(asked.get("rate"))) || RATE_DEFAULT;
    this.tier = TIER_NAMES.indexOf(asked.get("window"));
    if (this.tier < 0) this.tier = TIER_DEFAULT;
    this.paused = false;
    const hear = (target, name, then) => target.addEventListener(name, then, { signal });
    for (const button of this.rateButtons) hear(button, "click", () => this.setRate(Number(button.dataset.rate)));
    for (const button of this.tierButtons) hear(button, "click", () => this.setTier(Number(button.dataset.tier)));
    hear(this.rateInput, "change", () => this.setRate(Number(this.rateInput.value)));
    hear(this.pauseButton, "click", () => this.setPaused(!this.paused));
    hear(document, "keydown", (event) => this.key(event));
    this.show();
  }

  /** The nearest rate on offer; NaN stays NaN. */
  allowed(rate) {
    if (!Number.isFinite(rate) || rate <= 0) return NaN;
    return Math.min(this.rateMax, Math.max(RATE_MIN, Math.round(rate)));
  }

  setRateMax(hertz) {
    if (!(hertz >= 1)) return;
    this.rateMax = hertz;
    this.rateInput.max = hertz;
    for (const button of this.rateButtons) button.disabled = Number(button.dataset.rate) > hertz;
    if (this.rate > hertz) this.setRate(hertz);
  }

  setRate(rate) {
    const allowed = this.allowed(rate);
    if (Number.isFinite(allowed) && allowed !== this.rate) {
      this.rate = allowed;
      this.on.rate(allowed);
    }
    this.show();
  }

  setTier(tier) {
    this.tier = tier;
    this.on.tier(tier);
    this.show();
  }

  setPaused(paused) {
    this.paused = paused;
    this.on.pause(paused);
    this.show();
  }

  show() {
    this.rateInput.value = this.rate;
    for (const button of this.rateButtons) press(button, Number(button.dataset.rate) === this.rate);
    for (const button of this.tierButtons) press(button, Number(button.dataset.tier) === this.tier);
    press(this.pauseButton, this.paused);
    this.pauseButton.textContent = this.paused ? "Resume" : "Pause";
    const node = this.node ? `node=${encodeURIComponent(this.node)}&` : "";
    this.on.address(`${node}rate=${this.rate}&window=${TIER_NAMES[this.tier]}`);
  }

  /** Space pauses, unless a control has the focus that space belongs to. */
  key(event) {
    if (event.key !== " " || event.target.closest("button, input, a, select, dialog")) return;
    event.preventDefault();
    this.setPaused(!this.paused);
  }
}

function press(button, pressed) {
  button.setAttribute("aria-pressed", String(pressed));
}
