/** The choice of a model, for the views that need one. */

import { api } from "./api.js";
import { h } from "./dom.js";
import { line } from "./text.js";

let fields = 0;

/** Return a labelled field with the gateway's models. A model that the gateway does not list can be typed. */
export async function modelPicker({ chosen = "", signal, onchange = () => {} }) {
  const id = `model-${++fields}`;
  const { models, problem } = await listed(signal);
  const first = models[0]?.id ?? "demo";
  const input = h("input", {
    id, value: chosen || first, autocomplete: "off", spellcheck: "false", autocapitalize: "off", list: `${id}-names`,
    "aria-describedby": problem ? `${id}-problem` : null,
    onchange: () => {
      input.value = input.value.trim() || first;
      onchange();
    },
  });
  const names = models.map((model) => model.id);
  const select = h("select", { id, onchange: () => onchange() }, (names.includes(chosen) || !chosen ? names : [chosen, ...names])
    .map((name) => h("option", { value: name, selected: name === (chosen || first) }, line(name, 80))));
  const field = names.length && names.length <= 300 ? select : input;
  return {
    element: h("div", { class: "field model-field" }, h("label", { for: id }, "Model"), field,
      field === input ? h("datalist", { id: `${id}-names` }, names.map((name) => h("option", { value: name }))) : null,
      problem ? h("p", { class: "problem", id: `${id}-problem` }, problem) : null),
    get value() {
      return field.value;
    },
    set value(name) {
      if (field === select && !names.includes(name)) select.prepend(h("option", { value: name }, line(name, 80)));
      field.value = name;
    },
    get isDefault() {
      return field.value === first;
    },
    models,
  };
}

async function listed(signal) {
  try {
    const { data } = await api.get("v1/models", {}, signal);
    return { models: data, problem: "" };
  } catch (error) {
    if (signal?.aborted) throw error;
    return { models: [], problem: `The models could not be listed: ${error.message}` };
  }
}
