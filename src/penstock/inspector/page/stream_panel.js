/** A stream that the page itself has: as a timeline, as a list of events, and the JSON of the event that is selected. */

import { h } from "./dom.js";
import { parsed } from "./text.js";
import { Timeline } from "./timeline.js";
import { EventList } from "./turn/event_list.js";
import { excerpt } from "./turn/event_texts.js";

/** Longer events have no excerpt in the list. */
const LONGEST = 4000;

export class StreamPanel {
  /**
   * `turn`: what the timeline draws, perhaps still without events. `frames`: the data of each event, by its sequence number.
   * `breaks`: the index of an event → its broken rules.
   */
  constructor({ turn, frames = new Map(), breaks = new Map(), label = "Timeline" }) {
    this.frames = frames;
    const drawing = h("div", { class: "timeline panel" });
    this.timeline = new Timeline(drawing, turn,
      { label, onSelect: (index, _sequence, isChosen) => this.list.select(index, isChosen) });
    this.list = new EventList(this.timeline.model, {
      load: (sequence) => this.#event(sequence),
      onSelect: (index) => this.timeline.select(index),
      textOf: (index) => excerptOf(this.frames.get(this.timeline.model.sequence[index])),
      rulesOf: (index) => breaks.get(index) ?? [],
    });
    this.element = h("div", { class: turn.timed === false ? "stream-panel is-untimed" : "stream-panel" }, drawing,
      this.list.element);
  }

  /** Add an event that has just arrived: parsed, and its data as text. */
  add(event, data, at) {
    const index = this.timeline.add(event, at, data.length);
    if (index < 0) return;
    this.frames.set(this.timeline.model.sequence[index], data);
    this.list.grow();
  }

  get length() {
    return this.timeline.model.length;
  }

  select(index) {
    this.timeline.select(index);
    this.list.select(index);
  }

  destroy() {
    this.timeline.destroy();
  }

  /** What is not JSON is shown as text. */
  #event(sequence) {
    const data = this.frames.get(sequence);
    return data === undefined ? null : (parsed(data) ?? data);
  }
}

function excerptOf(data) {
  return !data || data.length > LONGEST ? "" : excerpt(parsed(data));
}
