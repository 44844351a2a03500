/** The client's request and the one that was sent to the upstream, side by side, with differences marked. */

import { copyButton, h, replace } from "../dom.js";
import { counted } from "../format.js";
import { json, line, marked, pretty } from "../text.js";

const KINDS = {
  changed: ["≠", "changed"],
  moved: ["→", "moved"],
  translated: ["⇄", "translated"],
  dropped: ["−", "dropped"],
  added: ["+", "added"],
  handled: ["✓", "handled"],
  same: ["=", "same"],
};
/** Fields that say what the gateway should do: it does so, and the upstream need not know of them. */
const FOR_THE_GATEWAY = new Set(["stream", "stream_options", "store", "background", "previous_response_id", "conversation", "include", "metadata"]);
/** What the input is called in other API formats. */
const INPUTS = ["messages", "contents", "prompt", "history", "turns"];

export function requestsPanel(content) {
  const { rendered, differences } = content;
  const body = h("div", { class: "body requests" });
  const select = rendered.length > 1
    ? h("select", { id: "attempt", "aria-label": "Attempt", onchange: (event) => draw(Number(event.target.value)) },
      rendered.map((each, index) => h("option", { value: index, selected: index === rendered.length - 1 }, `Attempt ${index + 1}: ${line(each.target, 40)}`)))
    : null;
  const pairs = differences ? withInput(differences) : null;
  const draw = (index) => replace(body, sides(content, rendered[index] ?? null, index === rendered.length - 1 ? pairs : null));
  draw(rendered.length - 1);
  return h("section", { class: "panel", "aria-labelledby": "requests-title" },
    h("header", null, h("h2", { id: "requests-title" }, "Request of the client, and what the upstream got"), select), body);
}

/** The input is never dropped: if a field of the upstream's format can be it, that is what became of it. */
function withInput(differences) {
  const from = differences.find((each) => each.kind === "dropped" && each.path === "input");
  const to = differences.find((each) => each.kind === "added" && INPUTS.includes(each.path));
  if (!from || !to) return differences;
  const moved = { path: `input → ${to.path}`, kind: "changed", client: from.client, upstream: to.upstream };
  return differences.filter((each) => each !== to).map((each) => (each === from ? moved : each));
}

/** The request as the gateway understood it: the store keeps its input apart. */
export function wholeRequest(content) {
  return { ...content.request, input: content.input };
}

function sides(content, sent, differences) {
  const marks = differences ? marksOf(differences) : { client: null, upstream: null };
  return [
    differences ? differenceTable(differences) : null,
    h("div", { class: "sides" },
      side([
        "Client → gateway", h("small", { class: "muted" }, "as the gateway understood it"),
      ], "The request of the client", content.request ? wholeRequest(content) : null, "The client’s request was not kept.", marks.client),
      side(sent ? [`Gateway → ${line(sent.target, 60)}`, h("small", { class: "muted" }, line(sent.dialect || "same format", 30))] : "Gateway → upstream", "The request to the upstream",
        sent?.body ?? null, sent?.note || "No request to an upstream was kept.", marks.upstream, sent?.headers)),
  ];
}

function side(title, name, value, missing, marks, headers = null) {
  return h("div", { class: "side" },
    h("header", null, h("h3", null, title), value === null ? null : copyButton(() => pretty(value), "Copy JSON")),
    headers && Object.keys(headers).length ? h("details", null, h("summary", { class: "muted" }, counted(Object.keys(headers).length, "header")), json(headers, { depth: 1 })) : null,
    value === null ? h("p", { class: "muted" }, missing) : h("div", { class: "side-body", tabindex: "0", role: "region", "aria-label": name }, json(value, { depth: 3, marks })));
}

function kindOf(difference) {
  if (difference.path.includes(" → ")) return difference.kind === "changed" ? "translated" : "moved";
  return difference.kind === "dropped" && FOR_THE_GATEWAY.has(difference.path.split(".")[0]) ? "handled" : difference.kind;
}

/** What stands next to a field, on each side. */
function marksOf(differences) {
  const client = new Map();
  const upstream = new Map();
  for (const each of differences) {
    const [from, to = from] = each.path.split(" → ");
    const kind = kindOf(each);
    if (kind === "same") continue;
    const isMoved = kind === "moved" || kind === "translated";
    const tone = isMoved ? "changed" : kind;
    const label = `${KINDS[kind][0]} ${KINDS[kind][1]}`;
    if (kind !== "added") client.set(from, { kind: tone, label: isMoved ? `→ ${to}` : label });
    if (kind !== "dropped" && kind !== "handled") upstream.set(to, { kind: tone, label: isMoved ? `from ${from}` : label });
  }
  return { client, upstream };
}

function differenceTable(differences) {
  const counts = new Map();
  for (const each of differences) counts.set(kindOf(each), (counts.get(kindOf(each)) ?? 0) + 1);
  const summary = Object.keys(KINDS).filter((kind) => counts.has(kind)).map((kind) => `${counts.get(kind)} ${KINDS[kind][1]}`).join(", ");
  const shown = differences.filter((each) => kindOf(each) !== "same");
  return h("details", { class: "differences", open: shown.length > 0 && shown.length <= 12 },
    h("summary", null, h("strong", null, "Fields: "), summary || "none"),
    shown.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences" }, h("table", null,
      h("thead", null, h("tr", null, ["", "Field", "Client", "Upstream"].map((name) => h("th", { scope: "col" }, name || h("span", { class: "visually-hidden" }, "Kind"))))),
      h("tbody", null, shown.map(differenceRow)))) : h("p", { class: "muted" }, "Every field was passed on as it was."));
}

function differenceRow(each) {
  const kind = kindOf(each);
  const [mark, word] = KINDS[kind];
  const tone = { changed: "warn", moved: "live", translated: "live", dropped: "bad", added: "good", handled: "muted" }[kind];
  const value = (content, isThere) => h("td", { class: "mono value" }, isThere ? marked(line(JSON.stringify(content), 160)) : h("span", { class: "muted" }, "–"));
  return h("tr", null,
    h("td", null, h("span", { class: `badge is-${tone}`, title: kind === "handled" ? "The gateway does this itself: the upstream need not know of it." : null }, h("span", { "aria-hidden": "true" }, mark), word)),
    h("th", { scope: "row", class: "mono" }, line(each.path, 100)),
    value(each.client, kind !== "added"), value(each.upstream, each.kind !== "dropped"));
}
