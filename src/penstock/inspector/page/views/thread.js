/** A thread with its branches, drawn as a tree: a line goes on below a turn, and a branch moves to the right. */

import { h, svg } from "../dom.js";
import { fullTime, number, status, time } from "../format.js";
import { to } from "../route.js";
import { line, marked } from "../text.js";

const COLUMN = 18;
const DOT = 22;
const FIRST = 100;
const MOST_COLUMNS = 8;
const EXCERPT = 320;
/** A rail is cut at the end of its row. */
const LOWEST = 6000;

/** Return `{element, branches, reveal}`; `current` is the id of the turn to move to. */
export function threadView(thread, { current }) {
  const rows = arrange(linked(thread));
  const columns = Math.min(MOST_COLUMNS, 1 + Math.max(0, ...rows.map((row) => row.column)));
  const list = h("ol", { class: "thread" });
  const place = rows.findIndex((row) => row.turn.id === current);
  const draw = (begin, end) => {
    for (const row of rows.slice(begin, end)) list.append(element(row, columns, row.turn.id === current && place > 0));
    if (end >= rows.length) return;
    const button = h("button", { type: "button", onclick: () => {
      button.parentElement.remove();
      draw(end, end + FIRST);
    } }, `Show more of ${number(rows.length)} turns`);
    list.append(h("li", { class: "thread-more" }, button));
  };
  draw(0, Math.max(FIRST, place + 10));
  return {
    element: list,
    branches: rows.filter((row) => row.isBranch).length,
    reveal: () => place > 0 && list.children[place].scrollIntoView({ block: "center" }),
  };
}

/** The turns of a conversation follow each other, unless they name another one. */
function linked({ kind, turns }) {
  if (kind !== "conversation") return turns;
  return turns.map((turn, index) => ({ ...turn, previous_id: turn.previous_id ?? turns[index - 1]?.id ?? null }));
}

/**
 * Return the turns in the order in which they are drawn: after each turn those that continue it. The oldest continuation
 * stays in the column; every other one is a branch, with a column that is its own from the turn where it begins.
 * `branches`: the columns of the branches that begin here; `passing`: those of branches that are drawn further below.
 */
export function arrange(turns) {
  const numbers = new Map(turns.map((turn, index) => [turn.id, index + 1]));
  const following = new Map();
  for (const turn of turns) {
    const parent = numbers.has(turn.previous_id) ? turn.previous_id : null;
    if (!following.has(parent)) following.set(parent, []);
    following.get(parent).push(turn);
  }
  const rows = [];
  const used = new Set();
  const waiting = [];
  const push = (children, column) => {
    const columns = children.map((_, index) => (index === 0 && column >= 0 ? column : freeColumn(used)));
    for (const [index, turn] of [...children.entries()].reverse()) {
      waiting.push({ turn, column: columns[index], isFirst: column < 0, isBranch: column >= 0 && index > 0 });
    }
    return column < 0 ? [] : columns.slice(1);
  };
  push(following.get(null) ?? [], -1);
  while (waiting.length) {
    const { turn, column, isFirst, isBranch } = waiting.pop();
    const next = following.get(turn.id) ?? [];
    const passing = waiting.filter((each) => !each.isFirst).map((each) => each.column);
    if (!next.length) used.delete(column);
    rows.push({ turn, number: numbers.get(turn.id), parent: numbers.get(turn.previous_id) ?? 0, column, isFirst, isBranch,
      passing,
      isLast: !next.length, branches: push(next, column) });
  }
  return rows;
}

function freeColumn(used) {
  let column = 0;
  while (used.has(column)) column += 1;
  used.add(column);
  return column;
}

/* Drawing */

function element(row, columns, isCurrent) {
  const { turn } = row;
  const { label, mark, tone } = status(turn.status);
  return h("li", { class: isCurrent ? "thread-turn is-current" : "thread-turn", "aria-current": isCurrent ? "true" : null,
    style: { "--rail": `${columns * COLUMN}px` } },
    rail(row, columns, tone),
    h("article", { class: "panel thread-card", "aria-label": `Turn ${row.number}` },
      h("header", null,
        h("a", { href: to("turns", turn.id), class: "thread-link" }, `Turn ${number(row.number)}`),
        h("span", { class: `badge is-${tone}` }, h("span", { "aria-hidden": "true" }, mark), label),
        row.isBranch ? h("span", { class: "muted" }, `branch after turn ${number(row.parent)}`) : null,
        h("span", { class: "muted" }, marked(line(turn.model || "", 40))),
        h("span", { class: "muted", title: fullTime(turn.created_at) }, time(turn.created_at)),
        h("div", { class: "actions" }, h("a", { href: to("playground", "", "", { turn: turn.id }) }, "Continue"))),
      h("div", { class: "body" },
        said(turn.input, "user"), said(turn.output, "model"))));
}

/** The items in a few lines: what was said, which tools were called. */
function said(items, side) {
  const lines = (items ?? []).map(summaryOf).filter(Boolean).slice(0, 6);
  return lines.length ? h("div", { class: `said is-${side}` }, lines) : null;
}

/** Upstreams and clients may send items of any form: one that cannot be read does not hide the others. */
function summaryOf(item) {
  try {
    return summary(item);
  } catch {
    return h("p", { class: "muted" }, "(not an item as the API describes it)");
  }
}

function summary(item) {
  if (item.type === "message" || item.role) {
    const parts = typeof item.content === "string" ? [{ text: item.content }] : item.content ?? [];
    const text = parts.map((part) => part.text ?? part.refusal ?? (part.type === "input_image" ? "(image)" : part.type
      ? `(${part.type})` : "")).join(" ").trim();
    return text ? h("p", null, marked(line(text, EXCERPT))) : null;
  }
  if (item.type === "reasoning") return null;
  if (String(item.type).endsWith("_output")) {
    return h("p", { class: "muted" }, "tool result: ",
      marked(line(typeof item.output === "string" ? item.output : JSON.stringify(item.output), 120)));
  }
  const value = item.arguments ?? item.input ?? item.action ?? "";
  const given = typeof value === "string" ? value : JSON.stringify(value);
  return h("p", null, "calls ", h("code", null, marked(line(item.name ?? item.type ?? "", 80))), " ",
    h("span", { class: "muted" }, marked(line(given, 120))));
}

/** The lines left of a turn. Beyond the last column, branches share it. */
function rail(row, columns, tone) {
  const x = (column) => Math.min(column, MOST_COLUMNS - 1) * COLUMN + COLUMN / 2;
  const at = x(row.column);
  const passing = new Set(row.passing.map(x));
  return svg("svg", { class: "rail", width: columns * COLUMN, height: LOWEST, "aria-hidden": "true" },
    [...passing].map((place) => svg("path", { d: `M${place},0V${LOWEST}` })),
    row.isFirst ? null : svg("path", { d: `M${at},0V${DOT}` }),
    row.isLast ? null : svg("path", { d: `M${at},${DOT}V${LOWEST}` }),
    row.branches.map(x).map((to) => svg("path",
      { d: `M${at},${DOT}C${at},${DOT + 20} ${to},${DOT + 6} ${to},${DOT + 28}V${LOWEST}` })),
    svg("circle", { class: `rail-dot is-${tone}`, cx: at, cy: DOT, r: 5 }));
}
