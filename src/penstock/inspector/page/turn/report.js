/** What is known about a turn, apart from its timeline and its content. */

import { copyButton, externalLink, h } from "../dom.js";
import { NOTHING, bytes, cost, counted, duration, fullTime, number, time } from "../format.js";
import { clientText, statusBadge } from "../records.js";
import { to } from "../route.js";
import { gatewayNow, session } from "../session.js";
import { clean, line } from "../text.js";

/** The way back, the id, the status. */
export function head(turn) {
  return h("div", { class: "turn-head" },
    h("a", { href: to("turns"), class: "back" }, "← Turns"),
    h("span", { class: "mono turn-id" }, clean(turn.id)), copyButton(turn.id, "Copy id"),
    links(turn));
}

/** Who ended it and why, first and large. */
export function verdict(turn) {
  const name = turn.is_running ? "running" : turn.status;
  return h("div", { class: "verdict-head" }, statusBadge(name), h("h1", { class: "sentence" }, sentence(turn.sentence || "Nothing is known about this turn.")));
}

/** Names in backquotes as code. */
function sentence(text) {
  return clean(text).split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}

function links(turn) {
  const link = (id, label) => h("a", { href: to("turns", id) }, label);
  return h("span", { class: "turn-links" },
    turn.previous_response_id ? link(turn.previous_response_id, "← Previous turn") : null,
    turn.next.slice(0, 5).map((id, index) => link(id, turn.next.length > 1 ? `Continuation ${index + 1} →` : "Next turn →")),
    turn.conversation_id || turn.previous_response_id || turn.next.length ? h("a", { href: to("threads", turn.conversation_id || turn.id) }, "Conversation") : null);
}

export function facts(turn) {
  const { record, usage } = turn;
  const isPrefixed = turn.target && turn.target !== turn.model;
  const upstream = record?.upstream_model && record.upstream_model !== turn.model ? `as ${line(record.upstream_model, 60)}` : "";
  const length = turn.is_running ? (gatewayNow() - turn.begin) * 1000 : record?.duration_ms ?? (turn.end - turn.begin) * 1000;
  const rows = [
    ["Model", line(turn.model || NOTHING, 80), [isPrefixed ? `at ${line(turn.target, 60)}` : "", upstream].filter(Boolean).join(" ")],
    ["Client", record ? clientText(record) : line(turn.client || NOTHING, 60), session.current?.needs_key ? `key ${line(turn.tenant, 40)}` : ""],
    ["Started", time(turn.begin), "", fullTime(turn.begin)],
    ["First output", firstOutput(turn)],
    ["Duration", duration(length), record?.overhead_ms ? `${duration(record.overhead_ms)} in the gateway` : ""],
    ["Input", usage ? number(usage.input_tokens) : NOTHING, tokenNote(usage?.input_tokens_details?.cached_tokens, "cached", "tokens")],
    ["Output", usage ? number(usage.output_tokens) : NOTHING, tokenNote(usage?.output_tokens_details?.reasoning_tokens, "reasoning", "tokens")],
    ["Cost", record && !turn.is_running ? cost(record.cost) : NOTHING, record && !turn.is_running && record.cost === null ? "no price is known" : record?.usage_estimated ? "estimated" : ""],
  ];
  return h("dl", { class: "facts" }, rows.map(([name, value, note, title]) => h("div", null, h("dt", null, name),
    h("dd", { title: title ?? null, "data-fact": name }, value, note ? [" ", h("small", null, note)] : null))));
}

function tokenNote(count, word, noun) {
  return count ? `${number(count)} ${word}` : noun;
}

function firstOutput(turn) {
  if (turn.record && turn.record.first_output_ms >= 0) return duration(turn.record.first_output_ms);
  const times = turn.lanes.map((lane) => lane.added_ms);
  return times.length ? duration(Math.min(...times)) : NOTHING;
}

/** What was not kept, and why. */
export function missing(sentences) {
  if (!sentences.length) return null;
  return h("section", { class: "missing", "aria-label": "What was not kept" }, sentences.map((each) => h("p", { class: "hint" }, h("span", null, clean(each)))));
}

export function violations(turn, select) {
  if (!turn.violations.length) return null;
  return h("section", { class: "panel is-bad", "aria-labelledby": "violations-title" },
    h("header", null, h("h2", { id: "violations-title" }, `${counted(turn.violations.length, "broken rule")}`)),
    h("ul", { class: "body violations" }, turn.violations.slice(0, 100).map((each) => h("li", null,
      h("p", null, h("span", { class: "badge is-bad" }, h("span", { "aria-hidden": "true" }, "▲"), clean(each.rule)), " ", clean(each.message)),
      each.explanation ? h("p", { class: "help" }, clean(each.explanation)) : null,
      each.clients.length ? h("p", { class: "help" }, clean(each.clients.join("; "))) : null,
      h("p", { class: "actions" },
        each.sequence === null ? null : h("button", { type: "button", class: "small", onclick: () => select(each.sequence) }, `Show event #${number(each.sequence)}`),
        each.page ? externalLink(each.page, "Page of the rule") : null)))));
}

/** The right column: explanation, attempts, usage, diagnostics. */
export function aside(turn) {
  return [explained(turn), attempts(turn), usage(turn), diagnostics(turn)];
}

function panel(title, ...content) {
  const id = `panel-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id }, h("header", null, h("h2", { id }, title)), h("div", { class: "body" }, content));
}

function explained(turn) {
  return panel("Explained", h("ul", { class: "sentences" }, turn.sentences.map((each) => h("li", null, clean(each)))));
}

function attempts(turn) {
  if (!turn.attempts.length) return null;
  return panel("Attempts", h("ol", { class: "attempts" }, turn.attempts.map((each) => h("li", null,
    h("strong", null, line(each.target, 80)), each.model && each.model !== each.target ? ` ${line(each.model, 80)}` : "", each.dialect ? h("span", { class: "muted" }, ` (${line(each.dialect, 30)})`) : null,
    h("p", null, outcome(each)),
    each.message ? h("p", { class: "help" }, line(each.message, 400)) : null))));
}

function outcome(attempt) {
  const answered = attempt.status ? `HTTP ${attempt.status}` : "no answer";
  const times = attempt.answered_ms === null ? "" : ` after ${duration(attempt.answered_ms - attempt.sent_ms)}`;
  const code = attempt.code ? h("span", { class: "badge is-bad" }, h("span", { "aria-hidden": "true" }, "✕"), line(attempt.code, 60)) : null;
  return [`${answered}${times} `, code];
}

function usage(turn) {
  const { record } = turn;
  const rows = turn.usage ? [
    ["Input tokens", number(turn.usage.input_tokens)],
    ["of them cached", number(turn.usage.input_tokens_details?.cached_tokens ?? 0)],
    ["Output tokens", number(turn.usage.output_tokens)],
    ["of them reasoning", number(turn.usage.output_tokens_details?.reasoning_tokens ?? 0)],
  ] : [];
  if (record && !turn.is_running) {
    rows.push(["Cost", record.cost === null ? "unknown, no price" : cost(record.cost)], ["Read from the upstream", bytes(record.bytes_in)],
      ["Sent to the client", bytes(record.bytes_out)], ["Heartbeats", number(record.heartbeats)]);
  }
  if (!rows.length) return panel("Usage", h("p", { class: "muted" }, turn.is_running ? "It is known when the turn ends." : "It is not known."));
  return panel("Usage", h("table", { class: "plain" }, h("tbody", null, rows.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name), h("td", { class: "number" }, value))))),
    record?.usage_estimated ? h("p", { class: "help" }, "Estimated, because the upstream reported no usage.") : null);
}

function diagnostics(turn) {
  if (!turn.diagnostics.length) return null;
  return panel("Diagnostics", h("ul", { class: "sentences" }, turn.diagnostics.map((each) => h("li", null,
    h("code", null, clean(each.code)), each.count > 1 ? ` (${number(each.count)} times)` : "", each.message ? h("p", { class: "help" }, clean(line(each.message, 600))) : null))));
}

/** The timeline of `penstock explain`. */
export function steps(turn) {
  if (!turn.steps.length) return null;
  return h("section", { class: "panel", "aria-labelledby": "panel-steps" },
    h("header", null, h("h2", { id: "panel-steps" }, "Step by step")),
    h("div", { class: "scroll body steps", tabindex: "0", role: "region", "aria-label": "Steps" }, h("table", { class: "plain" }, h("tbody", null,
      turn.steps.slice(0, 500).map((each) => h("tr", { class: each.tone ? `is-${each.tone}` : null },
        h("td", { class: "number muted" }, duration(each.at * 1000)),
        h("td", null, each.tone === "red" ? h("span", { "aria-label": "failure:" }, "✕ ") : null, line(each.what, 300))))))));
}
