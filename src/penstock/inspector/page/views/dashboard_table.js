/** The dashboard's table: the exact sums of each group, which are those of `penstock usage`. */

import { h } from "../dom.js";
import { cost, duration, number, percent } from "../format.js";
import { marked } from "../text.js";

const SUMS = ["turns", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"];

const COLUMNS = ["requests", "failed", "input", "cached", "output", "reasoning", "cost"];

export function groupTable({ total: groups, totals, latency }, noun) {
  const first = new Map(latency.first_output.map((each) => [each.group, each]));
  const durations = new Map(latency.duration.map((each) => [each.group, each]));
  const rows = groups.map((group) => rowOf(group)).sort((one, other) => other.turns - one.turns);
  return h("section", { class: "group-table panel" },
    h("h2", { id: "group-table" }, `Per ${noun}`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "group-table" },
      h("table", null,
        h("thead", null,
          h("tr", { class: "column-groups" }, h("td", { colspan: 1 + COLUMNS.length }),
            ["time to first output",
              "duration"].map((name) => h("th", { colspan: "2", scope: "colgroup", class: "number" }, name))),
          h("tr", null, h("th", { scope: "col" }, noun),
            [...COLUMNS, "median", "9 of 10", "median", "9 of 10"].map((name) => h("th", { scope: "col", class: "number" }, name)))),
        h("tbody", null, rows.map((row) => line(marked(row.name || "(none)"), row, first.get(row.name),
          durations.get(row.name)))),
        h("tfoot", null, line("all", totals, latency.overall?.first_output, latency.overall?.duration)))),
    h("p", { class: "help" }, "Half of the turns took no longer than the median, and 9 of 10 no longer than the time next to it. The sums are those of ",
      h("code", null, "penstock usage"), "."));
}

function rowOf(group) {
  const row = { name: group.name };
  for (const field of [...SUMS, "cost", "unpriced"]) row[field] = (group[field] ?? []).reduce((total, value) => total + value, 0);
  return row;
}

/** `?` if no price is known, `+` if some are not. */
export function costOf({ cost: dollars, turns, unpriced }) {
  if (unpriced && unpriced === turns) return "?";
  return `${cost(dollars)}${unpriced ? "+" : ""}`;
}

function line(name, row, first, whole) {
  const cell = (field, text) => h("td", { class: "number", "data-field": field }, text);
  return h("tr", null, h("th", { scope: "row" }, name),
    cell("turns", number(row.turns)),
    cell("failed", row.failed ? `${number(row.failed)} (${percent(row.failed, row.turns)})` : "0"),
    SUMS.slice(2).map((field) => cell(field, number(row[field]))),
    cell("cost", costOf(row)),
    [first?.p50, first?.p90, whole?.p50, whole?.p90].map((value) => h("td", { class: "number" }, duration(value))));
}
