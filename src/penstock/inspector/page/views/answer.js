/** The items of a response, drawn while their text arrives. */

import { h, replace } from "../dom.js";
import { itemName } from "../format.js";
import { GrowingText, json, line, marked, parsed, prose } from "../text.js";

/** Shows one item. What it has drawn never changes: text is only added, until the item is done. */
class ItemView {
  constructor(item) {
    this.type = item.type;
    this.parts = new Map();
    const title = titleOf(item);
    this.body = h("div", { class: "item-body" });
    this.element = item.type === "message"
      ? h("div", { class: "item is-message" }, this.body)
      : item.type === "reasoning"
        ? h("details", { class: "item is-reasoning" }, h("summary", null, title), this.body)
        : h("div", { class: "item is-call" }, h("div", { class: "item-title" }, title), this.body);
  }

  update(item) {
    if (item.type === "message" || item.type === "reasoning") this.#texts(item);
    else this.#call(item);
  }

  #texts(item) {
    for (const list of ["summary", "content"]) {
      for (const [index, part] of (Array.isArray(item[list]) ? item[list] : []).entries()) {
        if (part) this.#grow(`${list}-${index}`, String(part.text ?? part.refusal ?? ""), part.type === "refusal" ? "is-refusal" : "");
      }
    }
  }

  #grow(name, text, className) {
    if (!this.parts.has(name)) {
      const growing = new GrowingText({ className });
      this.parts.set(name, { growing, length: 0 });
      this.body.append(growing.element);
    }
    const part = this.parts.get(name);
    if (text.length <= part.length) return;
    part.growing.append(text.slice(part.length));
    part.length = text.length;
  }

  #call(item) {
    const text = item.arguments ?? item.input;
    if (typeof text !== "string") {
      const { type: _type, id: _id, status: _status, call_id: _call, ...rest } = item;
      replace(this.body, json(rest, { depth: 2 }));
    } else if ((item.status ?? "in_progress") === "in_progress") this.#grow("arguments", text, "mono");
    else if (!this.isDone) {
      this.isDone = true;
      const value = parsed(text);
      replace(this.body, value !== null && typeof value === "object" ? json(value, { depth: 2 }) : prose(text, { className: "mono", name: "arguments" }));
    }
  }
}

function titleOf(item) {
  if (item.type === "reasoning") return "Reasoning";
  const name = item.name ? [h("code", null, marked(line(item.name, 100)))] : [];
  return [`${itemName(item.type)} `, name];
}

export class Answer {
  #views = [];
  #changed = new Set();
  #frame = 0;

  constructor() {
    this.element = h("div", { class: "answer" });
  }

  /** An item has changed: it is drawn with the next frame. */
  update(items, index) {
    this.items = items;
    this.#changed.add(index);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  /** Draw all items now. */
  show(items) {
    this.items = items;
    items.forEach((_, index) => this.#changed.add(index));
    this.#draw();
  }

  #draw() {
    for (const index of [...this.#changed].sort((one, other) => one - other)) {
      const item = this.items[index];
      if (!item) continue;
      const shown = this.#views[index];
      if (!shown || shown.type !== item.type) {
        this.#views[index] = new ItemView(item);
        if (shown) shown.element.replaceWith(this.#views[index].element);
        else this.#insert(index);
      }
      this.#views[index].update(item);
    }
    this.#changed.clear();
  }

  #insert(index) {
    const next = this.#views.find((view, place) => view && place > index);
    this.element.insertBefore(this.#views[index].element, next?.element ?? null);
  }
}
