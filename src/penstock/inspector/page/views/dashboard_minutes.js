/** The last hour by the minute: the ledger's sums are per hour, so the page adds up the turns themselves. */

import { api } from "../api.js";
import { number } from "../format.js";

const MINUTE = 60;
const PAGE = 500;
const MOST_PAGES = 4;

const DIMENSION_FIELDS = { model: "model", key: "tenant", target: "target" };
const FAILED = new Set(["failed", "refused"]);

/** Return the turns that have ended since `since` in the form of `inspector/api/dashboard`, with times in seconds. */
export async function byMinute({ since, until, by }, signal) {
  const { turns, isCut } = await listTurns(since, until, signal);
  const times = Array.from({ length: Math.ceil((until - since) / MINUTE) }, (_, index) => since + index * MINUTE);
  const groups = new Map();
  const latencies = times.map(() => ({ first_output: [], duration: [] }));
  for (const turn of turns) {
    const at = Math.floor((turn.started_at - since) / MINUTE);
    if (turn.outcome === "running" || at < 0 || at >= times.length) continue;
    add(groups, turn, turn[DIMENSION_FIELDS[by]], at, times.length);
    if (turn.first_output_ms >= 0) latencies[at].first_output.push(turn.first_output_ms);
    latencies[at].duration.push(turn.duration_ms);
  }
  return {
    times, groups: [...groups.values()], latency_over_time: { bucket: "minute", times, ...overTime(latencies) },
    note: isCut ? `The charts over time show the newest ${number(turns.length)} turns of this hour.` : "",
  };
}

async function listTurns(since, until, signal) {
  const turns = [];
  let after = "";
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const found = await api.get("v1/turns", { since, until, limit: PAGE, after }, signal);
    turns.push(...found.data);
    if (!found.next) return { turns, isCut: false };
    after = found.next;
  }
  return { turns, isCut: true };
}

function add(groups, turn, name, at, length) {
  if (!groups.has(name)) {
    const zeros = () => new Array(length).fill(0);
    groups.set(name, { name, turns: zeros(), failed: zeros(), input_tokens: zeros(), cached_tokens: zeros(),
      output_tokens: zeros(),
      reasoning_tokens: zeros(), cost: zeros() });
  }
  const group = groups.get(name);
  group.turns[at] += 1;
  if (FAILED.has(turn.outcome)) group.failed[at] += 1;
  for (const field of ["input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens",
    "cost"]) group[field][at] += turn[field] ?? 0;
}

function overTime(latencies) {
  const result = {};
  for (const kind of ["first_output", "duration"]) {
    const sorted = latencies.map((each) => each[kind].toSorted((one, other) => one - other));
    result[kind] = Object.fromEntries([["p50", 0.5], ["p90", 0.9], ["p99", 0.99]].map(([name, part]) => [
      name, sorted.map((values) => (values.length ? values[Math.ceil(part * values.length) - 1] : null)),
    ]));
  }
  return result;
}
