/** The playground's form: the message, images, and the settings of the request. */

import { announce, h, replace } from "../dom.js";
import { bytes } from "../format.js";
import { marked, parsed, pretty } from "../text.js";
import { EXAMPLE_FORMAT, EXAMPLE_TOOLS } from "./playground_prompts.js";

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"];
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST_IMAGE_BYTES = 10_000_000;

export class PlaygroundForm {
  #images = [];
  /** The settings that came with a suggested prompt. */
  #filled = "";

  /** `onSend(values)`: the form is valid; `onStop()`: the running turn is to be cancelled. */
  constructor({ picker, onSend, onStop }) {
    this.picker = picker;
    this.onSend = onSend;
    this.text = h("textarea", {
      id: "playground-text", rows: "3", placeholder: "Write a message", "aria-label": "Message",
      onkeydown: (event) => this.#press(event), onpaste: (event) => this.#attach(event.clipboardData?.files),
    });
    this.problem = h("p", { class: "problem", role: "alert" });
    this.problem.hidden = true;
    this.previews = h("ul", { class: "previews", "aria-label": "Attached images" });
    this.send = h("button", { type: "submit", class: "primary" }, "Send");
    this.stop = h("button", { type: "button", onclick: onStop }, "Stop");
    this.stop.hidden = true;
    this.element = h("form", {
      class: "composer panel", "aria-label": "Request", onsubmit: (event) => {
        event.preventDefault();
        this.submit();
      },
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => {
        event.preventDefault();
        this.#attach(event.dataTransfer?.files);
      },
    }, this.text, this.previews, this.problem,
      h("div", { class: "composer-bar" }, this.#settings(),
      h("div", { class: "actions" }, this.#imageButton(), this.stop, this.send)),
    this.#more());
  }

  #settings() {
    this.effort = h("select", { id: "playground-effort" }, h("option", { value: "" }, "default"),
      EFFORTS.map((name) => h("option", { value: name }, name)));
    this.format = h("select", { id: "playground-format", onchange: () => this.#showSchema() },
      [["", "text"], ["json_object", "JSON"],
        ["json_schema", "JSON schema"]].map(([value, name]) => h("option", { value }, name)));
    return h("div", { class: "composer-settings" }, this.picker.element,
      h("div", { class: "field" }, h("label", { for: "playground-effort" }, "Effort"), this.effort),
      h("div", { class: "field" }, h("label", { for: "playground-format" }, "Format"), this.format));
  }

  #more() {
    this.instructions = h("textarea", { id: "playground-instructions", rows: "2", placeholder: "You are a helpful assistant." });
    this.tools = h("textarea",
      { id: "playground-tools", class: "mono", rows: "6", spellcheck: "false",
      "aria-describedby": "playground-tools-help", oninput: () => this.#count() });
    this.schema = h("textarea", { id: "playground-schema", class: "mono", rows: "6", spellcheck: "false" });
    this.schemaField = h("div", { class: "field" },
      h("div", { class: "label-row" }, h("label", { for: "playground-schema" }, "JSON schema of the answer"),
        this.#example(this.schema, EXAMPLE_FORMAT)), this.schema);
    this.schemaField.hidden = true;
    this.toolCount = h("span", { class: "muted" });
    this.details = h("details", { class: "composer-more" },
      h("summary", null, "Instructions and tools ", this.toolCount),
      h("div", { class: "field" }, h("label", { for: "playground-instructions" }, "Instructions"), this.instructions),
      h("div", { class: "field" },
        h("div", { class: "label-row" }, h("label", { for: "playground-tools" }, "Tools"),
          this.#example(this.tools, EXAMPLE_TOOLS)), this.tools,
        h("p", { class: "help", id: "playground-tools-help" },
          "A JSON list of tools. When the model calls one, the page asks you for its result.")));
    return [this.schemaField, this.details];
  }

  #example(area, value) {
    return h("button", { type: "button", class: "small", onclick: () => {
      area.value = pretty(value);
      this.#count();
    } }, "Insert an example");
  }

  #showSchema() {
    this.schemaField.hidden = this.format.value !== "json_schema";
    if (!this.schemaField.hidden && !this.schema.value.trim()) this.schema.value = pretty(EXAMPLE_FORMAT);
  }

  #count() {
    const tools = this.tools.value.trim() ? parsed(this.tools.value) : [];
    this.toolCount.textContent = Array.isArray(tools)
      ? (tools.length ? `(${tools.length} ${tools.length === 1 ? "tool" : "tools"})` : "") : "(not valid yet)";
  }

  /* Images */

  #imageButton() {
    const input = h("input",
      { type: "file", accept: IMAGE_TYPES.join(","), multiple: true, class: "visually-hidden", tabindex: "-1",
      "aria-hidden": "true", id: "playground-image",
      onchange: () => {
        this.#attach(input.files);
        input.value = "";
      } });
    return [h("button", { type: "button", onclick: () => input.click() }, "Attach an image"), input];
  }

  async #attach(files) {
    for (const file of files ?? []) {
      if (!IMAGE_TYPES.includes(file.type)) this.#complain(`${file.name} is not an image of a known kind: use PNG, JPEG, GIF or WebP.`);
      else if (file.size > MOST_IMAGE_BYTES) this.#complain(`${file.name} has ${bytes(file.size)}: images may have up to ${bytes(MOST_IMAGE_BYTES)}.`);
      else this.#images.push({ name: file.name, url: await dataUrl(file) });
    }
    this.#drawImages();
  }

  #drawImages() {
    replace(this.previews, this.#images.map((image, index) => h("li", null, h("img", { src: image.url, alt: image.name }),
      h("button", { type: "button", class: "small", "aria-label": `Remove ${image.name}`, onclick: () => {
        this.#images.splice(index, 1);
        this.#drawImages();
        this.text.focus();
      } }, "Remove"))));
  }

  /* Sending */

  /** Fill in a suggested prompt. */
  fill({ text, tools = null, format = null, effort = "" }) {
    this.text.value = text;
    this.tools.value = tools ? pretty(tools) : "";
    this.format.value = format ? "json_schema" : "";
    this.schema.value = format ? pretty(format) : "";
    this.effort.value = effort;
    this.#showSchema();
    this.#count();
    this.#filled = this.#chosen();
  }

  #chosen() {
    return JSON.stringify([this.tools.value, this.format.value, this.schema.value, this.effort.value]);
  }

  /** Forget the settings of a suggested prompt, unless they were changed since then. */
  forget() {
    if (this.#filled === this.#chosen()) this.fill({ text: this.text.value });
  }

  setRunning(isRunning) {
    this.isRunning = isRunning;
    const hadFocus = document.activeElement === (isRunning ? this.send : this.stop);
    this.send.hidden = isRunning;
    this.stop.hidden = !isRunning;
    if (hadFocus) (isRunning ? this.stop : this.send).focus();
  }

  submit() {
    if (this.isRunning) return;
    this.problem.hidden = true;
    const text = this.text.value.trim();
    if (!text && !this.#images.length) return this.#complain("Write a message, or attach an image.", this.text);
    const settings = this.settings();
    if (!settings) return;
    const content = [...(text ? [{ type: "input_text", text }] : []),
      ...this.#images.map(({ url }) => ({ type: "input_image", image_url: url, detail: "auto" }))];
    this.onSend([{ type: "message", role: "user", content }], settings);
    this.text.value = "";
    this.#images = [];
    this.#drawImages();
  }

  /** Return the fields of the request that do not depend on the message, or null if one of them is not valid. */
  settings() {
    const tools = this.#read(this.tools, "Tools", Array.isArray, "a JSON list: [{\"type\": \"function\", \"name\": …}]");
    const format = this.format.value === "json_schema"
      ? this.#read(this.schema, "The JSON schema",
        (value) => value !== null && typeof value === "object" && !Array.isArray(value), "a JSON object with `name` and `schema`")
      : this.format.value ? { type: this.format.value } : undefined;
    if (tools === null || format === null) return null;
    const fields = { model: this.picker.value };
    if (this.instructions.value.trim()) fields.instructions = this.instructions.value.trim();
    if (tools?.length) fields.tools = tools;
    if (format) fields.text = { format: format.schema ? { type: "json_schema", name: "answer", ...format } : format };
    if (this.effort.value) fields.reasoning = this.effort.value === "none" ? { effort: "none" }
      : { effort: this.effort.value, summary: "auto" };
    return fields;
  }

  #read(area, name, isValid, expected) {
    if (!area.value.trim()) return undefined;
    const value = parsed(area.value);
    if (value !== undefined && isValid(value)) return value;
    this.details.open ||= area === this.tools;
    this.#complain(`${name}: this is not ${expected}.`, area);
    return null;
  }

  #complain(text, field = null) {
    replace(this.problem, marked(text));
    this.problem.hidden = false;
    announce(text);
    field?.focus();
  }

  #press(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
