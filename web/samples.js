// The samples of one quantity, in the order of their times: what feeds leave behind. They refuse to fill gaps.

export class Samples {
  constructor() {
    this.time = [];
    this.mean = [];
    this.low = [];
    this.high = [];
    this.broken = [];
    this.margin = [];
    this.isBroken = true;
  }

  push(time, value, low = value, high = value, margin = 0) {
    this.time.push(time);
    this.mean.push(value);
    this.low.push(low);
    this.high.push(high);
    this.broken.push(this.isBroken);
    this.margin.push(margin);
    this.isBroken = false;
  }

  gap() {
    this.isBroken = true;
  }

  /** Gives `track` what it needs for its time. */
  fill(track) {
    const { time } = this;
    let [low, high] = [0, time.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] < track.from) low = middle + 1;
      else high = middle;
    }
    for (let i = Math.max(0, low - 1); i < time.length; i++) {
      if (this.broken[i]) track.gap();
      track.push(time[i], this.mean[i], this.low[i], this.high[i], this.margin[i]);
      if (time[i] > track.to) return;
    }
    if (this.isBroken) track.gap();
  }
}
