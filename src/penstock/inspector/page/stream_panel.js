/** A stream as a timeline, as a list of events, and the JSON of the event that is selected in either. */

import { copyButton, h, replace } from "./dom.js";
import { EventList } from "./event_list.js";
import { bytes, duration, number } from "./format.js";
import { json, line, marked, parsed, pretty } from "./text.js";
import { Timeline } from "./timeline.js";

export class StreamPanel {
  /**
   * `turn`: what the timeline draws, perhaps still without events.
   * `frames`: the data of each event, as text. `breaks`: the index of an event → its broken rules.
   */
  constructor({ turn, frames = [], breaks = new Map(), label = "Timeline" }) {
    this.frames = frames;
    this.breaks = breaks;
    this.types = Array.from(turn.events.type, (type) => turn.events.types[type]);
    this.at = [...turn.events.at_ms];
    this.isTimed = turn.timed !== false;
    const drawing = h("div", { class: "timeline" });
    this.detail = h("div", { class: "event-detail" });
    this.list = new EventList({ label: "Events", rowOf: (index) => this.#row(index), onSelect: (index) => this.select(index) });
    this.element = h("div", { class: "stream-panel" }, drawing, this.list.element, this.detail);
    this.timeline = new Timeline(drawing, turn, { label, onSelect: (index) => this.select(index) });
    this.list.count = this.types.length;
    this.#hint();
  }

  /** Add an event that has just arrived: its data as text, and parsed. */
  add(event, data, at) {
    if (this.timeline.add(event, at, data.length) < 0) return;
    this.types.push(String(event.type ?? "event"));
    this.at.push(at);
    this.frames.push(data);
    this.list.count = this.types.length;
  }

  select(index) {
    if (index < 0 || index >= this.types.length) return;
    if (this.timeline.selected !== index) this.timeline.select(index);
    if (this.list.selected !== index) this.list.select(index);
    const data = this.frames[index] ?? "";
    const value = parsed(data);
    replace(this.detail,
      h("div", { class: "event-head" }, h("h3", null, `${number(index)} · `, marked(this.types[index])), copyButton(() => (value === undefined ? data : pretty(value)), "Copy JSON")),
      (this.breaks.get(index) ?? []).map((violation) => h("p", { class: "hint is-warn" }, h("span", null, h("code", null, violation.rule), " ", marked(violation.message)))),
      value === undefined ? [h("p", { class: "help" }, "This is not JSON:"), h("pre", null, marked(data.slice(0, 20_000)))] : json(value, { depth: 2 }));
  }

  destroy() {
    this.timeline.destroy();
    this.list.destroy();
  }

  #hint() {
    replace(this.detail, h("p", { class: "help" }, "Choose an event, in the list or on the timeline, to see its JSON."));
  }

  #row(index) {
    const type = this.types[index];
    const rules = this.breaks.get(index);
    return {
      isMarked: Boolean(rules) || isBad(type),
      content: [
        h("span", { class: "event-number" }, number(index)),
        h("span", { class: "event-type" }, rules ? h("span", { class: "event-mark", title: rules.map((each) => each.rule).join(", ") }, "▲ ") : null,
          marked(type.replace(/^response\./, "").slice(0, 80))),
        h("span", { class: "event-text" }, excerpt(this.frames[index])),
        h("span", { class: "event-at" }, this.isTimed ? duration(this.at[index]) : bytes(this.frames[index]?.length ?? 0)),
      ],
    };
  }
}

function isBad(type) {
  return type === "response.failed" || type === "error";
}

/** What a delta adds, without parsing long events. */
function excerpt(data) {
  if (!data || data.length > 4000) return "";
  const event = parsed(data);
  if (typeof event?.delta === "string") return line(event.delta, 60);
  const code = event?.error?.code ?? event?.response?.error?.code;
  return code ? line(String(code), 60) : "";
}
