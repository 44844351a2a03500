/** The verdict of a record of the ledger in half a sentence. */

import { counted } from "./format.js";
import { line } from "./text.js";

/** What a code means. `§` stands for the party that ended the turn. */
const CODES = {
  upstream_truncated: "the upstream stopped without an end",
  upstream_timeout: "the upstream was silent for too long",
  upstream_unreachable: "the upstream could not be reached",
  upstream_invalid: "the upstream’s answer could not be understood",
  upstream_empty: "the upstream’s answer was empty",
  upstream_unauthorized: "the upstream refused the target’s key",
  upstream_forbidden: "the upstream refused access",
  upstream_not_found: "the upstream has no such address",
  server_error: "the upstream had an internal error",
  server_is_overloaded: "the upstream was overloaded",
  rate_limit_exceeded: "§’s rate limit was reached",
  insufficient_quota: "the account has no quota left",
  budget_exceeded: "the key’s budget is used up",
  context_length_exceeded: "too long for the model’s context window",
  content_filter: "a content filter stopped it",
  model_not_found: "the model does not exist",
  invalid_request: "§ rejected the request",
  invalid_prompt: "§ rejected the prompt",
  authentication_error: "the upstream rejected the API key",
  permission_denied: "the API key does not permit this",
  internal_error: "the gateway had an internal error",
  shutting_down: "the gateway was shutting down",
  gateway_restarted: "the gateway stopped before the end",
  cancelled: "the client asked for it",
  client_gone: "the client closed the connection",
  client_stalled: "the client stopped reading",
  max_output_tokens: "the output token limit was reached",
  steered: "the client steered the model elsewhere",
  tool_not_allowed: "the model called a tool that is not allowed",
};
const CLOSERS = { upstream: "the upstream", client: "the client", gateway: "the gateway", timeout: "a time limit" };
/** Singular nouns, and what happened to them. */
const DIAGNOSTICS = {
  field_dropped: ["field", "dropped"],
  tool_dropped: ["tool", "dropped"],
  strict_dropped: ["strict schema", "dropped"],
  glued_calls: ["glued call", "split"],
  repeated_item: ["repeated item", "left out"],
  late_call_id: ["call id", "late"],
};

/** Return two lines: why the turn ended as it did; and the code, or what was noticed. */
export function verdictWords(record) {
  if (record.ended_at === null) return ["", record.last_event ? line(record.last_event.replace(/^response\./, ""), 60) : ""];
  const closer = CLOSERS[record.closer] ?? line(record.closer || "the upstream", 30);
  if (record.code) return [(CODES[record.code] ?? `ended by ${closer}`).replace("§", closer), line(record.code, 60)];
  const noticed = noticedWords(record.diagnostics ?? []);
  if (record.outcome === "completed") return [noticed ? `completed, ${noticed}` : "", ""];
  const words = { incomplete: `ended early by ${closer}`, cancelled: `ended by ${closer}` };
  return [words[record.outcome] ?? `ended by ${closer}`, noticed];
}

/** The usage is marked as estimated where it stands. */
function noticedWords(codes) {
  const counts = new Map();
  for (const code of codes) if (code !== "usage_estimated") counts.set(code, (counts.get(code) ?? 0) + 1);
  return Array.from(counts, ([code, count]) => {
    const [noun, what] = DIAGNOSTICS[code] ?? ["", ""];
    return noun ? `${counted(count, noun)} ${what}` : line(code.replaceAll("_", " "), 40);
  }).join(", ");
}
