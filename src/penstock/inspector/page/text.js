/** Shows text and JSON that somebody else wrote. It is shown as it is: never as markup, never as a link, with marks
 * in the place of characters that would hide, reorder or colour what follows. */

import { append, h } from "./dom.js";
import { bytes, counted } from "./format.js";

/** Control characters (with the escape of ANSI sequences), and characters that are invisible or change the order
 * of others. A tab and a newline are text; a carriage return is not. The joiners are marked unless they follow an
 * emoji or a letter of a script that needs them. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e0fff}]|(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\u0600-\u06ff\u0900-\u0dff])[\u200c\u200d]/gu;

/** A sequence of such characters. */
const RUNS = new RegExp(`(?:${HIDDEN.source})+`, "gu");

const NAMES = {
  0x1b: "ESC", 0x7f: "DEL", 0xad: "SHY", 0x61c: "ALM", 0x200b: "ZWSP", 0x200c: "ZWNJ", 0x200d: "ZWJ",
  0x200e: "LRM", 0x200f: "RLM", 0x2028: "LS", 0x2029: "PS", 0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF",
  0x202d: "LRO", 0x202e: "RLO", 0x2060: "WJ", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI",
  0xfeff: "BOM",
};

/** Pieces of this many characters are drawn at once. */
const PIECE = 16_000;
/** Longer texts are cut, with a button that shows the rest. */
export const CUT = 4_000;
const ENTRIES = 100;

/** Return the text with a mark for every such character: `⟦RLO⟧`, `⟦U+0007⟧`. */
export function clean(text) {
  return String(text).replace(/\r\n/g, "\n").replace(HIDDEN, (character) => `⟦${mark(character)}⟧`);
}

function mark(character) {
  const point = character.codePointAt(0);
  return NAMES[point] ?? `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Return strings and elements that show a short text, with its marks set off from the text. */
export function marked(text) {
  const source = String(text).replace(/\r\n/g, "\n");
  const parts = [];
  let begin = 0;
  for (const match of source.matchAll(RUNS)) {
    if (match.index > begin) parts.push(source.slice(begin, match.index));
    parts.push(markOf(match[0]));
    begin = match.index + match[0].length;
  }
  if (begin < source.length) parts.push(source.slice(begin));
  return parts;
}

function markOf(run) {
  const names = Array.from(run, mark);
  const rest = names.length > 8 ? ` +${names.length - 8}` : "";
  const shown = `${names.slice(0, 8).join(" ")}${rest}`;
  return h("span", { class: "mark", title: `Hidden characters: ${shown}` }, shown);
}

/** One line of a text: its beginning. */
export function line(text, length = 120) {
  const beginning = String(text).slice(0, length + 1).replace(/\s+/g, " ");
  const cut = beginning.length > length || text.length > length + 1;
  return clean(cut ? `${wholeEnd(beginning.slice(0, length))}…` : beginning);
}

/** A text of any length. Long ones are cut; the rest is drawn in pieces, so that 10 MB do not freeze the page. */
export function prose(text, { name = "text", className = "" } = {}) {
  const source = String(text);
  const element = h("div", { class: `prose ${className}`.trim() });
  if (source.length <= CUT) {
    append(element, marked(source));
    return element;
  }
  const end = pieceEnd(source, 0, CUT);
  append(element, marked(source.slice(0, end)));
  const button = h("button", {
    type: "button",
    class: "small more",
    onclick: () => showAll(element, source, end, name),
  }, `Show all (${bytes(source.length)})`);
  element.append(h("span", { class: "cut" }, "… "), button);
  return element;
}

/** A text that grows while it is read: `append` takes what is new. Only so much of its end is kept in the page. */
export class GrowingText {
  #most;
  #length = 0;
  #pending = [];
  #frame = 0;

  constructor({ className = "", most = 200_000 } = {}) {
    this.#most = most;
    this.element = h("div", { class: `prose ${className}`.trim() });
  }

  append(text) {
    this.#pending.push(text);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    let text = this.#pending.join("");
    this.#pending = [];
    if (text.length > this.#most) text = `…${text.slice(-this.#most)}`;
    this.element.append(h("span", { "data-length": text.length }, marked(text)));
    this.#length += text.length;
    while (this.#length > this.#most && this.element.childElementCount > 1) {
      this.#length -= Number(this.element.firstElementChild.dataset.length);
      this.element.firstElementChild.remove();
    }
  }
}

function showAll(element, source, begin, name) {
  element.querySelectorAll(".cut, .more").forEach((each) => each.remove());
  element.classList.add("is-whole");
  for (const [attribute, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", `All of the ${name}`]]) {
    element.setAttribute(attribute, value);
  }
  element.focus({ preventScroll: true });
  const step = () => {
    if (!element.isConnected && begin > CUT) return;
    const end = pieceEnd(source, begin, begin + PIECE);
    element.append(h("div", { class: "piece" }, marked(source.slice(begin, end))));
    begin = end;
    if (begin < source.length) requestAnimationFrame(step);
  };
  step();
}

/** Return where a piece ends: after a newline if one is near, never within a character. */
function pieceEnd(source, begin, end) {
  if (end >= source.length) return source.length;
  const newline = source.lastIndexOf("\n", end);
  if (newline > begin + PIECE / 2) return newline + 1;
  return isHighSurrogate(source.charCodeAt(end - 1)) ? end - 1 : end;
}

function wholeEnd(text) {
  return isHighSurrogate(text.charCodeAt(text.length - 1)) ? text.slice(0, -1) : text;
}

function isHighSurrogate(unit) {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** JSON as a tree. Its branches are made when they are opened. `marks`: path -> what is said about it. */
export function json(value, { depth = 2, name = "", path = "", marks = null } = {}) {
  const tree = h("div", { class: "json" });
  tree.append(node(value, { depth, name, path, marks }));
  return tree;
}

function node(value, options) {
  if (value === null || typeof value !== "object") return leaf(value, options);
  const { depth, name, path, marks } = options;
  const keys = Array.isArray(value) ? null : Object.keys(value);
  const count = keys ? keys.length : value.length;
  const [open, close] = keys ? ["{", "}"] : ["[", "]"];
  const label = keyOf(name);
  if (!count) return h("div", rowOf(path, marks), label, punctuation(`${open}${close}`), markAt(path, marks));
  const noun = keys ? "field" : "item";
  const body = h("div", { class: "branch" });
  const details = h("details", { open: depth > 0 },
    h("summary", rowOf(path, marks), label, punctuation(open),
      h("span", { class: "count" }, counted(count, noun)), preview(value, keys), punctuation(close), markAt(path, marks)),
    body);
  const fill = () => {
    if (body.childElementCount || !details.open) return;
    entries(body, value, keys, { ...options, depth: depth - 1 }, 0);
  };
  details.addEventListener("toggle", fill);
  if (depth > 0) fill();
  return details;
}

/** The beginning of what a closed branch contains. */
function preview(value, keys) {
  const shown = [];
  let length = 0;
  for (const key of keys ?? value.keys()) {
    const each = value[key];
    const isBranch = each !== null && typeof each === "object";
    const text = isBranch ? (Array.isArray(each) ? "[…]" : "{…}") : JSON.stringify(typeof each === "string" ? line(each, 40) : each);
    shown.push(keys ? `${line(key, 30)}: ${text}` : text);
    length += shown.at(-1).length;
    if (length > 60) break;
  }
  const rest = (keys ?? value).length > shown.length ? ", …" : "";
  return h("span", { class: "preview" }, shown.join(", "), rest);
}

function entries(body, value, keys, options, begin) {
  const count = keys ? keys.length : value.length;
  const end = Math.min(begin + ENTRIES, count);
  for (let index = begin; index < end; index += 1) {
    const key = keys ? keys[index] : index;
    const path = keys ? (options.path ? `${options.path}.${key}` : key) : `${options.path}[${index}]`;
    body.append(node(value[key], { ...options, name: String(key), path }));
  }
  if (end === count) return;
  const button = h("button", {
    type: "button",
    class: "small",
    onclick: () => {
      button.remove();
      entries(body, value, keys, options, end);
    },
  }, `Show ${counted(Math.min(ENTRIES, count - end), "more entry").replace("entrys", "entries")}`);
  body.append(button);
}

function leaf(value, { name, path, marks }) {
  const type = value === null ? "null" : typeof value;
  const shown = type === "string"
    ? h("span", { class: "string" }, value.length > 600 ? prose(value, { name: name || "value" }) : marked(JSON.stringify(value).replace(/\\"/g, '"')))
    : h("span", { class: type }, String(value));
  return h("div", rowOf(path, marks), keyOf(name), shown, markAt(path, marks));
}

function keyOf(name) {
  return name === "" ? null : h("span", { class: "key" }, marked(name.slice(0, 200)), ": ");
}

function punctuation(text) {
  return h("span", { class: "punctuation" }, text);
}

function rowOf(path, marks) {
  const kind = marks?.get(path)?.kind;
  return { class: kind ? `row is-${kind}` : "row" };
}

function markAt(path, marks) {
  const found = marks?.get(path);
  return found ? h("span", { class: `difference is-${found.kind}` }, found.label) : null;
}

/** Return a value as indented JSON, for copying. */
export function pretty(value) {
  return JSON.stringify(value, null, 2);
}

/** Return parsed JSON, or undefined. */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
