/** Set up: how to point a client at this gateway. The text is that of `penstock connect`. */

import { address, api } from "../api.js";
import { setQuery } from "../route.js";
import { code, download, errorNotice, h, replace, skeleton } from "../dom.js";
import { modelPicker } from "../models.js";
import { session } from "../session.js";
import { marked } from "../text.js";

const CURL = "curl";

export async function show(main, { query, signal }) {
  const picker = await modelPicker({ chosen: query.model, signal, onchange: () => load() });
  const clients = h("ul", { class: "client-list", "aria-label": "Clients" });
  const guide = h("section", { class: "guide", "aria-live": "off" }, skeleton(8));
  let chosen = query.client ?? "";
  let loading = null;

  replace(main,
    h("div", { class: "page-head" },
      h("h1", null, "Set up a client"),
      h("p", { class: "lead" }, "Choose your client. Address and model are filled in; ",
        h("code", null, "penstock connect"), " prints and writes the same.")),
    h("div", { class: "toolbar" }, picker.element,
      h("p", { class: "base-url" }, h("span", { class: "label" }, "Base URL"), h("code", null, baseUrl()))),
    h("div", { class: "setup" }, clients, guide));

  async function load() {
    loading?.abort();
    loading = new AbortController();
    const { signal: current } = loading;
    try {
      const found = await api.get("inspector/api/connect", { base_url: baseUrl(), model: picker.value }, current);
      draw([...found.clients, curlGuide(picker.value)]);
    } catch (error) {
      if (!current.aborted && !signal.aborted) replace(guide, errorNotice(error, load));
    }
  }

  function draw(all) {
    if (!all.some((client) => client.name === chosen)) chosen = all[0].name;
    replace(clients, all.map((client) => h("li", null, h("button", {
      type: "button", "aria-pressed": String(client.name === chosen), "data-client": client.name,
      onclick: (event) => {
        chosen = client.name;
        for (const each of clients.querySelectorAll("button")) each.setAttribute("aria-pressed",
          String(each === event.currentTarget));
        drawGuide(client);
      },
    }, client.title))));
    drawGuide(all.find((client) => client.name === chosen));
  }

  function drawGuide(client) {
    setQuery({ client: client.name, model: picker.isDefault ? "" : picker.value });
    replace(guide, ...guideOf(client, picker.value));
  }

  signal.addEventListener("abort", () => loading?.abort());
  await load();
}

function guideOf(client, model) {
  const steps = [];
  if (client.install) steps.push(["Install it", code(client.install, { name: `Install ${client.title}` })]);
  if (client.settings) steps.push([whereTo(client), settings(client)]);
  for (const text of client.steps) steps.push(step(text));
  return [
    h("h2", null, client.title),
    h("ol", { class: "guide-steps" }, steps.map(([title, content]) => h("li", null, title && h("h3", null, title), content))),
    client.note ? h("p", { class: "help" }, client.note)
      : [h("p", { class: "help" }, "The same on the command line",
          client.file ? [", where ", h("code", null, "--write"), " puts it into the file"] : null, ":"),
        code(commandOf(client, model), { name: "The same on the command line" })],
  ];
}

/** The command that prints the same settings. Without `--base-url`, it is about the gateway of its own folder. */
function commandOf({ name }, model) {
  const key = session.current?.needs_key ? " --api-key-env PENSTOCK_KEY" : "";
  return `penstock connect ${name} --base-url ${quoted(baseUrl())} --model ${quoted(model)}${key}`;
}

/** A word of a shell's command line. */
function quoted(text) {
  return /^[\w:/.@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function whereTo(client) {
  if (client.saved_as) return ["Save this program as ", h("code", null, client.saved_as)];
  if (client.file) return ["Add this to ", h("code", null, marked(client.file))];
  return "Run this";
}

function settings(client) {
  const block = code(client.settings.replace(/\n$/, ""), { name: `Settings for ${client.title}` });
  if (!client.saved_as) return block;
  const save = h("button",
    { type: "button", class: "small", onclick: () => download(client.saved_as, client.settings, "text/plain") },
    `Download ${client.saved_as}`);
  return [block, h("p", { class: "actions" }, save)];
}

/** A step is a command to run, or a sentence. */
function step(text) {
  const found = /^(?:.* )?run: (.+)$/s.exec(text);
  return found ? ["Run it", code(found[1], { name: "Command" })] : [null, h("p", null, sentence(text))];
}

function sentence(text) {
  const upper = text.charAt(0).toUpperCase() + text.slice(1);
  return marked(/[.:!?]$/.test(upper) ? upper : `${upper}.`);
}

function curlGuide(model) {
  const body = JSON.stringify({ model, input: "Hello!", stream: true });
  return {
    name: CURL, title: "curl", install: "", saved_as: "", file: "", steps: [],
    settings: `curl -sN ${baseUrl()}/responses \\\n  -H 'content-type: application/json' \\\n${authorization()}  -d ${quoted(body)}`,
    note: "Any program that speaks the OpenResponses protocol can use this address.",
  };
}

function authorization() {
  return api.key ? "  -H \"authorization: Bearer $PENSTOCK_KEY\" \\\n" : "";
}

/** The address of this gateway as this browser reaches it, with `/v1`. */
export function baseUrl() {
  return address("v1");
}
