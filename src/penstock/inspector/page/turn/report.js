/** What is known about a turn, apart from its timeline and its content. */

import { copyButton, externalLink, h } from "../dom.js";
import { NOTHING, bytes, counted, duration, fullTime, number, time } from "../format.js";
import { clientText, costText, estimated, statusBadge } from "../records.js";
import { to } from "../route.js";
import { gatewayNow, session } from "../session.js";
import { clean, line } from "../text.js";
import { lowerBound } from "../timeline_model.js";

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
  return h("div", { class: "verdict-head" }, statusBadge(name), h("h1", { class: "sentence" }, sentence(turn.sentence || "Nothing is known about this turn.")),
    upstreamWords(turn));
}

/** Codes of failures that the gateway noticed itself: their messages are not the upstream's words. */
const OURS = /^(upstream_(truncated|timeout|unreachable|invalid|empty)|certificate_error|tls_error|proxy_error|internal_error)$/;

/** What the upstream itself said: the sentence above is the gateway's. */
function upstreamWords(turn) {
  const last = turn.attempts.at(-1);
  if (!last?.message || OURS.test(last.code) || turn.is_running || turn.status === "completed") return null;
  return h("figure", { class: "upstream-words" }, h("figcaption", null, `${line(last.target, 60)} wrote:`), h("blockquote", null, clean(line(last.message, 600))));
}

/** Failed attempts that only the verdict knows: nothing of their requests was kept. */
function triedBefore(turn) {
  const tried = turn.tried ?? turn.verdict?.tried ?? [];
  const known = turn.attempts.filter((each) => each.code).length;
  return tried.slice(0, Math.max(0, tried.length - known)).map((each) => (typeof each === "string" ? each : [each?.target, each?.code, each?.message].filter(Boolean).join(": ")));
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
  const about = (text) => estimated(text, record?.usage_estimated);
  const isPrefixed = turn.target && turn.target !== turn.model;
  const upstream = record?.upstream_model && record.upstream_model !== turn.model ? `as ${line(record.upstream_model, 60)}` : "";
  const length = turn.is_running ? (gatewayNow() - turn.begin) * 1000 : record?.duration_ms ?? (turn.end - turn.begin) * 1000;
  const rows = [
    ["Model", line(turn.model || NOTHING, 80), [isPrefixed ? `at ${line(turn.target, 60)}` : "", upstream].filter(Boolean).join(" ")],
    ["Client", record ? clientText(record) : line(turn.client || NOTHING, 60), session.current?.needs_key ? `key ${line(turn.tenant, 40)}` : ""],
    ["Started", time(turn.begin), "", fullTime(turn.begin)],
    ["First output", firstOutput(turn)],
    ["Duration", duration(length), record?.overhead_ms ? `${duration(record.overhead_ms)} in the gateway` : ""],
    ["Input", usage ? about(number(usage.input_tokens)) : NOTHING, tokenNote(usage?.input_tokens_details?.cached_tokens, "cached", "tokens")],
    ["Output", usage ? about(number(usage.output_tokens)) : NOTHING, tokenNote(usage?.output_tokens_details?.reasoning_tokens, "reasoning", "tokens")],
    ["Cost", record && !turn.is_running ? costText(record) : NOTHING, record && !turn.is_running && record.cost === null ? "no price is known" : record?.usage_estimated ? "estimated" : ""],
  ];
  return h("dl", { class: "facts" }, rows.map(([name, value, note, title]) => h("div", null, h("dt", null, name),
    h("dd", { title: title ?? null, "data-fact": name }, value, note ? [" ", h("small", null, note)] : null))));
}

function tokenNote(count, word, noun) {
  return count ? `${number(count)} ${word}` : noun;
}

/** `at`: when the first item was added. The ledger knows the first output when the turn has ended. */
export function firstOutput(turn, at = []) {
  if (turn.record && turn.record.first_output_ms >= 0) return duration(turn.record.first_output_ms);
  const times = [...turn.lanes.map((lane) => lane.added_ms), ...at];
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
  const before = triedBefore(turn);
  if (!turn.attempts.length && !before.length) return null;
  return panel("Attempts", h("ol", { class: "attempts" }, before.map((each) => h("li", null, line(each, 200))), turn.attempts.map((each) => h("li", null,
    h("strong", null, line(each.target, 80)), each.model && each.model !== each.target ? ` ${line(each.model, 80)}` : "", each.dialect ? h("span", { class: "muted" }, ` (${line(each.dialect, 30)})`) : null,
    h("p", null, outcome(each)),
    each.message ? h(OURS.test(each.code) ? "p" : "blockquote", { class: OURS.test(each.code) ? "help" : "upstream-quote" }, clean(line(each.message, 600))) : null,
    each.retry_after ? h("p", { class: "help" }, `It asked to wait ${duration(each.retry_after * 1000)}.`) : null))));
}

function outcome(attempt) {
  const answered = attempt.status ? `HTTP ${attempt.status}` : "no answer";
  const times = attempt.answered_ms === null ? "" : ` after ${duration(attempt.answered_ms - attempt.sent_ms)}`;
  const code = attempt.code ? h("span", { class: "badge is-bad" }, h("span", { "aria-hidden": "true" }, "✕"), line(attempt.code, 60)) : null;
  return [`${answered}${times} `, code];
}

function usage(turn) {
  const { record } = turn;
  const about = (text) => estimated(text, record?.usage_estimated);
  const rows = turn.usage ? [
    ["Input tokens", about(number(turn.usage.input_tokens))],
    ["of them cached", number(turn.usage.input_tokens_details?.cached_tokens ?? 0)],
    ["Output tokens", about(number(turn.usage.output_tokens))],
    ["of them reasoning", number(turn.usage.output_tokens_details?.reasoning_tokens ?? 0)],
  ] : [];
  if (record && !turn.is_running) {
    rows.push(["Cost", record.cost === null ? "unknown, no price" : costText(record)], ["Read from the upstream", bytes(record.bytes_in)],
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
      turn.steps.slice(0, 500).map((each, index) => h("tr", { class: each.tone ? `is-${each.tone}` : null },
        h("td", { class: "number muted" }, period(turn, index)),
        h("td", null, each.tone === "red" ? h("span", { "aria-label": "failure:" }, "✕ ") : null, line(each.what, 300))))))));
}

/** Reads and events that follow each other are one step: say from when to when. */
function period(turn, index) {
  const { at, what } = turn.steps[index];
  const begin = at * 1000;
  if (!/^\d[\d,]* (reads|events)\b/.test(what)) return duration(begin);
  const limit = turn.steps[index + 1] ? turn.steps[index + 1].at * 1000 + 0.001 : Infinity;
  const last = [turn.reads.at_ms, turn.events.at_ms].map((times) => times[lowerBound(times, limit) - 1] ?? begin);
  const end = Math.max(begin, ...last);
  return duration(end) === duration(begin) ? duration(begin) : `${duration(begin)} – ${duration(end)}`;
}
