/** A turn to scale: the upstream's reads on top, then the response, then a lane for each item of its output.
 *
 *   const timeline = new Timeline(element, turn, { onSelect: (index, sequence) => … });
 *   timeline.add(event, at_ms, size);        // an event that has just arrived
 *   timeline.select(index); timeline.destroy();
 */

import { announce, h, replace } from "./dom.js";
import { counted, duration, instant, number } from "./format.js";
import { AXIS, ROW, Scale, colours, draw, gutter } from "./timeline_drawing.js";
import { nearest, whatIsAt, when } from "./timeline_hover.js";
import { Legend } from "./timeline_legend.js";
import { TimelineModel } from "./timeline_model.js";

const TALLEST = 400;

export class Timeline {
  #abort = new AbortController();
  #observer;
  #frame = 0;
  #theme = colours();
  #pointers = new Map();
  #dragged = 0;
  #silences = null;
  #view = { begin: 0, end: 1, isFit: true, selected: -1, hovered: -1, width: 0, height: 0 };

  /** `onSelect(index, sequence)`: an event was chosen; `isChosen` is false while the arrow keys walk. */
  constructor(element, turn, { onSelect = () => {}, label = "Timeline of the turn" } = {}) {
    this.onSelect = onSelect;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.space = h("div", { class: "timeline-space" }, this.canvas);
    this.tip = h("div", { class: "timeline-tip", hidden: true, "aria-hidden": "true" });
    this.box = h("div", {
      class: "timeline-box", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": label,
      "aria-describedby": "timeline-keys",
    }, this.space);
    this.legend = new Legend();
    this.summary = h("span", { class: "muted", "data-part": "summary" });
    this.element = replace(element, this.#toolbar(), this.box, this.legend.element, this.tip);
    this.setTurn(turn);
    this.#listen();
  }

  /** Show another state of the turn: everything is known again. Zoom and selection stay. */
  setTurn(turn) {
    const selected = this.model && this.#view.selected >= 0 ? this.model.sequence[this.#view.selected] : null;
    this.model = new TimelineModel(turn);
    this.#silences = null;
    this.#view.selected = selected === null ? -1 : this.model.indexOf(selected);
    this.#resize();
  }

  add(event, at, size) {
    const index = this.model.addEvent(event, at, size);
    if (index >= 0) this.#changed();
    return index;
  }

  addColumns(events) {
    this.model.addColumns(events);
    this.#changed();
  }

  addHeartbeat(at) {
    this.model.addHeartbeat(at);
    this.#changed();
  }

  /** Show other attempts and reads of a turn that is running. */
  setTraffic(turn) {
    this.model.setTraffic(turn);
    this.#changed();
  }

  /** The time until now of a turn that is running. */
  setNow(at) {
    this.model.now = at;
    this.#changed();
  }

  get selected() {
    return this.#view.selected;
  }

  /** Show an event as selected, and move to it if it is not visible. */
  select(index, { isReported = false, isChosen = true } = {}) {
    this.#view.selected = index;
    if (index >= 0) this.#reveal(index);
    this.#draw();
    if (isReported && index >= 0) this.onSelect(index, this.model.sequence[index], isChosen);
  }

  zoom(factor, at = null) {
    const { begin, end } = this.#range();
    const middle = at ?? (this.#view.selected >= 0 ? clamp(this.model.at[this.#view.selected], begin, end) : (begin + end) / 2);
    const least = this.model.isTimed ? 0.5 : 8;
    const size = Math.max(least, (end - begin) * factor);
    this.#show(middle - ((middle - begin) * size) / (end - begin), size);
  }

  fit() {
    this.#view.isFit = true;
    this.#draw();
  }

  pan(part) {
    const { begin, end } = this.#range();
    this.#show(begin + part * (end - begin), end - begin);
  }

  destroy() {
    this.#abort.abort();
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  /* View */

  #range() {
    if (!this.#view.isFit) return this.#view;
    return { begin: 0, end: this.model.isTimed ? this.model.end * 1.01 : Math.max(1, this.model.end) };
  }

  #show(begin, size) {
    const whole = this.model.isTimed ? this.model.end * 1.01 : this.model.end;
    if (size >= whole) return this.fit();
    this.#view.begin = clamp(begin, 0, whole - size);
    this.#view.end = this.#view.begin + size;
    this.#view.isFit = false;
    return this.#draw();
  }

  #reveal(index) {
    const { begin, end } = this.#range();
    const at = this.model.at[index];
    if (at < begin || at > end) this.#show(at - (end - begin) / 2, end - begin);
    const top = this.model.rows.indexOf(this.model.rowOf(index)) * ROW;
    const room = this.#view.height - AXIS;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + room) this.box.scrollTop = top + ROW - room;
  }

  #changed() {
    this.#silences = null;
    this.#draw();
  }

  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#drawNow();
    });
  }

  #drawNow() {
    const rows = this.model.rows.length;
    if (rows !== this.rows) this.#resize();
    if (this.#view.width < 50) return;
    this.#silences ??= this.model.silences();
    const { begin, end } = this.#range();
    const view = {
      ...this.#view, scroll: this.box.scrollTop, silences: this.#silences, scale: new Scale(begin, end, this.#view.width),
    };
    const drawn = draw(this.canvas.getContext("2d"), this.model, view, this.#theme);
    Object.assign(this.canvas.dataset, { ticks: drawn.ticks, rows: drawn.rows, bars: drawn.bars, symbols: drawn.symbols, frames: Number(this.canvas.dataset.frames ?? 0) + 1 });
    this.legend.show(this.model, this.#silences);
    this.#drawSummary();
  }

  #drawSummary() {
    const count = counted(this.model.length, "event");
    const length = this.model.isTimed ? ` in ${duration(this.model.end)}` : " by position: there are no times";
    const { begin, end } = this.#range();
    const part = this.#view.isFit ? "" : this.model.isTimed ? ` · ${instant(begin, end - begin)} to ${instant(end, end - begin)}` : ` · #${number(Math.floor(begin))} to #${number(Math.ceil(end))}`;
    const { heartbeatCount: beats, untimedHeartbeats: untimed } = this.model;
    const unseen = untimed ? ` · ${counted(beats, "heartbeat")}${untimed < beats ? `, ${number(untimed)} of them` : ""} without a known time` : "";
    const text = `${count}${length}${unseen}${part}`;
    if (this.summary.textContent !== text) this.summary.textContent = text;
  }

  #resize() {
    this.rows = this.model.rows.length;
    const whole = AXIS + this.rows * ROW + 1;
    const height = Math.min(whole, TALLEST);
    const width = this.box.clientWidth;
    const ratio = devicePixelRatio || 1;
    Object.assign(this.#view, { width, height });
    this.space.style.setProperty("height", `${whole}px`);
    this.box.style.setProperty("height", `${height + 2}px`);
    this.canvas.style.setProperty("width", `${width}px`);
    this.canvas.style.setProperty("height", `${height}px`);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#draw();
  }

  /* Pointer and keyboard */

  #listen() {
    const signal = this.#abort.signal;
    this.#observer = new ResizeObserver(() => this.#resize());
    this.#observer.observe(this.box);
    document.addEventListener("themechange", () => {
      this.#theme = colours();
      this.#draw();
    }, { signal });
    this.box.addEventListener("scroll", () => this.#draw());
    this.box.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("pointerdown", (event) => this.#down(event));
    this.canvas.addEventListener("pointermove", (event) => this.#move(event));
    this.canvas.addEventListener("pointerup", (event) => this.#up(event));
    this.canvas.addEventListener("pointercancel", (event) => this.#pointers.delete(event.pointerId));
    this.canvas.addEventListener("pointerleave", () => this.#hover(null));
    this.canvas.addEventListener("dblclick", (event) => this.zoom(0.4, this.#timeAt(event)));
  }

  #timeAt(event) {
    const { begin, end } = this.#range();
    return new Scale(begin, end, this.#view.width).time(event.clientX - this.canvas.getBoundingClientRect().left);
  }

  #wheel(event) {
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(clamp(event.deltaY, -80, 80) / 120), this.#timeAt(event));
    else if (isSideways) this.pan((event.deltaX || event.deltaY) / (this.#view.width - gutter(this.#view.width)));
    else return;
    event.preventDefault();
  }

  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, event);
    if (this.#pointers.size === 1) this.#dragged = 0;
  }

  #move(event) {
    const before = this.#pointers.get(event.pointerId);
    if (!before) {
      this.#hover(event);
      return;
    }
    const width = this.#view.width - gutter(this.#view.width);
    if (this.#pointers.size === 1) {
      this.#dragged += Math.abs(event.clientX - before.clientX);
      if (this.#dragged > 4) this.pan((before.clientX - event.clientX) / width);
    } else {
      const [other] = [...this.#pointers].filter(([id]) => id !== event.pointerId).map(([, each]) => each);
      const [old, now] = [before, event].map((each) => Math.max(12, Math.abs(each.clientX - other.clientX)));
      this.#dragged += 10;
      this.zoom(old / now, (this.#timeAt(other) + this.#timeAt(event)) / 2);
    }
    this.#pointers.set(event.pointerId, event);
  }

  #up(event) {
    this.#pointers.delete(event.pointerId);
    if (this.#dragged > 4) return;
    const found = this.#find(event);
    if (found?.index >= 0) this.select(found.index, { isReported: true });
  }

  #hover(event) {
    const found = event ? this.#find(event) : null;
    const hovered = found?.index ?? -1;
    if (hovered !== this.#view.hovered) {
      this.#view.hovered = hovered;
      this.#draw();
    }
    this.tip.hidden = !found;
    if (!found) return;
    replace(this.tip, h("strong", null, found.title), h("span", null, found.detail));
    const place = this.element.getBoundingClientRect();
    const x = clamp(event.clientX - place.left - this.tip.offsetWidth / 2, 4, this.#view.width - this.tip.offsetWidth - 4);
    const isLow = event.clientY + 20 + this.tip.offsetHeight > innerHeight;
    const y = event.clientY - place.top + (isLow ? -this.tip.offsetHeight - 12 : 20);
    this.tip.style.setProperty("transform", `translate(${Math.round(x)}px, ${Math.round(y)}px)`);
  }

  /** What is under the pointer. */
  #find(event) {
    const box = this.canvas.getBoundingClientRect();
    const { begin, end } = this.#range();
    return whatIsAt(this.model, {
      x: event.clientX - box.left, y: event.clientY - box.top, scroll: this.box.scrollTop,
      scale: new Scale(begin, end, this.#view.width), silences: this.#silences ?? [],
    });
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { selected } = this.#view;
    const last = this.model.length - 1;
    const keys = {
      ArrowRight: () => (event.shiftKey ? this.pan(0.2) : this.#walk(selected + 1)),
      ArrowLeft: () => (event.shiftKey ? this.pan(-0.2) : this.#walk(selected - 1)),
      ArrowDown: () => this.#walkRows(1),
      ArrowUp: () => this.#walkRows(-1),
      PageDown: () => this.#walk(Math.min(last, selected + 25)),
      PageUp: () => this.#walk(Math.max(0, selected - 25)),
      Home: () => this.#walk(0),
      End: () => this.#walk(last),
      Enter: () => selected >= 0 && this.select(selected, { isReported: true }),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.fit(),
    };
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #walk(index) {
    if (index < 0 || index >= this.model.length) return;
    this.select(index, { isReported: true, isChosen: false });
    const { title, detail } = this.model.describe(index);
    announce(`${title}, ${when(this.model, this.model.at[index])}, ${detail}`);
  }

  /** To the nearest event of the next row that has any. */
  #walkRows(step) {
    const rows = this.model.rows;
    const { selected } = this.#view;
    const from = selected < 0 ? -1 : rows.indexOf(this.model.rowOf(selected));
    const time = selected < 0 ? 0 : this.model.at[selected];
    for (let position = from + step; position >= 0 && position < rows.length; position += step) {
      if (!rows[position].indices.length) continue;
      this.#walk(rows[position].indices[nearest(rows[position].times, time)]);
      return;
    }
  }

  #toolbar() {
    const button = (label, name, action) => h("button", { type: "button", class: "small", "aria-label": name, title: name, onclick: action }, label);
    return h("div", { class: "timeline-bar" }, this.summary, h("span", { class: "actions" },
      button("−", "Zoom out", () => this.zoom(2)), button("+", "Zoom in", () => this.zoom(0.5)), button("Fit", "Show the whole turn", () => this.fit())));
  }
}

function clamp(value, least, most) {
  return Math.max(least, Math.min(most, value));
}
