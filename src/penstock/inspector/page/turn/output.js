/** Items of the input and the output as people read them: text, folded reasoning, tool calls with their arguments. */

import { copyButton, h, imageUrl } from "../dom.js";
import { bytes, counted, itemName } from "../format.js";
import { GrowingText, json, line, marked, parsed, pretty, prose } from "../text.js";

const FIRST = 100;
/** Longer arguments are shown as text: parsing and drawing them as a tree would take long. */
const LARGEST_TREE = 2_000_000;

/** All items; of very long lists the first ones, with a button for more. */
export function itemList(items, { empty = "There is none." } = {}) {
  if (!Array.isArray(items)) return json(items, { depth: 1 });
  if (!items.length) return h("p", { class: "muted" }, empty);
  const list = h("div", { class: "items" });
  const show = (begin) => {
    for (const item of items.slice(begin, begin + FIRST)) list.append(itemElement(item));
    if (begin + FIRST >= items.length) return;
    const button = h("button", {
      type: "button",
      class: "small",
      onclick: () => {
        button.remove();
        show(begin + FIRST);
      },
    }, `Show more of ${counted(items.length, "item")}`);
    list.append(button);
  };
  show(0);
  return list;
}

/** An item as its type says. Streams of other servers may contain anything: what cannot be drawn is shown as JSON. */
export function itemElement(item) {
  try {
    return knownItem(item);
  } catch {
    return box("other", "not an item as the API describes it", "", json(item, { depth: 2 }));
  }
}

function knownItem(item) {
  const type = typeof item?.type === "string" ? item.type : "message";
  if (type === "message") return messageItem(item);
  if (type === "reasoning") return reasoningItem(item);
  if ("arguments" in item || type === "custom_tool_call") return callItem(item, type);
  if ("output" in item) return outputItem(item, type);
  return box("other", line(itemName(type), 60), item.status, json(item, { depth: 1 }));
}

function box(kind, title, status, ...content) {
  const isOpen = status && status !== "completed";
  return h("section", { class: `item is-${kind}` },
    h("header", null, h("span", { class: "item-title" }, title), isOpen ? h("span", { class: "badge is-warn" }, line(status, 30)) : null),
    content);
}

function messageItem(item) {
  const role = line(item.role ?? "assistant", 30);
  const parts = typeof item.content === "string" ? [{ type: "output_text", text: item.content }] : item.content ?? [];
  const phase = item.phase ? ` · ${line(item.phase, 30)}` : "";
  return box(role === "assistant" ? "message" : "input", `${role}${phase}`, item.status, Array.isArray(parts) ? parts.map((part) => partElement(part, role)) : json(parts));
}

function partElement(part, role) {
  const type = part?.type;
  if (typeof part?.text === "string") {
    return [prose(part.text, { name: `text of the ${role}` }), citations(part.annotations)];
  }
  if (type === "refusal" && typeof part.refusal === "string") {
    return [h("p", null, h("span", { class: "badge is-warn" }, "refusal")), prose(part.refusal, { name: "refusal" })];
  }
  if (type === "input_image") return imagePart(part);
  return json(part, { depth: 1 });
}

/** The links of citations are text: a model chose them. */
function citations(annotations) {
  if (!Array.isArray(annotations) || !annotations.length) return null;
  return h("ul", { class: "citations", "aria-label": "Citations" },
    annotations.slice(0, 50).map((each) => h("li", null, marked(line(`${each?.title ?? each?.type ?? ""} ${each?.url ?? each?.filename ?? ""}`, 300)))));
}

/** Only an image that is in the request itself can be shown: nothing is loaded from elsewhere. */
function imagePart(part) {
  const url = typeof part.image_url === "string" ? part.image_url : "";
  try {
    imageUrl(url);
  } catch {
    return h("p", { class: "muted" }, "image: ", marked(line(url || String(part.file_id ?? "without an address"), 200)));
  }
  const place = h("p", null, h("button", {
    type: "button",
    class: "small",
    onclick: () => place.replaceChildren(h("img", { src: url, alt: "Image of the request", class: "shown-image" })),
  }, `Show the image (${bytes(Math.round(url.length * 0.75))})`));
  return place;
}

function reasoningItem(item) {
  const texts = [...(item.summary ?? []), ...(item.content ?? [])].map((part) => part?.text).filter((text) => typeof text === "string");
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  const hidden = item.encrypted_content ? `${bytes(String(item.encrypted_content).length)} encrypted` : "";
  const size = [length ? bytes(length) : "", hidden].filter(Boolean).join(", ") || "empty";
  const details = h("details", { class: "fold" },
    h("summary", null, h("span", { class: "item-title" }, "reasoning"), " ", h("span", { class: "muted" }, size, length ? ` · ${line(texts[0], 90)}` : "")));
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) details.append(...texts.map((text) => prose(text, { name: "reasoning" })));
  });
  return h("section", { class: "item is-reasoning" }, details);
}

function callItem(item, type) {
  const name = line(item.name ?? itemName(type), 120);
  const source = typeof item.arguments === "string" ? item.arguments : typeof item.input === "string" ? item.input : null;
  const call = item.call_id ? h("span", { class: "muted mono" }, line(item.call_id, 60)) : null;
  const element = box("tool", [h("span", { class: "mono" }, `${name}()`), " ", call], item.status, formatted(source, item));
  if (source) element.querySelector("header").append(copyButton(() => prettyText(source), "Copy arguments"));
  return element;
}

/** Arguments as a tree if they are JSON, otherwise as text, with a sentence that says so. */
function formatted(source, item) {
  if (source === null) return json(item.arguments ?? item.action ?? item, { depth: 3 });
  if (!source.trim()) return h("p", { class: "muted" }, "without arguments");
  const value = source.length <= LARGEST_TREE ? parsed(source) : undefined;
  if (value !== undefined && typeof value === "object") return json(value, { depth: 3 });
  if (item.type === "custom_tool_call" || source.length > LARGEST_TREE) return prose(source, { name: "input of the tool", className: "mono" });
  return [h("p", { class: "problem" }, "These arguments are not valid JSON:"), prose(source, { name: "arguments", className: "mono" })];
}

function prettyText(source) {
  const value = parsed(source);
  return value === undefined ? source : pretty(value);
}

function outputItem(item, type) {
  const call = item.call_id ? h("span", { class: "muted mono" }, line(item.call_id, 60)) : null;
  const content = typeof item.output === "string" ? prose(item.output, { name: "output of the tool", className: "mono" }) : json(item.output, { depth: 2 });
  return box("input", [line(itemName(type), 60), " ", call], item.status, content);
}

/** The output of a turn while it runs, from its events. */
export class LiveOutput {
  #items = new Map();

  constructor() {
    this.element = h("div", { class: "items" }, h("p", { class: "muted" }, "Nothing yet."));
  }

  add(event) {
    const index = event.output_index;
    if (!Number.isInteger(index)) return;
    const item = event.item !== null && typeof event.item === "object" ? event.item : {};
    if (event.type === "response.output_item.added") this.#item(index, item);
    else if (String(event.type).endsWith(".delta") && typeof event.delta === "string") this.#item(index, {}).append(event.delta);
  }

  #item(index, item) {
    const known = this.#items.get(index);
    if (known) return known;
    if (!this.#items.size) this.element.replaceChildren();
    const type = String(item.type ?? "item");
    const isText = type === "message";
    const text = new GrowingText({ className: isText || type === "reasoning" ? "" : "mono" });
    const title = typeof item.name === "string" && item.name ? h("span", { class: "mono" }, `${line(item.name, 120)}()`) : line(itemName(type), 60);
    const kind = isText ? "message" : type === "reasoning" ? "reasoning" : "tool";
    this.element.append(box(kind, title, "", text.element));
    this.#items.set(index, text);
    return text;
  }
}
