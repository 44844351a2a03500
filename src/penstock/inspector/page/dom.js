/** Builds elements. Text enters the page as text nodes only, attributes from a fixed list only: nothing that a
 * model, an upstream or a client wrote can become markup, a script or a link. */

const SVG = "http://www.w3.org/2000/svg";

const ATTRIBUTES = new Set(
  "accept alt autocapitalize autocomplete class cols colspan dir download enterkeyhint for height id inputmode lang list max maxlength min multiple name open pattern placeholder rel role rows scope size span spellcheck step tabindex target title translate type width wrap".split(" "),
);
/** Set as properties, because the attribute is only the first value. */
const PROPERTIES = new Set(["checked", "disabled", "hidden", "indeterminate", "readOnly", "required", "selected", "value"]);

const SVG_ATTRIBUTES = new Set(
  "class clip-path cx cy d dominant-baseline dx dy fill fill-opacity height id points preserveAspectRatio r role rx ry stroke stroke-dasharray stroke-linecap stroke-linejoin stroke-opacity stroke-width tabindex text-anchor transform viewBox width x x1 x2 y y1 y2".split(" "),
);

/** Create an element. Children are strings (text nodes), numbers, nodes, arrays of these, or null. */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) setProperty(element, name, value);
  append(element, children);
  return element;
}

/** Create an SVG element. */
export function svg(tag, properties, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (isCommon(element, name, value)) continue;
    if (!SVG_ATTRIBUTES.has(name)) throw new TypeError(`the attribute ${name} is not allowed`);
    element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

/** Replace everything in a node. */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of Array.isArray(children) ? children : [children]) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function setProperty(element, name, value) {
  if (value === null || value === undefined) return;
  if (PROPERTIES.has(name)) {
    element[name] = value;
    return;
  }
  if (value === false || isCommon(element, name, value)) return;
  if (name === "href") element.setAttribute("href", safeUrl(value));
  else if (name === "src") element.setAttribute("src", imageUrl(value));
  else if (ATTRIBUTES.has(name)) element.setAttribute(name, value === true ? "" : String(value));
  else throw new TypeError(`the attribute ${name} is not allowed`);
}

function isCommon(element, name, value) {
  if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name.startsWith("aria-") || name.startsWith("data-")) element.setAttribute(name, String(value));
  else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
  else return false;
  return true;
}

/** Return a URL that may be a link: of this page, https, or a blob of this page. Never pass text of a model. */
export function safeUrl(url) {
  const { protocol, origin } = new URL(url, document.baseURI);
  if (origin === location.origin || protocol === "https:" || protocol === "blob:") return url;
  throw new TypeError("a link must be relative or begin with https:");
}

/** Return a URL that may be an image: data and blobs, which cause no request. */
export function imageUrl(url) {
  if (/^(data:image\/(png|jpeg|gif|webp)[;,]|blob:)/.test(url)) return url;
  throw new TypeError("an image must be in the page already");
}

/** A link to another site, in a new tab. */
export function externalLink(url, ...children) {
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

let politeRegion = null;

/** Let a screen reader say a text when it has nothing else to say. */
export function announce(text) {
  politeRegion ??= document.getElementById("announcements");
  if (politeRegion) politeRegion.textContent = text;
}

/** Copy a text, and say so on the button. */
export async function copy(text, button) {
  const label = button.textContent;
  let outcome = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    outcome = copyBySelection(text) ? "Copied" : "Copying is not allowed";
  }
  button.textContent = outcome;
  announce(outcome);
  setTimeout(() => {
    button.textContent = label;
  }, 1600);
}

/** Without https, and not on this machine, browsers have no clipboard API. */
function copyBySelection(text) {
  const area = h("textarea", { class: "visually-hidden", value: text, "aria-hidden": "true" });
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

export function copyButton(text, label = "Copy") {
  return h("button", {
    type: "button",
    class: "small",
    onclick: async (event) => copy(typeof text === "function" ? await text() : text, event.currentTarget),
  }, label);
}

/** Offer a text or bytes as a file. */
export function download(name, content, type = "application/octet-stream") {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A command or file with a copy button. */
export function code(text, { label = "Copy", name = "" } = {}) {
  return h("div", { class: "code" },
    h("pre", { tabindex: "0", role: "region", "aria-label": name || "Command" }, text),
    copyButton(text, label));
}

/** What a view shows when there is nothing, or when it failed: a sentence that says what to do. */
export function notice(title, ...content) {
  return h("div", { class: "notice" }, h("h2", null, title), ...content);
}

export function errorNotice(error, retry = null) {
  return h("div", { class: "notice is-error", role: "alert" },
    h("h2", null, "This could not be loaded"),
    h("p", null, error?.message ?? String(error)),
    retry && h("p", null, h("button", { type: "button", onclick: retry }, "Try again")));
}

/** Grey bars in the place of what is being loaded. */
export function skeleton(lines = 6) {
  return h("div", { class: "skeleton", role: "status" },
    h("span", { class: "visually-hidden" }, "Loading"),
    Array.from({ length: lines }, () => h("div", { class: "bar", "aria-hidden": "true" })));
}
