/** The client's request and the one that was sent to the upstream, side by side, with differences marked. */

import { copyButton, h, replace } from "../dom.js";
import { counted } from "../format.js";
import { json, line, marked, pretty } from "../text.js";

const KINDS = {
  changed: ["≠", "changed"],
  moved: ["→", "moved"],
  dropped: ["−", "dropped"],
  added: ["+", "added"],
  same: ["=", "same"],
};

export function requestsPanel(content) {
  const { rendered, differences } = content;
  const body = h("div", { class: "body requests" });
  const select = rendered.length > 1
    ? h("select", { id: "attempt", "aria-label": "Attempt", onchange: (event) => draw(Number(event.target.value)) },
      rendered.map((each, index) => h("option", { value: index, selected: index === rendered.length - 1 }, `Attempt ${index + 1}: ${line(each.target, 40)}`)))
    : null;
  const draw = (index) => replace(body, sides(content, rendered[index] ?? null, index === rendered.length - 1 ? differences : null));
  draw(rendered.length - 1);
  return h("section", { class: "panel", "aria-labelledby": "requests-title" },
    h("header", null, h("h2", { id: "requests-title" }, "Request of the client, and what the upstream got"), select), body);
}

/** The request as the client sent it: the store keeps its input apart. */
export function wholeRequest(content) {
  return { ...content.request, input: content.input };
}

function sides(content, sent, differences) {
  const marks = differences ? marksOf(differences) : { client: null, upstream: null };
  return [
    differences ? differenceTable(differences) : null,
    h("div", { class: "sides" },
      side("Client → gateway", "The request of the client", content.request ? wholeRequest(content) : null, "The client’s request was not kept.", marks.client),
      side(sent ? `Gateway → ${line(sent.target, 60)} (${line(sent.dialect || "same format", 30)})` : "Gateway → upstream", "The request to the upstream",
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
  return difference.path.includes(" → ") ? "moved" : difference.kind;
}

/** What stands next to a field, on each side. */
function marksOf(differences) {
  const client = new Map();
  const upstream = new Map();
  for (const each of differences) {
    const [from, to = from] = each.path.split(" → ");
    const kind = kindOf(each);
    if (kind === "same") continue;
    const tone = kind === "moved" ? "changed" : kind;
    if (kind !== "added") client.set(from, { kind: tone, label: kind === "moved" ? `→ ${to}` : `${KINDS[kind][0]} ${kind}` });
    if (kind !== "dropped") upstream.set(to, { kind: tone, label: kind === "moved" ? `from ${from}` : `${KINDS[kind][0]} ${kind}` });
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
  const tone = { changed: "warn", moved: "live", dropped: "bad", added: "good" }[kind];
  const value = (content, isThere) => h("td", { class: "mono value" }, isThere ? marked(line(JSON.stringify(content), 160)) : h("span", { class: "muted" }, "–"));
  return h("tr", null,
    h("td", null, h("span", { class: `badge is-${tone}` }, h("span", { "aria-hidden": "true" }, mark), word)),
    h("th", { scope: "row", class: "mono" }, line(each.path, 100)),
    value(each.client, kind !== "added"), value(each.upstream, kind !== "dropped"));
}
