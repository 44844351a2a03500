/** The playground: send a request to this gateway, and watch its answer and its events arrive side by side. */

import { api } from "../api.js";
import { errorNotice, h, notice, replace } from "../dom.js";
import { modelPicker } from "../models.js";
import { openCalls, resultItem } from "../response_state.js";
import { to } from "../route.js";
import { line, marked } from "../text.js";
import { itemList } from "../turn/output.js";
import { PlaygroundForm } from "./playground_form.js";
import { DEMO_PROMPTS, PROMPTS } from "./playground_prompts.js";
import { PlaygroundTurn, inputItem } from "./playground_turn.js";

/** The conversation, until the page is closed: `{playground, key}`. A turn goes on while another view is shown. */
let kept = null;

export async function show(main, { query, signal }) {
  const isNew = kept?.key !== api.key || (query.turn && query.turn !== kept.playground.last);
  if (isNew) {
    kept?.playground.destroy();
    kept = null;
    const picker = await modelPicker({ chosen: query.model, signal, onchange: () => playground.drawPrompts() });
    const playground = new Playground(picker);
    if (signal.aborted) return playground.destroy();
    kept = { playground, key: api.key };
  }
  const { playground } = kept;
  if (!isNew && query.model) playground.picker.value = query.model;
  replace(main,
    h("div", { class: "page-head" }, h("h1", null, "Playground"),
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => playground.clear() }, "New conversation"))),
    h("div", { class: "playground" }, playground.element, playground.streams));
  playground.attach(signal);
  if (isNew && query.turn) await playground.continueFrom(query.turn);
  if (matchMedia("(pointer: fine)").matches) playground.form.text.focus({ preventScroll: true });
}

class Playground {
  #turns = [];
  #previous = "";
  #isAtEnd = true;

  constructor(picker) {
    this.picker = picker;
    this.form = new PlaygroundForm({ picker, onSend: (items, settings) => this.#send(items, settings),
      onStop: () => this.#turns.at(-1)?.stop() });
    this.list = h("ol", { class: "conversation", "aria-label": "Conversation" });
    this.earlier = h("div", { class: "earlier" });
    this.prompts = h("div", { class: "prompts" });
    this.streams = h("section", { class: "streams", "aria-labelledby": "stream-title" });
    this.element = h("div", { class: "chat" }, this.earlier, this.list, this.prompts, this.form.element);
    this.drawPrompts();
    this.#drawStream(null);
  }

  /** The id of the turn that the next one continues. */
  get last() {
    return this.#previous;
  }

  /** The elements are in the page, until the signal is aborted. */
  attach(signal) {
    this.signal = signal;
    this.#follow();
    this.#nameTurn();
    for (const turn of this.#turns) turn.stream.list.refresh(); // a list that was taken out of the page has lost its place
    this.#turns.at(-1)?.element.scrollIntoView({ block: "nearest" });
    signal.addEventListener("abort", () => this.growth.disconnect());
  }

  /** Put the last turn into the address, so that the conversation goes on after the page is loaded again. */
  #nameTurn() {
    if (!this.signal.aborted && this.#previous) history.replaceState(null, "", to("playground", "", "", { turn: this.#previous }));
  }

  /** While an answer grows, its end stays visible, unless the user has scrolled away from it. */
  #follow() {
    const page = document.scrollingElement;
    this.#isAtEnd = true;
    addEventListener("scroll", () => {
      this.#isAtEnd = page.scrollTop + page.clientHeight >= page.scrollHeight - 80;
    }, { signal: this.signal, passive: true });
    this.growth = new ResizeObserver(() => {
      if (this.#isAtEnd && this.form.isRunning) page.scrollTop = page.scrollHeight;
    });
    this.growth.observe(this.list);
  }

  clear() {
    this.#abandon();
    this.form.forget();
    this.#previous = "";
    replace(this.list);
    replace(this.earlier);
    history.replaceState(null, "", to("playground"));
    this.drawPrompts();
    this.#drawStream(null);
    this.form.text.focus();
  }

  destroy() {
    this.#abandon();
  }

  #abandon() {
    for (const turn of this.#turns) turn.destroy();
    this.#turns = [];
    this.form.setRunning(false);
  }

  drawPrompts() {
    if (this.#turns.length || this.#previous) {
      replace(this.prompts);
      return;
    }
    const isDemo = this.picker.value === "demo";
    replace(this.prompts,
      h("p", { class: "help" },
        isDemo ? "The demo model is built in and needs no key. Ask it for a stream that:" : "Try one of these:"),
      h("ul", { class: "prompt-list" }, (isDemo ? DEMO_PROMPTS : PROMPTS).map((prompt) => h("li", null, h("button", {
        type: "button", class: prompt.isFailure ? "prompt is-failure" : "prompt", onclick: () => {
          this.form.fill(prompt);
          this.form.submit();
        },
      }, h("strong", null, prompt.title), h("span", null, prompt.text))))));
  }

  /* Turns */

  /** `items`: the new input; `settings`: the other fields of the request. */
  async #send(items, settings) {
    const body = { ...settings, input: items, stream: true };
    if (this.#previous) body.previous_response_id = this.#previous;
    const turn = new PlaygroundTurn(body, items, { onChange: () => this.#ended(turn) });
    this.#turns.push(turn);
    this.list.append(turn.element);
    this.drawPrompts();
    this.form.setRunning(true);
    this.#drawStream(turn);
    turn.element.scrollIntoView({ block: "nearest" });
    await turn.run();
  }

  #ended(turn) {
    if (!this.#turns.includes(turn)) return;
    this.form.setRunning(false);
    if (turn.id) this.#previous = turn.id;
    this.#nameTurn();
    turn.showButton = h("button", { type: "button", class: "small", onclick: () => this.#drawStream(turn) }, "Show its events");
    turn.foot.firstElementChild.append(h("span", { class: "actions" }, turn.showButton,
      turn.outcome === "completed" ? ""
        : h("button", { type: "button", class: "small", onclick: () => this.#again(turn) }, "Send again")));
    this.#ask(turn.openCalls, turn.calls);
    this.#drawStream(turn);
    // How it ended is the last line, which the form must not cover.
    if (this.#isAtEnd && !this.signal.aborted) document.scrollingElement.scrollTop = document.scrollingElement.scrollHeight;
  }

  /** Send the same request once more, in the place of the turn that failed. */
  #again(turn) {
    if (this.form.isRunning) return;
    const { input, previous_response_id: previous, stream: _stream, ...settings } = turn.body;
    this.#previous = previous ?? "";
    this.#send(input, settings);
  }

  /** Ask for the results of calls; when all are there, the conversation goes on. */
  #ask(calls, place) {
    if (!calls.length) return;
    const fields = calls.map((call, index) => {
      const id = `result-${call.call_id}-${index}`;
      return { call, id, area: h("textarea",
        { id, rows: "2", class: "mono", placeholder: "What the tool returns, as text or JSON" }) };
    });
    const form = h("form", { class: "results", onsubmit: (event) => {
      event.preventDefault();
      if (this.form.isRunning) return;
      const settings = this.form.settings();
      if (!settings) return;
      form.remove();
      this.#send(fields.map(({ call, area }) => resultItem(call, area.value)), settings);
    } },
    h("p", null, calls.length === 1 ? "The model waits for the result of this call."
      : `The model waits for the results of these ${calls.length} calls.`),
    fields.map(({ call, id, area }) => h("div", { class: "field" },
      h("label", { for: id }, "Result of ", h("code", null, marked(line(call.name ?? call.type, 80)))), area)),
    h("button", { type: "submit", class: "primary" }, "Return and continue"));
    replace(place, form);
    fields[0].area.focus({ preventScroll: true });
  }

  /* Events */

  /** What is shown already stays as it is: a list that is moved loses its place. */
  #drawStream(turn) {
    for (const each of this.#turns) if (each.showButton) each.showButton.hidden = each === turn;
    const isShown = turn?.stream.element.isConnected && (turn.isRunning || turn.stream.length > 0);
    if (isShown) return;
    if (!turn) {
      replace(this.streams, h("h2", { class: "visually-hidden", id: "stream-title" }, "Stream"),
        h("p", { class: "stream-empty panel" },
          "Send a message: its events appear here while the answer arrives, on a timeline drawn to scale."));
      return;
    }
    const position = this.#turns.indexOf(turn) + 1;
    if (!turn.isRunning && !turn.stream.length) {
      replace(this.streams, h("h2", { class: "visually-hidden", id: "stream-title" }, `Stream of turn ${position}`),
        h("p", { class: "stream-empty panel" }, "This request was answered without a stream: it failed before the first event."));
      return;
    }
    replace(this.streams,
      h("h2", { class: this.#turns.length > 1 ? null : "visually-hidden", id: "stream-title" },
      `Stream of turn ${position}`), turn.stream.element);
  }

  /* Continuing */

  async continueFrom(id) {
    try {
      const path = `inspector/api/turns/${encodeURIComponent(id)}`;
      const turn = await api.get(path, {}, this.signal);
      if (!turn.is_stored) {
        replace(this.earlier, notice("This turn cannot be continued",
          (turn.missing ?? []).map((sentence) => h("p", null, sentence)),
          h("p", null, "You can begin a new conversation below.")));
        return;
      }
      const content = await api.get(`${path}/content`, {}, this.signal);
      if (turn.model) this.picker.value = turn.model;
      this.#previous = id;
      this.drawPrompts();
      this.#drawEarlier(id, content);
    } catch (error) {
      if (!this.signal.aborted) replace(this.earlier, errorNotice(error, () => this.continueFrom(id)));
    }
  }

  #drawEarlier(id, { input, output }) {
    const calls = h("div", { class: "turn-calls" });
    replace(this.earlier,
      h("p", { class: "help" }, "You continue from ", h("a", { href: to("turns", id) }, "this turn"),
        "; what was said before it is in ",
        h("a", { href: to("threads", id) }, "its conversation"), ". The model gets all of it."),
      h("div", { class: "turn is-earlier" }, input.map(inputItem), h("div", { class: "answer" }, itemList(output)), calls));
    this.#ask(openCalls(output), calls);
  }
}
