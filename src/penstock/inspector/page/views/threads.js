/** Conversations: a list of conversations and chains, and one of them with its branches. */

import { api } from "../api.js";
import { announce, errorNotice, h, notice, replace, skeleton } from "../dom.js";
import { counted, fullTime, number, time } from "../format.js";
import { to } from "../route.js";
import { line, marked } from "../text.js";
import { threadView } from "./thread.js";

const PAGE = 50;
const KINDS = { conversation: "conversation", chain: "chain" };

export async function show(main, { id, signal }) {
  if (id) await showThread(main, id, signal);
  else await showList(main, signal);
}

async function showList(main, signal) {
  const rows = h("tbody", null);
  const more = h("div", { class: "pages" });
  const body = h("div", null, skeleton(8));
  replace(main,
    h("div", { class: "page-head" }, h("h1", null, "Conversations"),
      h("p", { class: "lead" }, "Turns that continue each other: by ", h("code", null, "conversation"),
        ", or in chains of ", h("code", null, "previous_response_id"), ".")),
    body);

  async function load(after) {
    const page = await api.get("inspector/api/threads", { after, limit: PAGE }, signal);
    rows.append(...page.data.map(row));
    if (!rows.childElementCount) {
      replace(body, notice("There are no conversations yet",
        h("p", null, "A conversation appears here when a turn continues another one. Send two messages in the ",
          h("a", { href: "#/playground" }, "playground"),
          ", or look at single turns in ", h("a", { href: "#/turns" }, "Turns"), ". Turns with ",
            h("code", null, "store: false"), " cannot be continued, so they are not here.")));
      return;
    }
    const button = page.next
      ? h("button", { type: "button", onclick: () => loadMore(page.next, button) }, "Show older conversations") : null;
    replace(more, button);
    return page;
  }

  async function loadMore(after, button) {
    button.disabled = true;
    try {
      const page = await load(after);
      announce(`${counted(page.data.length, "more conversation")}`);
    } catch (error) {
      if (!signal.aborted) replace(more, errorNotice(error, () => loadMore(after, button)));
    }
  }

  try {
    replace(body, h("div", { class: "panel scroll" }, h("table", { class: "threads" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Begins with"), h("th", { scope: "col" }, "Kind"),
        h("th", { scope: "col" }, "Model"),
        h("th", { scope: "col", class: "number" }, "Turns"), h("th", { scope: "col", class: "number" }, "Changed"))),
      rows)), more);
    await load("");
  } catch (error) {
    if (!signal.aborted) replace(body, errorNotice(error, () => showList(main, signal)));
  }
}

function row(thread) {
  return h("tr", null,
    h("th", { scope: "row" }, h("a", { href: to("threads", thread.id) }, marked(line(thread.title || "(no text)", 140)))),
    h("td", { "data-label": "Kind" }, KINDS[thread.kind] ?? line(thread.kind, 20)),
    h("td", { "data-label": "Model" }, marked(line(thread.model || "–", 60))),
    h("td", { class: "number", "data-label": "Turns" }, number(thread.turns)),
    h("td", { class: "number", "data-label": "Changed", title: fullTime(thread.changed_at) }, time(thread.changed_at)));
}

async function showThread(main, id, signal) {
  const thread = await api.get(`inspector/api/threads/${encodeURIComponent(id)}`, {}, signal);
  const view = threadView(thread, { current: id });
  replace(main,
    h("div", { class: "page-head" },
      h("h1", null, thread.kind === "conversation" ? "Conversation" : "Chain of turns"),
      h("code", { class: "thread-id" }, marked(line(thread.id, 80))),
      h("span", { class: "muted" },
        counted(thread.turns.length, "turn"), view.branches ? ` in ${number(view.branches + 1)} branches` : ""),
      h("div", { class: "actions" }, h("a", { class: "button", href: to("threads") }, "All conversations"))),
    thread.is_complete ? null
      : (thread.missing.length ? thread.missing : ["Some turns of this conversation are no longer stored."])
      .map((sentence) => h("p", { class: "hint" }, marked(sentence))),
    view.element);
  view.reveal();
}
