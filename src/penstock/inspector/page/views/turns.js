/** Turns: a live list of the ledger, newest first. */

import { api } from "../api.js";
import { announce, code, errorNotice, h, replace, skeleton } from "../dom.js";
import { follow } from "../feed.js";
import { NOTHING, counted } from "../format.js";
import { durationText, tokenTitle } from "../records.js";
import { setQuery, to } from "../route.js";
import { gatewayNow, session } from "../session.js";
import { line } from "../text.js";
import { COLUMNS, DURATION, INPUT, LINK, OUTPUT } from "./turns_columns.js";

const LIMIT = 50;
/** Rows, and new turns that wait: of a page that is open for days, only the newest ones are kept. */
const MOST_ROWS = 150;
const OUTCOMES = ["running", "completed", "incomplete", "failed", "refused", "cancelled"];
const PERIODS = [["", "any time"], ["3600", "last hour"], ["86400", "last 24 hours"], ["604800", "last 7 days"]];
const FILTERS = ["search", "outcome", "model", "target", "key", "period"];

export async function show(main, { query, signal }) {
  const view = new TurnList(main, query, signal);
  await view.load();
  if (signal.aborted) return null;
  follow({
    signal,
    onTurn: (turn) => view.changed(turn),
    onReload: () => view.load({ isQuiet: true }),
    onState: (state) => view.drawState(state),
  });
  const clock = setInterval(() => view.tick(), 500);
  return () => {
    clearInterval(clock);
    view.leave();
  };
}

class TurnList {
  #rows = new Map();
  #waiting = new Map();
  #before = [];
  #next = null;
  #loading = 0;
  #isLoading = false;
  #frame = 0;
  #changes = new Map();
  /** Turns that have changed while the list is being loaded: the answer may be older than they are. */
  #meanwhile = new Map();
  /** More new turns than are kept one by one. */
  #isBehind = false;

  constructor(main, query, signal) {
    this.main = main;
    this.signal = signal;
    this.filter = Object.fromEntries(FILTERS.map((name) => [name, query[name] ?? ""]));
    this.after = query.after ?? "";
    this.onKey = (event) => this.#key(event);
    document.addEventListener("keydown", this.onKey);
    this.#draw();
  }

  leave() {
    document.removeEventListener("keydown", this.onKey);
    cancelAnimationFrame(this.#frame);
  }

  /* Loading */

  #query() {
    const { period, ...rest } = this.filter;
    const since = period ? gatewayNow() - Number(period) : "";
    return { ...rest, since, after: this.after, limit: LIMIT };
  }

  async load({ isQuiet = false } = {}) {
    const number = (this.#loading += 1);
    this.#isLoading = true;
    this.#isBehind = false;
    this.#meanwhile.clear();
    if (!isQuiet) this.table.setAttribute("aria-busy", "true");
    try {
      const page = await api.get("v1/turns", this.#query(), this.signal);
      if (number !== this.#loading || this.signal.aborted) return;
      this.#next = page.next;
      this.#waiting.clear();
      this.#drawRows(page.data);
      for (const turn of this.#meanwhile.values()) this.#apply(turn);
      this.#drawWaiting();
      if (!isQuiet) announce(page.data.length ? `${counted(page.data.length, "turn")} shown` : "No turns found");
    } catch (error) {
      if (this.signal.aborted || number !== this.#loading) return;
      if (isQuiet && this.#rows.size) {
        this.#isBehind = true; // what is shown is better than nothing, and the next turn tries again
        return;
      }
      this.#rows.clear();
      replace(this.place, errorNotice(error, () => this.load()));
    } finally {
      if (number === this.#loading) {
        this.#isLoading = false;
        this.#meanwhile.clear();
        this.table.removeAttribute("aria-busy");
      }
    }
  }

  /** A turn has started, changed or ended. Rows change where they are; new ones never move what is being read. */
  changed(turn) {
    if (this.#isLoading) this.#keep(this.#meanwhile, turn);
    this.#keep(this.#changes, turn);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const changes = [...this.#changes.values()];
      this.#changes.clear();
      for (const each of changes) this.#apply(each);
      this.#drawWaiting();
      if (this.#isBehind && !this.after && this.#mayInsert()) this.load({ isQuiet: true });
    });
  }

  /** Keep the newest turns, and all that are in the list. */
  #keep(turns, turn) {
    turns.set(turn.id, turn);
    if (turns.size <= MOST_ROWS) return;
    for (const id of turns.keys()) {
      if (this.#rows.has(id)) continue;
      turns.delete(id);
      this.#isBehind = true;
      return;
    }
  }

  #apply(turn) {
    const known = this.#rows.get(turn.id);
    if (known) {
      if (known.turn.ended_at !== null && turn.ended_at === null) return; // the list was newer
      const isEnd = known.turn.ended_at === null && turn.ended_at !== null;
      this.#fill(known, turn);
      if (isEnd) announce(`Turn of ${line(turn.model, 40)} ${turn.outcome}`);
      return;
    }
    if (this.after || !this.#matches(turn) || this.#isFurtherDown(turn)) return;
    this.#keep(this.#waiting, turn);
    if (this.#mayInsert()) this.insertWaiting();
  }

  /** A turn that has run for long is not new when it ends. */
  #isFurtherDown(turn) {
    const last = this.#rows.get(this.body.lastElementChild?.dataset.id);
    return this.#next !== null && last !== undefined && isOlder(turn, last.turn);
  }

  #mayInsert() {
    const focused = document.activeElement;
    return scrollY < 40 && !(focused && this.body.contains(focused));
  }

  /** Whether a turn that has just started belongs in this list: the gateway decides what was searched for. */
  #matches(turn) {
    const { search, outcome, model, target, key } = this.filter;
    const now = turn.ended_at === null ? "running" : turn.outcome;
    const text = [turn.id, turn.request_id, turn.model, turn.tenant, turn.user_agent, now, turn.code].join("\n");
    return (!outcome || outcome === now) && (!model || model === turn.model) && (!target || target === turn.target)
      && (!key || key === turn.tenant) && text.toLowerCase().includes(search.toLowerCase());
  }

  insertWaiting() {
    const turns = [...this.#waiting.values()].sort((a, b) => a.started_at - b.started_at);
    this.#waiting.clear();
    if (!turns.length) return;
    if (!this.#rows.size || this.#isBehind) {
      this.load({ isQuiet: true });
      return;
    }
    for (const turn of turns) {
      const below = [...this.body.children].find((each) => isOlder(this.#rows.get(each.dataset.id).turn, turn));
      const row = this.#row(turn);
      row.element.classList.add("is-new");
      this.body.insertBefore(row.element, below ?? null);
    }
    while (this.#rows.size > MOST_ROWS) this.#dropLast();
    this.#drawWaiting();
  }

  #dropLast() {
    const last = this.body.lastElementChild;
    this.#rows.delete(last.dataset.id);
    last.remove();
    const { started_at: at, id } = this.#rows.get(this.body.lastElementChild.dataset.id).turn;
    this.#next = `${at}_${id}`;
    this.#drawPages();
  }

  tick() {
    for (const row of this.#rows.values()) {
      if (row.turn.ended_at === null) row.cells[DURATION].textContent = durationText(row.turn, gatewayNow());
    }
  }

  /* Drawing */

  #draw() {
    this.state = h("span", { class: "feed-state", "data-state": "waiting" }, "connecting");
    this.body = h("tbody");
    this.table = h("table", { class: "turns" },
      h("caption", { class: "visually-hidden" }, "Turns, newest first"),
      h("thead", null, h("tr", null, COLUMNS.map(([name, type, , title]) => h("th", { scope: "col", class: type || null, title: title ?? null }, name)))),
      this.body);
    this.place = h("div", { class: "panel turns-panel" }, skeleton(8));
    this.more = h("div", { class: "new-turns" });
    this.pages = h("nav", { class: "pages", "aria-label": "Pages" });
    replace(this.main,
      h("div", { class: "page-head" }, h("h1", null, "Turns"), this.state),
      this.#filters(), this.more, this.place, this.pages);
  }

  #filters() {
    const field = (name, label, control) => h("div", { class: `field is-${name}` }, h("label", { for: `filter-${name}` }, label), control);
    const select = (name, options) => h("select", { id: `filter-${name}`, onchange: (event) => this.#set(name, event.target.value) },
      options.map(([value, text]) => h("option", { value, selected: this.filter[name] === value }, text)));
    const input = (name, placeholder) => h("input", {
      id: `filter-${name}`, type: "search", value: this.filter[name], placeholder, spellcheck: "false", autocomplete: "off",
      oninput: (event) => this.#later(name, event.target.value.trim()),
    });
    const outcomes = [["", "any"], ...OUTCOMES.map((each) => [each, each])];
    return h("form", { class: "filters", role: "search", "aria-label": "Filter turns", onsubmit: (event) => event.preventDefault() },
      field("search", "Search", input("search", "id, model, client, key, status, error code")),
      field("outcome", "Status", select("outcome", outcomes)),
      field("model", "Model", input("model", "any")),
      field("target", "Target", input("target", "any")),
      session.current?.is_administrator && session.current.needs_key ? field("key", "Key", input("key", "any")) : null,
      field("period", "Started", select("period", PERIODS)));
  }

  #later(name, value) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.#set(name, value), 220);
  }

  #set(name, value) {
    if (this.filter[name] === value || this.signal.aborted) return;
    this.filter[name] = value;
    this.#go("", []);
  }

  #go(after, before) {
    this.after = after;
    this.#before = before;
    setQuery({ ...this.filter, after });
    return this.load();
  }

  #drawRows(turns) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.id : null;
    const before = this.#rows;
    this.#rows = new Map();
    if (!turns.length) {
      replace(this.body);
      replace(this.place, this.#empty());
    } else {
      const rows = turns.map((turn) => this.#row(turn, before.get(turn.id)).element);
      const isSame = rows.length === this.body.childElementCount && rows.every((row, index) => row === this.body.children[index]);
      if (!isSame) this.body.replaceChildren(...rows);
      if (!this.table.isConnected) replace(this.place, this.table);
      if (!isSame) this.#rows.get(focused)?.element.querySelector("a").focus({ preventScroll: true });
    }
    this.#drawPages();
    this.#drawWaiting();
  }

  /** A row that is there already stays: it may have the focus. */
  #row(turn, known = null) {
    if (known) {
      this.#rows.set(turn.id, known);
      this.#fill(known, turn);
      return known;
    }
    const cells = COLUMNS.map(([name, type]) => h("td", { class: type || null, "data-label": name }));
    const element = h("tr", { "data-id": turn.id, onclick: (event) => this.#click(event, turn.id) }, cells);
    const row = { element, cells, turn: null };
    this.#rows.set(turn.id, row);
    this.#fill(row, turn);
    return row;
  }

  #fill(row, turn) {
    const before = row.turn;
    row.turn = turn;
    COLUMNS.forEach(([, , content], index) => {
      if (before && index === LINK) return; // it never changes, and may have the focus
      row.cells[index].title = index === INPUT || index === OUTPUT ? tokenTitle(turn) ?? "" : "";
      replace(row.cells[index], content(turn));
      row.cells[index].classList.toggle("is-nothing", ["0", "$0", NOTHING].includes(row.cells[index].textContent));
    });
    row.element.classList.toggle("is-running", turn.ended_at === null);
  }

  #click(event, id) {
    if (event.target.closest("a, button") || getSelection()?.toString()) return;
    if (event.metaKey || event.ctrlKey) window.open(to("turns", id), "_blank", "noopener");
    else location.hash = to("turns", id);
  }

  #drawWaiting() {
    const count = this.#waiting.size;
    const label = this.#isBehind ? `Show more than ${counted(MOST_ROWS, "new turn")}` : `Show ${counted(count, "new turn")}`;
    if (count && this.more.firstChild?.textContent === label) return;
    replace(this.more, count ? h("button", {
      type: "button", class: "small primary",
      onclick: () => {
        scrollTo({ top: 0 });
        this.insertWaiting();
        this.body.querySelector("a")?.focus({ preventScroll: true });
      },
    }, label) : null);
  }

  #drawPages() {
    const newer = () => this.#go(this.#before.at(-1) ?? "", this.#before.slice(0, -1)).then(() => scrollTo({ top: 0 }));
    const older = () => this.#go(this.#next, [...this.#before, this.after]).then(() => scrollTo({ top: 0 }));
    if (!this.after && !this.#next) replace(this.pages);
    else {
      replace(this.pages,
        h("button", { type: "button", disabled: !this.after, onclick: () => this.#go("", []) }, "Newest"),
        h("button", { type: "button", disabled: !this.after, onclick: newer }, "← Newer"),
        h("button", { type: "button", disabled: !this.#next, onclick: older }, "Older →"),
        h("span", { class: "help" }, "Keys: ↑ ↓ turns, Enter opens, / searches"));
    }
  }

  drawState(state) {
    const words = { live: "live", waiting: "connection lost, trying again", paused: "paused", off: "not live" };
    this.state.dataset.state = state;
    this.state.textContent = words[state];
  }

  #empty() {
    if (FILTERS.some((name) => this.filter[name]) || this.after) {
      return h("div", { class: "notice" },
        h("h2", null, "No turn matches these filters"),
        h("p", null, "Search finds ids, models, clients, keys, statuses and error codes, but no text of prompts or answers."),
        h("p", null, h("button", { type: "button", onclick: () => this.#clear() }, "Remove all filters")));
    }
    const command = `curl -sN ${new URL("v1/responses", document.baseURI).href} \\\n  -H 'content-type: application/json' \\\n${session.current?.needs_key ? "  -H \"authorization: Bearer $KEY\" \\\n" : ""}  -d '{"model": "demo", "input": "Think, then fail in the middle.", "stream": true}'`;
    return h("div", { class: "notice" },
      h("h2", null, "No turns yet"),
      h("p", null, "A turn is one request and the response to it. Send one, and it appears here while it runs:"),
      code(command, { name: "A first request" }),
      h("p", null, "A request that the gateway itself rejects, such as one for an unknown model, is no turn: its error is in the gateway's log."),
      h("p", { class: "actions" },
        h("a", { class: "button primary", href: to("playground") }, "Run a demo prompt"),
        h("a", { class: "button", href: to("setup") }, "Set up a client")));
  }

  #clear() {
    for (const name of FILTERS) this.filter[name] = "";
    for (const control of this.main.querySelectorAll(".filters input, .filters select")) control.value = "";
    this.#go("", []);
  }

  /* Keyboard */

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, dialog")) return;
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("filter-search").focus();
    } else if (event.key in steps && this.body.isConnected) {
      const links = [...this.body.querySelectorAll("a")];
      const index = links.indexOf(document.activeElement);
      const next = links[index < 0 ? 0 : index + steps[event.key]];
      if (!next) return;
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    }
  }
}

/** The order of the list: newest first, and of two that started together, the one with the greater id. */
function isOlder(one, other) {
  return one.started_at < other.started_at || (one.started_at === other.started_at && one.id < other.id);
}
