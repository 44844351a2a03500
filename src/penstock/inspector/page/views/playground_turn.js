/** One turn of the playground: what was sent, the answer while it arrives, and its stream. */

import { ApiError, api } from "../api.js";
import { announce, h, imageUrl, replace } from "../dom.js";
import { duration, number, status } from "../format.js";
import { estimated } from "../records.js";
import { ResponseState, openCalls } from "../response_state.js";
import { to } from "../route.js";
import { StreamPanel } from "../stream_panel.js";
import { line, marked, parsed, prose } from "../text.js";
import { LiveOutput, itemList } from "../turn/output.js";

const CANCEL_PATIENCE = 3000;

export class PlaygroundTurn {
  #abort = new AbortController();
  #timer = 0;
  #stopping = 0;

  /** `body`: the request; `items`: its new input. */
  constructor(body, items, { onChange }) {
    this.body = body;
    this.items = items;
    this.onChange = onChange;
    this.isRunning = true;
    this.isStopped = false;
    this.state = new ResponseState();
    this.live = new LiveOutput();
    this.answer = h("div", { class: "answer" }, this.live.element);
    this.foot = h("div", { class: "turn-foot" });
    this.calls = h("div", { class: "turn-calls" });
    this.element = h("li", { class: "turn" }, items.map(inputItem), this.answer, this.calls, this.foot);
    this.stream = new StreamPanel({ turn: emptyTurn(), label: "Timeline of this answer" });
  }

  get id() {
    return this.state.id;
  }

  get openCalls() {
    return this.state.status === "completed" ? openCalls(this.state.items.filter(Boolean)) : [];
  }

  async run() {
    this.began = performance.now();
    this.#timer = setInterval(() => this.#tick(), 200);
    this.#drawFoot();
    try {
      await api.stream("v1/responses", { method: "POST", body: this.body, signal: this.#abort.signal },
        ({ data }) => this.#receive(data));
    } catch (error) {
      this.failure = this.#abort.signal.aborted ? "You stopped this turn before the gateway had answered." : error.message;
      this.failureCode = error instanceof ApiError ? error.code : "";
    } finally {
      clearInterval(this.#timer);
      clearTimeout(this.#stopping);
      this.isRunning = false;
      this.took = performance.now() - this.began;
      this.stream.timeline.setNow(0);
      if (!this.stream.length) replace(this.answer);
      if (!this.state.isOver && !this.failure) this.failure = "The connection ended before the response did.";
      this.#drawFoot();
      announce(`The turn is ${this.outcome}`);
      this.onChange(this);
    }
  }

  /** Cancel the turn at the gateway; if it does not end then, leave it. */
  stop() {
    if (!this.isRunning) return;
    this.isStopped = true;
    if (!this.id) {
      this.#abort.abort();
      return;
    }
    api.post(`v1/responses/${encodeURIComponent(this.id)}/cancel`, {}).catch(() => this.#abort.abort());
    this.#stopping = setTimeout(() => this.#abort.abort(), CANCEL_PATIENCE);
  }

  destroy() {
    this.#abort.abort();
    clearInterval(this.#timer);
    this.stream.destroy();
  }

  get outcome() {
    if (this.isRunning) return this.state.status || "queued";
    if (this.state.isOver) return this.isStopped && this.state.status === "incomplete" ? "cancelled" : this.state.status;
    return this.#abort.signal.aborted ? "cancelled" : "failed";
  }

  #receive(data) {
    if (data === "[DONE]") return;
    const event = parsed(data) ?? {};
    this.state.apply(event);
    this.live.add(event);
    this.stream.add(event, data, performance.now() - this.began);
    if (event.type === "response.created") this.#drawFoot();
    if (this.state.isOver) replace(this.answer,
      itemList(this.state.items.filter(Boolean), { empty: "The response has no output." }));
  }

  #tick() {
    this.stream.timeline.setNow(performance.now() - this.began);
    this.clock.textContent = this.#clock();
  }

  #clock() {
    const elapsed = this.isRunning ? performance.now() - this.began : this.took;
    return this.isRunning && !this.id ? `waiting for the first event, ${duration(elapsed)}` : duration(elapsed);
  }

  #drawFoot() {
    const { label, mark, tone } = status(this.outcome);
    const { usage, isEstimated } = this.state;
    const tokens = (count) => estimated(number(count), isEstimated);
    this.clock = h("span", { class: "muted" }, this.#clock());
    replace(this.foot,
      h("div", { class: "turn-facts" },
        h("span", { class: `badge is-${tone}` }, h("span", { "aria-hidden": "true" }, mark), label), this.clock,
        usage ? h("span", { class: "muted" },
          `${tokens(usage.input_tokens)} tokens in, ${tokens(usage.output_tokens)} out`) : null,
        this.id ? h("a", { href: to("turns", this.id) }, "Open the turn") : null,
        this.id && !this.isRunning
          ? h("a", { href: to("playground", "", "", { turn: this.id }), class: "branch-link",
            title: "Begin a branch after this turn" },
          "Continue from here") : null),
      this.isRunning ? null : this.#noticed(), this.isRunning ? null : this.#reason());
  }

  /** What the gateway could not pass on as it was. */
  #noticed() {
    const { noticed } = this.state;
    if (!noticed.length) return null;
    return h("ul", { class: "turn-noticed", "aria-label": "Diagnostics" }, noticed.slice(0, 20).map((each) => h("li", null,
      h("code", null, marked(line(String(each.code ?? ""), 60))), " ", marked(line(String(each.message ?? ""), 300)))));
  }

  #reason() {
    const error = this.state.error;
    const message = error ? String(error.message ?? "") : this.failure;
    if (!message) return null;
    const code = error?.code ?? this.failureCode;
    const request = /\breq_[\w-]{4,80}/.exec(message)?.[0];
    return h("div", { class: "turn-problem", role: "alert" },
      h("p", null, code ? h("code", null, marked(line(String(code), 60))) : null, code ? " " : null,
        marked(message.slice(0, 2000))),
      this.id
        ? h("p", null, h("a", { href: to("turns", this.id) }, "See who ended this stream, and why"))
        : request ? h("p", null,
          h("a", { href: to("turns", "", "", { search: request }) }, "Find this request in the list of turns")) : null);
  }
}

function emptyTurn() {
  return {
    id: "", status: "in_progress", is_running: true, timed: true, lanes: [], attempts: [], violations: [],
    events: { types: [], sequence: [], at_ms: [], type: [], lane: [], size: [], next: null },
    reads: { at_ms: [], size: [], attempt: [] }, heartbeats: { at_ms: [] },
  };
}

/** An item of the input: the user's message, or the result of a tool. */
export function inputItem(item) {
  if (String(item.type).endsWith("_output")) {
    const text = typeof item.output === "string" ? item.output : JSON.stringify(item.output);
    return h("div", { class: "bubble is-result" }, h("div", { class: "item-title" }, "Tool result"),
      prose(text, { className: "mono" }));
  }
  const content = typeof item.content === "string" ? [{ type: "input_text", text: item.content }] : item.content ?? [];
  return h("div", { class: "bubble" },
    content.map((part) => (part.type === "input_image" ? picture(part)
    : prose(String(part.text ?? part.refusal ?? `(${part.type})`)))));
}

/** Images of the page itself are shown; an address elsewhere is not fetched. */
function picture(part) {
  const url = String(part.image_url ?? "");
  try {
    return h("img", { src: imageUrl(url), alt: "Attached image" });
  } catch {
    return h("p", { class: "help" }, "An image at ",
      h("code", null, marked(line(url || String(part.file_id ?? "another place"), 120))));
  }
}
