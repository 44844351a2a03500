/** The text of the events in a list: what a delta adds, or the code of a failure. Loaded for those that are visible. */

import { line } from "../text.js";

const PATIENCE = 120;
const MOST_PER_PAGE = 60;
const MOST_KEPT = 20_000;

export class EventTexts {
  #texts = new Map();
  #timer = 0;

  /** `load(after, limit)` returns a page of events; `onChange()` is called when there are new texts. */
  constructor(load, onChange) {
    this.load = load;
    this.onChange = onChange;
  }

  get(sequence) {
    return this.#texts.get(sequence) ?? "";
  }

  /** Load the texts of these events, in order, when the list has stopped moving. */
  want(sequences) {
    clearTimeout(this.#timer);
    const unknown = sequences.filter((each) => !this.#texts.has(each));
    if (unknown.length) this.#timer = setTimeout(() => this.#fetch(unknown[0], sequences.at(-1)), PATIENCE);
  }

  async #fetch(first, last) {
    if (this.#texts.size > MOST_KEPT) this.#texts.clear();
    try {
      const page = await this.load(first - 1, Math.min(MOST_PER_PAGE, last - first + 1));
      for (const each of page.data) this.#texts.set(each.sequence_number, excerpt(each.event));
      if (page.data.length) this.onChange();
    } catch {
      // The list is complete without.
    }
  }
}

/** What a delta adds, or the code of a failure. */
export function excerpt(event) {
  if (typeof event?.delta === "string") return line(event.delta, 60);
  const code = event?.error?.code ?? event?.response?.error?.code;
  return code ? line(String(code), 60) : "";
}
