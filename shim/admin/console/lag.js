// What this page has seen of lags since it was opened, after what the shim has kept.

const MOST = 1000;

export class Samples {
  #samples = [];
  #most;

  constructor(most = MOST) {
    this.#most = most;
  }

  /** What the shim has kept goes before what was seen here. */
  begin(kept) {
    const first = this.#samples[0]?.[0] ?? Infinity;
    this.#samples = [...kept.filter(([ms]) => ms < first), ...this.#samples].slice(-this.#most);
  }

  add(ms, lag) {
    this.#samples.push([ms, lag]);
    if (this.#samples.length > this.#most) this.#samples.shift();
  }

  /** What was seen here, after what the shim has kept by now. */
  after(kept) {
    const last = kept.at(-1)?.[0] ?? -Infinity;
    return [...kept, ...this.#samples.filter(([ms]) => ms > last)];
  }

  get times() {
    return this.#samples.map(([ms]) => ms);
  }

  get values() {
    return this.#samples.map(([, lag]) => lag);
  }
}
