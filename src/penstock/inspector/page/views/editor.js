/** Editor view: the parts that VS Code would receive from a turn, in order. */

import { api } from "../api.js";
import { append, copyButton, errorNotice, h, notice, replace, skeleton } from "../dom.js";
import { bytes, counted, duration, number } from "../format.js";
import { setQuery, to } from "../route.js";
import { json, line, marked, pretty, prose } from "../text.js";

const FIRST = 200;
const LONGEST_RUN = 2000;
/** What an editor can do with reasoning, as the options of `penstock parts`. */
const THINKING = {
  text: ["as text", "The editor has no thinking parts: reasoning is text, as with the stable API."],
  part: ["as thinking parts", "The editor has thinking parts: reasoning is kept apart from the answer."],
  none: ["left out", "The setting leaves reasoning out."],
};
/** For `counted`. */
const NOUNS = { text: "text part", thinking: "thinking part", tool_call: "tool call", data: "data part", error: "error" };
const NAMES = { text: "text", thinking: "thinking", tool_call: "tool call", data: "data", error: "error" };

export async function show(main, { id, query, signal }) {
  const body = h("div", null, skeleton());
  const help = h("p", { class: "help" });
  let thinking = Object.hasOwn(THINKING, query.thinking) ? query.thinking : "text";

  const load = async () => {
    help.textContent = THINKING[thinking][1];
    try {
      const answer = await api.get(`inspector/api/turns/${encodeURIComponent(id)}/parts`, { thinking }, signal);
      if (!signal.aborted) replace(body, partsPanel(answer));
    } catch (error) {
      if (!signal.aborted) replace(body, error.status === 404 ? without(id, error) : errorNotice(error, load));
    }
  };
  const choose = (event) => {
    thinking = event.target.value;
    setQuery({ thinking });
    load();
  };
  replace(main,
    h("div", { class: "turn-head" }, h("a", { href: to("turns", id), class: "back" }, "← Turn"), h("span", { class: "mono turn-id" }, line(id, 100))),
    h("div", { class: "page-head" }, h("h1", null, "What VS Code receives")),
    h("div", { class: "editor-options" },
      h("div", { class: "field" }, h("label", { for: "thinking" }, "Reasoning"),
        h("select", { id: "thinking", onchange: choose },
          Object.entries(THINKING).map(([name, [label]]) => h("option", { value: name, selected: name === thinking }, label)))),
      help),
    body);
  await load();
}

function without(id, error) {
  return notice("This turn has no parts",
    h("p", null, line(error.message, 400)),
    h("p", null, h("a", { class: "button", href: to("turns", id) }, "What is known about it")));
}

function partsPanel({ parts, result, error }) {
  return [
    error ? h("p", { class: "hint is-warn", role: "note" }, h("span", null, "The editor shows an error: ", h("code", null, line(error.code ?? "", 80)), " ", line(error.message ?? "", 600))) : null,
    h("section", { class: "panel", "aria-labelledby": "parts-title" },
      h("header", null, h("h2", { id: "parts-title" }, counted(parts.length, "part")), h("span", { class: "muted" }, summary(parts)),
        h("span", { class: "actions" }, copyButton(() => pretty(parts.map((each) => each.part)), "Copy as JSON"))),
      parts.length ? partList(parts) : h("p", { class: "body muted" }, "The editor would show nothing.")),
    result ? h("section", { class: "panel", "aria-labelledby": "result-title" },
      h("header", null, h("h2", { id: "result-title" }, "Result"), h("span", { class: "muted" }, "what the provider reports at the end")),
      h("div", { class: "body" }, json(result, { depth: 2 }))) : null,
  ];
}

function summary(parts) {
  const counts = new Map();
  for (const { part } of parts) counts.set(part.type, (counts.get(part.type) ?? 0) + 1);
  return Array.from(counts, ([type, count]) => counted(count, NOUNS[type] ?? `${line(type, 30)} part`)).join(", ");
}

/** Parts of one run of text stand in one row, each set off from its neighbours. The first rows, with a button for more. */
function partList(parts) {
  const runs = runsOf(parts);
  const list = h("ol", { class: "parts" });
  const more = h("div", { class: "body" });
  let shown = 0;
  const extend = () => {
    append(list, runs.slice(shown, shown + FIRST).map((run) => (isRun(run[0].part) ? runRow(run) : partRow(run[0]))));
    shown += FIRST;
    const rest = runs.length - shown;
    replace(more, rest > 0 ? h("button", { type: "button", class: "small", onclick: extend }, `Show ${counted(Math.min(FIRST, rest), "more row")}`) : null);
  };
  extend();
  return [list, runs.length > FIRST ? more : null];
}

/** Consecutive parts of text, or of one thought, together; every other part alone. */
function runsOf(parts) {
  const runs = [];
  for (const each of parts) {
    const last = runs.at(-1);
    const { part } = each;
    const before = last?.[0].part;
    if (before && isRun(part) && isRun(before) && before.type === part.type && before.id === part.id && last.length < LONGEST_RUN) last.push(each);
    else runs.push([each]);
  }
  return runs;
}

function isRun(part) {
  return (part.type === "text" || part.type === "thinking") && typeof part.value === "string" && part.value.length <= 2000;
}

function runRow(run) {
  const [first] = run;
  const last = run.at(-1);
  const type = first.part.type;
  const extra = run.map((each) => each.part.metadata).filter((each) => each && Object.keys(each).length);
  const times = run.length > 1 ? `${duration(first.at_ms)} to ${duration(last.at_ms)}` : duration(first.at_ms);
  return h("li", { class: `part is-${type}` },
    h("span", { class: "number muted" }, times),
    h("span", { class: "part-type" }, run.length > 1 ? `${number(run.length)} × ${type}` : type),
    h("div", { class: "part-value" },
      h("div", { class: "prose run" }, run.map(({ part, at_ms: at, sequence }) => h("span", { class: "bit", title: `${duration(at)}, after event #${number(sequence)}` }, marked(part.value)))),
      extra.length ? h("details", null, h("summary", { class: "muted" }, "metadata"), json(extra.at(-1), { depth: 2 })) : null));
}

function partRow({ at_ms: at, sequence, part }) {
  const type = String(part.type ?? "part");
  return h("li", { class: `part is-${Object.hasOwn(NAMES, type) ? type : "data"}` },
    h("span", { class: "number muted", title: `after event #${number(sequence)}` }, duration(at)),
    h("span", { class: "part-type" }, NAMES[type] ?? line(type, 30)),
    h("div", { class: "part-value" }, value(part, type)));
}

function value(part, type) {
  if (type === "text" || type === "thinking") {
    const { value: text, type: _, ...rest } = part;
    const others = Object.fromEntries(Object.entries(rest).filter(([, each]) => each !== null && each !== ""));
    return [Array.isArray(text) ? text.map((each) => prose(each)) : prose(text ?? "", { name: "part" }),
      Object.keys(others).length ? h("details", null, h("summary", { class: "muted" }, "metadata"), json(others, { depth: 2 })) : null];
  }
  if (type === "tool_call") {
    return [h("p", null, h("strong", { class: "mono" }, `${line(part.name ?? "", 120)}()`), " ", h("span", { class: "muted mono" }, line(part.call_id ?? "", 60))), json(part.input ?? null, { depth: 3 })];
  }
  if (type === "data") return h("p", { class: "muted" }, `${line(part.mime ?? "", 80)}, ${bytes(Math.floor(String(part.base64 ?? "").length * 0.75))}`);
  if (type === "error") return h("p", { class: "problem" }, h("code", null, line(part.code ?? "", 80)), " ", line(part.message ?? "", 600));
  return json(part, { depth: 2 });
}
