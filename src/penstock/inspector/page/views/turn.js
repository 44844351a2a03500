/** One turn: who ended it and why, its timeline, and everything that was kept of it. */

import { api } from "../api.js";
import { announce, errorNotice, h, notice, replace } from "../dom.js";
import { pause } from "../feed.js";
import { duration } from "../format.js";
import { to } from "../route.js";
import { gatewayNow } from "../session.js";
import { line, parsed } from "../text.js";
import { Timeline } from "../timeline.js";
import { TERMINAL } from "../timeline_model.js";
import { actions } from "../turn/actions.js";
import { fromRequest } from "../turn/clock.js";
import { EventList } from "../turn/event_list.js";
import { EventTexts } from "../turn/event_texts.js";
import { LiveOutput, itemList } from "../turn/output.js";
import { aside, facts, firstOutput, head, missing, steps, verdict, violations } from "../turn/report.js";
import { requestsPanel } from "../turn/requests.js";

/** No event has this number: what is asked for is everything but events. */
const NO_EVENTS = 2 ** 53;
const PACE = 2500;

export async function show(main, { id, signal }) {
  let turn;
  try {
    turn = fromRequest(await api.get(pathOf(id), {}, signal));
  } catch (error) {
    if (signal.aborted) return null;
    if (error.status !== 404) throw error;
    replace(main, notToBeFound(id));
    return null;
  }
  if (signal.aborted) return null;
  const view = new TurnView(main, turn, signal);
  view.run();
  return () => view.leave();
}

function pathOf(id, rest = "") {
  return `inspector/api/turns/${encodeURIComponent(id)}${rest}`;
}

/** What is missing, without the sentence that says why there is no replay: the button for it says so. */
function notAboutReplay(turn) {
  return turn.missing.filter((each) => turn.can_replay || !each.includes("--record"));
}

function notToBeFound(id) {
  return notice("There is no such turn",
    h("p", null, "The gateway has no turn with the id ", h("code", null, line(id, 100)), ", or it belongs to another key. Turns are deleted when they expire."),
    h("p", null, h("a", { class: "button", href: to("turns") }, "All turns")));
}

class TurnView {
  #content = null;
  #isBeat = false;
  /** Aborted when the stream has ended. */
  #over = new AbortController();

  constructor(main, turn, signal) {
    this.main = main;
    this.turn = turn;
    this.signal = signal;
    this.top = h("div", { class: "turn-top" });
    this.output = h("div", { class: "body" });
    this.requests = h("div", { class: "turn-requests" });
    this.steps = h("div");
    this.details = h("div", { class: "turn-details" });
    this.side = h("aside", { class: "turn-side", "aria-label": "Details" }, this.details);
    const place = h("div", { class: "timeline" });
    const hasEvents = turn.has_content;
    replace(main, this.top,
      hasEvents ? h("section", { class: "panel", "aria-labelledby": "timeline-title" }, h("h2", { id: "timeline-title", class: "visually-hidden" }, "Timeline"), place) : null,
      this.broken = h("div"),
      h("div", { class: hasEvents ? "turn-grid" : "turn-grid is-short" },
        hasEvents ? h("div", { class: "turn-main" },
          h("section", { class: "panel", "aria-labelledby": "output-title" }, h("header", null, h("h2", { id: "output-title" }, "Input and output")), this.output),
          this.requests, this.steps) : null,
        this.side));
    if (hasEvents) {
      this.timeline = new Timeline(place, turn, { onSelect: (index, _, isChosen) => this.events.select(index, isChosen) });
      this.events = new EventList(this.timeline.model, {
        load: (sequence) => this.#event(sequence),
        onSelect: (index) => this.timeline.select(index),
        textOf: (index) => this.texts.get(this.timeline.model.sequence[index]) || null,
        onShown: (sequences) => this.texts?.want(sequences),
      });
      this.texts = new EventTexts((after, limit) => api.get(pathOf(turn.id, "/events"), { after, limit }, signal), () => this.events.draw());
      this.side.prepend(this.events.element);
    }
    this.#drawReport();
  }

  leave() {
    this.timeline?.destroy();
    clearInterval(this.clock);
  }

  /** Load what is large, and follow the turn while it runs. */
  async run() {
    if (this.turn.is_running) {
      this.clock = setInterval(() => this.#tick(), 100);
      const parts = this.turn.has_content ? [this.#followEvents(), this.#loadRequest()] : [];
      await Promise.all([...parts, this.#followReport()]);
      clearInterval(this.clock);
      if (this.signal.aborted) return;
      announce(`The turn has ended: ${this.turn.sentence}`);
    } else if (this.turn.has_content) await this.#moreEvents();
    if (this.turn.status === "failed" && this.events && !this.signal.aborted) this.events.showEnd();
    if (this.turn.has_content && !this.signal.aborted) await this.#loadContent();
  }

  /* Parts of the page */

  #drawReport() {
    const { turn } = this;
    this.facts = facts(turn);
    replace(this.top, head(turn), verdict(turn), this.facts, actions(turn, () => this.#loaded()), missing(notAboutReplay(turn)));
    replace(this.broken, violations(turn, (sequence) => this.#select(sequence)));
    replace(this.details, aside(turn));
    replace(this.steps, steps(turn));
  }

  #select(sequence) {
    const index = this.timeline.model.indexOf(sequence);
    if (index < 0) return;
    this.timeline.select(index, { isReported: true });
    this.timeline.box.focus();
  }

  #tick() {
    const elapsed = (gatewayNow() - this.turn.begin) * 1000;
    this.timeline?.setNow(elapsed);
    const cell = this.facts.querySelector('[data-fact="Duration"]');
    if (cell) cell.textContent = duration(elapsed);
    const first = this.facts.querySelector('[data-fact="First output"]');
    if (first) first.textContent = firstOutput(this.turn, (this.timeline?.model.lanes ?? []).map((lane) => lane.bars[0].begin));
  }

  async #event(sequence) {
    const page = await api.get(pathOf(this.turn.id, "/events"), { after: sequence - 1, limit: 1 }, this.signal);
    return page.data[0]?.sequence_number === sequence ? page.data[0].event : null;
  }

  /** Further events than one answer has. */
  async #moreEvents() {
    let { next } = this.turn.events;
    while (next !== null && next !== undefined) {
      const page = fromRequest(await api.get(pathOf(this.turn.id), { events_after: next }, this.signal));
      this.timeline.addColumns(page.events);
      this.events.grow();
      next = page.events.next;
    }
  }

  async #loaded() {
    this.#content ??= await api.get(pathOf(this.turn.id, "/content"), {}, this.signal);
    return this.#content;
  }

  async #loadContent() {
    try {
      const content = await this.#loaded();
      if (this.signal.aborted) return;
      this.#drawOutput(itemList(content.output, { empty: "There is no output." }));
      replace(this.requests, requestsPanel(content));
      if (content.missing.length) this.requests.prepend(missing(content.missing));
    } catch (error) {
      if (!this.signal.aborted) replace(this.output, errorNotice(error, () => this.#loadContent()));
    }
  }

  /** What is known of a turn that is running: its input, and what the upstream got. */
  async #loadRequest() {
    try {
      const content = await this.#loaded();
      if (this.signal.aborted || !this.turn.is_running) return;
      this.#drawOutput(this.live.element);
      replace(this.requests, requestsPanel(content));
    } catch {
      // It is loaded again when the turn has ended.
    }
  }

  #drawOutput(output) {
    const input = this.#content?.input ?? [];
    replace(this.output,
      input.length ? h("details", { class: "input-fold", open: input.length <= 3 }, h("summary", null, h("h3", null, "Input")), itemList(input)) : null,
      h("h3", null, "Output"), output);
  }

  /* While it runs */

  /** All events from the first on make the text; those that are new also extend the timeline. */
  async #followEvents() {
    this.live = new LiveOutput();
    this.#drawOutput(this.live.element);
    let last = -1;
    while (!this.signal.aborted) {
      try {
        const query = { stream: true, starting_after: last >= 0 ? last : "" };
        let isOver = false;
        await api.stream(`v1/responses/${encodeURIComponent(this.turn.id)}`, { query, signal: this.signal }, ({ data }) => {
          const event = parsed(data);
          if (!event?.type || (event.sequence_number ?? 0) <= last) return;
          last = event.sequence_number ?? last;
          this.live.add(event);
          this.#arrived(event, data.length);
          isOver ||= TERMINAL.has(event.type);
        });
        if (isOver) this.#over.abort();
        if (isOver || last < 0) return;
      } catch {
        if (this.signal.aborted) return;
      }
      await pause(PACE, this.signal);
      if (!this.turn.is_running) return;
    }
  }

  #arrived(event, size) {
    const at = (gatewayNow() - this.turn.begin) * 1000;
    const index = this.timeline.add(event, at, size);
    if (index < 0) return;
    if (event.type === "response.in_progress") {
      if (this.#isBeat || index > 2) this.timeline.addHeartbeat(at);
      this.#isBeat = true;
    }
    this.events.grow();
  }

  /** Everything else that changes: attempts, reads, the verdict. When the turn has ended, the exact times. */
  async #followReport() {
    let wait = PACE;
    while (!this.signal.aborted) {
      await pause(this.#over.signal.aborted ? 200 : wait, this.signal, this.#over.signal);
      if (this.signal.aborted) return;
      const begin = performance.now();
      try {
        const known = fromRequest(await api.get(pathOf(this.turn.id), { events_after: NO_EVENTS - 1 }, this.signal));
        const isOver = !known.is_running;
        this.turn = isOver ? fromRequest(await api.get(pathOf(this.turn.id), {}, this.signal)) : { ...known, events: this.turn.events };
        if (isOver) break;
        this.timeline?.setTraffic(known);
      } catch (error) {
        if (this.signal.aborted) return;
        if (error.status === 404) break;
      }
      wait = Math.max(PACE, 10 * (performance.now() - begin));
    }
    this.#ended();
  }

  #ended() {
    clearInterval(this.clock);
    this.#content = null;
    if (this.timeline) {
      this.timeline.setTurn(this.turn);
      this.events.setModel(this.timeline.model);
    }
    this.#drawReport();
  }
}
