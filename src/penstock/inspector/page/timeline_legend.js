/** What the marks of a timeline mean: only of those that are drawn. */

import { h } from "./dom.js";

/** Name, meaning, and whether there is one. */
const MARKS = [
  ["read", "upstream read", (model) => model.isUpstreamKnown],
  ["delta", "event", (model) => model.length > 0],
  ["silence", "", (_, silences) => silences.length > 0],
  ["beat", "heartbeat", (model) => model.response.heartbeats.length > 0],
  ["failure", "failure", (model) => hasMark(model, "failed")],
  ["violation", "broken rule", (model) => hasMark(model, "violation")],
];

export class Legend {
  constructor() {
    this.words = h("span");
    this.marks = MARKS.map(([name, text]) => h("span", { class: `legend is-${name}`, hidden: true }, h("i", { "aria-hidden": "true" }), text || this.words));
    this.element = h("div", { class: "timeline-legend" }, this.marks, h("span", { id: "timeline-keys", class: "timeline-keys" },
      "Drag to move, Ctrl and wheel to zoom. Keys: ← → events, ↑ ↓ lanes, + − 0 zoom, Enter opens."));
  }

  show(model, silences) {
    const words = model.isUpstreamKnown ? "silence of the upstream" : "no events";
    if (this.words.textContent !== words) this.words.textContent = words;
    MARKS.forEach(([, , isDrawn], index) => {
      this.marks[index].hidden = !isDrawn(model, silences);
    });
  }
}

function hasMark(model, kind) {
  return model.rows.some((row) => row.marks.some((mark) => mark.kind === kind));
}
