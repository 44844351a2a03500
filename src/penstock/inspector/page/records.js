/** What a record of the ledger says, as elements. */

import { h } from "./dom.js";
import { NOTHING, clientName, cost, duration, number, short, status } from "./format.js";
import { line } from "./text.js";

/** The status with its mark. `title`: what else is known. */
export function statusBadge(name, title = null) {
  const { label, mark, tone } = status(name);
  return h("span", { class: `badge is-${tone}`, title }, h("span", { "aria-hidden": "true" }, mark), label);
}

/** The verdict in a few words: why the turn ended as it did, and who ended it. */
export function verdictWords(record) {
  if (record.ended_at === null) return [record.last_event ? line(record.last_event, 60) : "", ""];
  const code = record.code ? line(record.code, 60) : "";
  const closer = record.closer && !(record.outcome === "completed" && !code) ? `ended by the ${line(record.closer, 30)}` : "";
  const diagnostics = record.diagnostics.length ? line(record.diagnostics.join(", "), 80) : "";
  return code || closer ? [code || closer, code ? closer : diagnostics] : ["", diagnostics];
}

export function targetText(record) {
  if (!record.target || (record.target === record.model && [record.model, ""].includes(record.upstream_model))) return "";
  const model = record.upstream_model && record.upstream_model !== record.model ? ` · ${record.upstream_model}` : "";
  return line(`${record.target}${model}`, 60);
}

export function clientText(record) {
  return line(clientName(record.user_agent) || NOTHING, 40);
}

/** Tokens of a turn that runs are not known yet, and one without any has no usage. */
export function tokens(record, name, write = short) {
  const isKnown = record.ended_at !== null && (record.input_tokens || record.output_tokens);
  return isKnown ? write(record[name]) : NOTHING;
}

export function tokenTitle(record) {
  if (tokens(record, "input_tokens") === NOTHING) return null;
  const estimated = record.usage_estimated ? " (estimated)" : "";
  return `${number(record.input_tokens)} in, ${number(record.cached_tokens)} of them cached; ${number(record.output_tokens)} out, ${number(record.reasoning_tokens)} of them reasoning${estimated}`;
}

export function costText(record) {
  return record.ended_at === null ? NOTHING : cost(record.cost);
}

/** Milliseconds from the start to now, or to the end. */
export function elapsed(record, now) {
  return record.ended_at === null ? Math.max(0, (now - record.started_at) * 1000) : record.duration_ms;
}

export function durationText(record, now) {
  return duration(elapsed(record, now));
}

export function firstOutput(record) {
  return record.first_output_ms >= 0 ? duration(record.first_output_ms) : NOTHING;
}
