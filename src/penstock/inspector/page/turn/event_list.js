/** The events of a turn as a list of which only the visible rows exist, and the JSON of the selected one. */

import { copyButton, h, replace } from "../dom.js";
import { counted, duration, itemName, number, shortBytes } from "../format.js";
import { json, line, marked, pretty } from "../text.js";

const ROW = 24;
const SPARE = 6;
const MOST_CACHED = 400;

export class EventList {
  #model;
  #shown = [];
  #selected = -1;
  #frame = 0;
  #growing = 0;
  #count = 0;

  /** `load(sequence)` returns the event; `onSelect(index)` is called when a row is chosen. `textOf(index)` is shown in the
   * place of the lane, and `rulesOf(index)` are the rules that the event breaks.
   * `onShown(sequences)`: these rows are drawn. */
  constructor(model, { load, onSelect, textOf = null, rulesOf = () => [], onShown = () => {} }) {
    this.load = load;
    this.onSelect = onSelect;
    this.textOf = textOf;
    this.rulesOf = rulesOf;
    this.onShown = onShown;
    this.cache = new Map();
    this.withDeltas = h("input", { type: "checkbox", id: "with-deltas", checked: true, onchange: () => this.refresh() });
    this.space = h("div", { class: "event-space", role: "presentation" });
    this.box = h("div", {
      class: "event-box", tabindex: "0", role: "listbox", "aria-label": "Events",
      onscroll: () => this.draw(), onkeydown: (event) => this.#key(event), onclick: (event) => this.#click(event),
    }, this.space);
    this.title = h("h3", null, "No event is selected");
    this.content = h("div", { class: "event-json" }, h("p", { class: "muted" }, "Select an event in the timeline or in the list to see its JSON."));
    this.head = h("span", { class: "muted" });
    this.element = h("section", { class: "panel events-panel", "aria-labelledby": "events-title" },
      h("header", null, h("h2", { id: "events-title" }, "Events"), this.head,
        h("label", { class: "check", for: "with-deltas" }, this.withDeltas, "with deltas")),
      this.box,
      h("div", { class: "event-detail" }, this.title, this.content));
    this.setModel(model);
  }

  setModel(model) {
    this.#model = model;
    this.refresh();
  }

  /** The model has other events: show them. */
  refresh() {
    const model = this.#model;
    this.#count = model.length;
    this.#shown = [];
    for (let index = 0; index < model.length; index += 1) {
      if (this.withDeltas.checked || !model.typeOf(index).endsWith(".delta")) this.#shown.push(index);
    }
    this.#resized();
  }

  /** Events were added at the end: show them with the next frame. The end stays visible, unless the user has left it. */
  grow() {
    this.#growing ||= requestAnimationFrame(() => {
      this.#growing = 0;
      const isAtEnd = this.#selected < 0 && this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - ROW;
      for (let index = this.#count; index < this.#model.length; index += 1) {
        if (this.withDeltas.checked || !this.#model.typeOf(index).endsWith(".delta")) this.#shown.push(index);
      }
      this.#count = this.#model.length;
      this.#resized();
      if (isAtEnd) this.box.scrollTop = this.box.scrollHeight;
    });
  }

  /** Scroll to the end, where a turn failed, unless an event is selected. */
  showEnd() {
    if (this.#selected < 0) this.box.scrollTop = this.box.scrollHeight;
  }

  #resized() {
    this.space.style.setProperty("height", `${this.#shown.length * ROW}px`);
    const hidden = this.#model.length - this.#shown.length;
    this.head.textContent = `${counted(this.#shown.length, "event")}${hidden ? ` and ${counted(hidden, "delta")}` : ""}`;
    this.draw();
  }

  /** Show an event as selected, scroll to it, and load its JSON. `isChosen: false` waits for the next one. */
  select(index, isChosen = true) {
    this.#selected = index;
    const position = this.#shown.indexOf(index);
    const top = position * ROW;
    if (position >= 0 && (top < this.box.scrollTop || top + ROW > this.box.scrollTop + this.box.clientHeight)) {
      this.box.scrollTop = top - this.box.clientHeight / 2;
    }
    this.draw();
    clearTimeout(this.waiting);
    if (index < 0) return;
    if (isChosen) this.#showJson(index);
    else this.waiting = setTimeout(() => this.#showJson(index), 120);
  }

  async #showJson(index) {
    const sequence = this.#model.sequence[index];
    this.title.textContent = `#${number(sequence)} ${line(this.#model.typeOf(index), 80)}`;
    let event = this.cache.get(sequence);
    try {
      event ??= await this.load(sequence);
    } catch (error) {
      if (this.#selected === index) replace(this.content, h("p", { class: "problem", role: "alert" }, error.message));
      return;
    }
    this.#keep(sequence, event);
    if (this.#selected !== index) return;
    const rules = this.rulesOf(index).map((each) => h("p", { class: "hint is-warn" }, h("span", null, h("code", null, each.rule), " ", marked(each.message))));
    if (event === null || event === undefined) {
      replace(this.content, rules, h("p", { class: "muted" }, "The store does not have this event."));
      return;
    }
    replace(this.content, rules, h("div", { class: "event-actions" }, copyButton(() => pretty(event), "Copy JSON")), json(event, { depth: 2 }));
  }

  #keep(sequence, event) {
    this.cache.set(sequence, event);
    if (this.cache.size > MOST_CACHED) this.cache.delete(this.cache.keys().next().value);
  }

  /** Draw the visible rows again with the next frame. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#drawNow();
    });
  }

  #drawNow() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - SPARE);
    const last = Math.min(this.#shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW) + SPARE);
    const rows = [];
    for (let position = first; position < last; position += 1) rows.push(this.#row(position));
    this.space.replaceChildren(...rows);
    this.box.dataset.rows = rows.length;
    this.onShown(this.#shown.slice(first, last).map((index) => this.#model.sequence[index]));
    const active = this.#shown.indexOf(this.#selected);
    if (active >= first && active < last) this.box.setAttribute("aria-activedescendant", `event-${this.#selected}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  #row(position) {
    const model = this.#model;
    const index = this.#shown[position];
    const isSelected = index === this.#selected;
    const lane = model.rowOf(index);
    const type = model.typeOf(index);
    const isBroken = this.rulesOf(index).length > 0;
    const text = this.textOf?.(index) ?? null;
    const name = text !== null ? text : lane.lane ? lane.lane.name || itemName(lane.lane.type) : "";
    const element = h("div", {
      id: `event-${index}`, class: isSelected ? "event is-selected" : "event", role: "option", "data-index": index,
      "aria-selected": isSelected, "aria-setsize": this.#shown.length, "aria-posinset": position + 1,
    },
      h("span", { class: "number muted" }, number(model.sequence[index])),
      h("span", { class: "number" }, model.isTimed ? duration(model.at[index]) : ""),
      h("span", { class: isBroken ? "event-type is-broken" : "event-type", title: line(type, 200) }, isBroken ? "▲ " : null, marked(type.replace(/^response\./, ""))),
      h("span", { class: text !== null ? "muted event-text" : "muted event-lane" }, name),
      h("span", { class: "number muted" }, shortBytes(model.size[index])));
    element.style.setProperty("top", `${position * ROW}px`);
    return element;
  }

  #click(event) {
    const row = event.target.closest("[data-index]");
    if (row) this.#choose(Number(row.dataset.index), true);
  }

  #choose(index, isChosen) {
    this.select(index, isChosen);
    this.onSelect(index);
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const position = this.#shown.indexOf(this.#selected);
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 1);
    const last = this.#shown.length - 1;
    const steps = { ArrowDown: position + 1, ArrowUp: position - 1, PageDown: Math.min(last, position + page), PageUp: Math.max(0, position - page), Home: 0, End: last };
    if (event.key === "Enter" && position >= 0) {
      event.preventDefault();
      this.#choose(this.#selected, true);
      return;
    }
    const next = steps[event.key];
    if (next === undefined) return;
    event.preventDefault();
    if (next >= 0 && next <= last) this.#choose(this.#shown[next], false);
  }
}
