/** What one can do with a turn: take its request elsewhere, its stream as a file, run it again. */

import { api, address } from "../api.js";
import { announce, copy, download, h, replace } from "../dom.js";
import { to } from "../route.js";
import { session } from "../session.js";
import { clean, line, marked } from "../text.js";
import { wholeRequest } from "./requests.js";

/** `content()` returns the answer of `…/content`, or null. */
export function actions(turn, content) {
  const note = h("div", { class: "action-note", role: "status" });
  const button = (label, why, action) => h("button", {
    type: "button", class: "small", "aria-disabled": Boolean(why), title: why || null,
    onclick: (event) => (why ? replace(note, h("p", { class: "muted" }, clean(`${label}: ${why}`))) : run(event.currentTarget, note, action)),
  }, label);
  const withoutContent = turn.has_content ? "" : "The request and the events of this turn are not available.";
  return h("div", { class: "turn-actions" },
    h("div", { class: "actions" },
      button("Copy as curl", withoutContent, async (element) => copy(curl(await content()), element)),
      button("Download as SSE", withoutContent || (turn.is_running ? "The turn is still running." : ""), () => save(turn)),
      button("Replay", turn.can_replay ? "" : turn.why_no_replay || "It cannot be replayed.", () => replay(turn, note)),
      turn.has_content ? h("a", { class: "button small", href: to("playground", "", "", { turn: turn.id }) }, "Continue in the playground") : null,
      turn.has_content ? h("a", { class: "button small", href: to("turns", turn.id, "editor") }, "Editor view") : null,
      turn.why_no_replay?.includes("--record") ? h("small", { class: "muted" }, "Replay needs a gateway with ", h("code", null, "--record")) : null),
    note);
}

async function run(element, note, action) {
  element.disabled = true;
  try {
    await action(element);
  } catch (error) {
    replace(note, h("p", { class: "problem" }, error.message));
  } finally {
    element.disabled = false;
  }
}

/** The request as a command. Quotes and hidden characters are escaped: it can be pasted into a shell as it is. */
export function curl(content) {
  const body = JSON.stringify(wholeRequest(content)).replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const key = session.current?.needs_key ? ['  -H "authorization: Bearer $PENSTOCK_KEY"'] : [];
  return [
    `curl -sN '${address("v1/responses").replaceAll("'", "%27")}'`, "  -H 'content-type: application/json'", ...key,
    `  -d '${body.replaceAll("'", "'\\''")}'`,
  ].join(" \\\n");
}

async function save(turn) {
  const stream = await api.text(`v1/responses/${encodeURIComponent(turn.id)}`, { stream: true });
  download(`${turn.id.replace(/[^\w.-]/g, "_")}.sse`, stream, "text/event-stream");
  announce("The stream was downloaded");
}

async function replay(turn, note) {
  replace(note, h("p", { class: "muted" }, "Replaying…"));
  const result = await api.post(`inspector/api/turns/${encodeURIComponent(turn.id)}/replay`);
  const tone = result.same ? "good" : "warn";
  const rows = (result.differences ?? []).slice(0, 50);
  replace(note,
    h("p", { class: "help" }, "The upstream’s recorded bytes went through the installed version once more. Compared: what is sent to the upstream, and every event that the client gets. Nothing was sent to an upstream."),
    h("p", null, h("span", { class: `badge is-${tone}` }, h("span", { "aria-hidden": "true" }, result.same ? "=" : "≠"), result.same ? "same" : "different"), " ", clean(result.sentence)),
    rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences of the replay" }, h("table", null,
      h("thead", null, h("tr", null, ["What", "Recorded", "Now"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, rows.map((each) => h("tr", null, h("th", { scope: "row" }, line(each.what, 120)), value(each.recorded), value(each.now)))))) : null);
}

function value(content) {
  return h("td", { class: "mono value" }, marked(line(typeof content === "string" ? content : JSON.stringify(content) ?? "–", 300)));
}
