/** A list of events of any length: only the rows that are visible exist. */

import { h, replace } from "./dom.js";

const ROW = 26;
const BEYOND = 8;

let lists = 0;

export class EventList {
  #id = `events-${++lists}`;
  #count = 0;
  #selected = -1;
  #frame = 0;
  #follows = true;
  #isOwnScroll = false;

  /** `rowOf(index)` returns the row's nodes and its text: `{content, isMarked}`. `onSelect(index)`. */
  constructor({ label, rowOf, onSelect }) {
    this.rowOf = rowOf;
    this.onSelect = onSelect;
    this.rows = h("div", { class: "event-rows", role: "presentation" });
    this.element = h("div", {
      class: "event-list", tabindex: "0", role: "listbox", "aria-label": label,
      onscroll: () => this.#scrolled(), onkeydown: (event) => this.#press(event),
    }, this.rows);
    this.observer = new ResizeObserver(() => this.#request());
    this.observer.observe(this.element);
  }

  set count(count) {
    this.#count = count;
    this.#request();
  }

  get selected() {
    return this.#selected;
  }

  /** Show a row as selected, and scroll to it. */
  select(index, { isReported = false } = {}) {
    this.#selected = index;
    this.#follows = false;
    const top = index * ROW;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) this.element.scrollTop = Math.max(0, top - clientHeight / 2);
    this.#request();
    if (isReported) this.onSelect(index);
  }

  destroy() {
    this.observer.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  #request() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    this.rows.style.setProperty("height", `${this.#count * ROW}px`);
    if (this.#follows) {
      this.#isOwnScroll = true;
      this.element.scrollTop = this.#count * ROW;
    }
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.#count, Math.ceil((this.element.scrollTop + this.element.clientHeight) / ROW) + BEYOND);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.#row(index));
    replace(this.rows, rows);
    if (this.#selected >= first && this.#selected < last) this.element.setAttribute("aria-activedescendant", `${this.#id}-${this.#selected}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #row(index) {
    const { content, isMarked } = this.rowOf(index);
    const row = h("div", {
      class: isMarked ? "event-row is-marked" : "event-row", role: "option", id: `${this.#id}-${index}`,
      "aria-selected": String(index === this.#selected), "aria-setsize": this.#count, "aria-posinset": index + 1,
      onclick: () => this.select(index, { isReported: true }),
    }, content);
    row.style.setProperty("transform", `translateY(${index * ROW}px)`);
    return row;
  }

  /** The newest row stays visible until the user scrolls away from it, and again once they scroll back. */
  #scrolled() {
    if (!this.#isOwnScroll && this.#selected < 0) {
      this.#follows = this.element.scrollTop + this.element.clientHeight >= this.#count * ROW - ROW;
    }
    this.#isOwnScroll = false;
    this.#request();
  }

  #press(event) {
    const last = this.#count - 1;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    const from = this.#selected < 0 ? (event.key.endsWith("Up") ? last + 1 : -1) : this.#selected;
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, PageDown: from + page, PageUp: from - page, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.select(Math.max(0, Math.min(last, to)), { isReported: true });
  }
}
