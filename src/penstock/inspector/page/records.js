/** What a record of the ledger says, as elements. */

import { h } from "./dom.js";
import { NOTHING, clientName, cost, duration, number, short, status } from "./format.js";
import { line } from "./text.js";

/** The status with its mark. `title`: what else is known. */
export function statusBadge(name, title = null) {
  const { label, mark, tone } = status(name);
  return h("span", { class: `badge is-${tone}`, title }, h("span", { "aria-hidden": "true" }, mark), label);
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
  if (!isKnown) return NOTHING;
  return `${record.usage_estimated && record[name] ? "~" : ""}${write(record[name])}`;
}

export function tokenTitle(record) {
  if (tokens(record, "input_tokens") === NOTHING) return null;
  const estimated = record.usage_estimated ? " (estimated)" : "";
  return `${number(record.input_tokens)} in, ${number(record.cached_tokens)} of them cached; ${number(record.output_tokens)} out, ${number(record.reasoning_tokens)} of them reasoning${estimated}`;
}

/** An estimate is marked wherever it stands. */
export function estimated(text, isEstimated) {
  return isEstimated ? `~${text}` : text;
}

export function costText(record) {
  return record.ended_at === null ? NOTHING : estimated(cost(record.cost), record.usage_estimated && record.cost > 0);
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
