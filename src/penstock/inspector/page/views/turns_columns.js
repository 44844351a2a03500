/** The columns of the list of turns. */

import { h } from "../dom.js";
import { fullTime, shortId, time } from "../format.js";
import {
  clientText, costText, durationText, firstOutput, statusBadge, targetText, tokens,
} from "../records.js";
import { to } from "../route.js";
import { gatewayNow, session } from "../session.js";
import { line } from "../text.js";
import { verdictWords } from "../verdict_words.js";

/** Name, class and content of each column. */
export const COLUMNS = [
  ["Status", "", (turn) => statusBadge(turn.ended_at === null ? "running" : turn.outcome)],
  ["Turn", "", (turn) => turnLink(turn)],
  ["Model", "", (turn) => two(line(turn.model || "none", 60), targetText(turn))],
  ["Client", "", (turn) => two(clientText(turn), session.current?.needs_key ? line(turn.tenant, 40) : "")],
  ["Input", "number", (turn) => two(tokens(turn, "input_tokens"), part(turn, "cached_tokens", "cached")), "Input tokens"],
  ["Output", "number", (turn) => two(tokens(turn, "output_tokens"), part(turn, "reasoning_tokens", "reasoning")), "Output tokens"],
  ["Cost", "number", costText],
  ["First output", "number", firstOutput, "Time to the first output"],
  ["Duration", "number", (turn) => durationText(turn, gatewayNow())],
  ["Verdict", "verdict", (turn) => two(...verdictWords(turn))],
];

export const LINK = COLUMNS.findIndex(([name]) => name === "Turn");
export const INPUT = COLUMNS.findIndex(([name]) => name === "Input");
export const OUTPUT = COLUMNS.findIndex(([name]) => name === "Output");
export const DURATION = COLUMNS.findIndex(([name]) => name === "Duration");

function turnLink(turn) {
  return [
    h("a", { href: to("turns", turn.id), title: turn.id }, time(turn.started_at)),
    h("small", { title: fullTime(turn.started_at), class: "mono" }, shortId(turn.id, 15)),
  ];
}

/** How many of a turn's tokens were cached, or spent on reasoning; nothing if none were. */
function part(turn, name, word) {
  return turn[name] > 0 && turn.ended_at !== null ? `${tokens(turn, name)} ${word}` : "";
}

function two(first, second) {
  return [first ? h("span", null, first) : null, second ? h("small", null, second) : null];
}
