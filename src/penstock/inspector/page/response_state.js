/** A response while its events arrive: its status, error and usage, and its items with their text so far. */

const ENDS = { "response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed", "response.cancelled": "cancelled" };

/** For each kind of delta: the list of the item, the event's field with the index, and the field of the part. */
const TEXTS = {
  "response.output_text.delta": ["content", "content_index", "text"],
  "response.refusal.delta": ["content", "content_index", "refusal"],
  "response.reasoning.delta": ["content", "content_index", "text"],
  "response.reasoning_text.delta": ["content", "content_index", "text"],
  "response.reasoning_summary.delta": ["summary", "summary_index", "text"],
  "response.reasoning_summary_text.delta": ["summary", "summary_index", "text"],
};

const ARGUMENTS = {
  "response.function_call_arguments.delta": "arguments",
  "response.custom_tool_call_input.delta": "input",
  "response.mcp_call_arguments.delta": "arguments",
};

/** Indexes come from the stream: a large one must not make a large list. */
const MOST_ITEMS = 10_000;

export class ResponseState {
  id = "";
  status = "";
  model = "";
  error = null;
  usage = null;
  diagnostics = [];
  items = [];

  /** Apply an event, and return the index of the item that it changed, or -1. */
  apply(event) {
    const type = event?.type;
    if (event?.response && typeof event.response === "object") this.#snapshot(event.response);
    if (Object.hasOwn(TEXTS, type)) return this.#text(event, ...TEXTS[type]);
    if (Object.hasOwn(ARGUMENTS, type)) return this.#append(event, ARGUMENTS[type]);
    if (type === "response.output_item.added" || type === "response.output_item.done") return this.#set(event.output_index, event.item);
    if (type === "error") this.error ??= event.error ?? event;
    if (Object.hasOwn(ENDS, type)) this.#end(ENDS[type], event.response);
    return -1;
  }

  get isOver() {
    return this.status !== "" && this.status !== "in_progress" && this.status !== "queued";
  }

  #snapshot(response) {
    if (typeof response.id === "string") this.id = response.id;
    if (typeof response.model === "string") this.model = response.model;
    if (typeof response.status === "string") this.status = response.status;
    if (response.usage) this.usage = response.usage;
    if (response.error) this.error = response.error;
    if (Array.isArray(response.diagnostics)) this.diagnostics = response.diagnostics;
  }

  #end(status, response) {
    this.status = response?.status ?? status;
    if (Array.isArray(response?.output)) response.output.forEach((item, index) => this.#set(index, item));
  }

  #set(index, item) {
    if (!isIndex(index) || !item || typeof item !== "object") return -1;
    this.items[index] = item;
    return index;
  }

  #text(event, list, indexField, field) {
    const item = this.items[event.output_index];
    const index = event[indexField] ?? 0;
    if (!item || !isIndex(index)) return -1;
    if (!Array.isArray(item[list])) item[list] = [];
    item[list][index] ??= { type: partType(item, list, field), [field]: "" };
    const part = item[list][index];
    part[field] = `${part[field] ?? ""}${event.delta ?? ""}`;
    return event.output_index;
  }

  #append(event, field) {
    const item = this.items[event.output_index];
    if (!item) return -1;
    item[field] = `${item[field] ?? ""}${event.delta ?? ""}`;
    return event.output_index;
  }
}

function isIndex(value) {
  return Number.isInteger(value) && value >= 0 && value < MOST_ITEMS;
}

function partType(item, list, field) {
  if (field === "refusal") return "refusal";
  if (list === "summary") return "summary_text";
  return item.type === "reasoning" ? "reasoning_text" : "output_text";
}

/** The types of the items that return the result of a call that the client runs. */
const OUTPUTS = {
  function_call: "function_call_output",
  custom_tool_call: "custom_tool_call_output",
  shell_call: "shell_call_output",
  local_shell_call: "local_shell_call_output",
  apply_patch_call: "apply_patch_call_output",
};

/** Return the calls in these items that wait for their result from the client. */
export function openCalls(items) {
  const answered = new Set(items.filter((item) => String(item?.type).endsWith("_output")).map((item) => item.call_id));
  return items.filter((item) => item?.call_id && Object.hasOwn(OUTPUTS, item.type) && !answered.has(item.call_id)
    && (item.status ?? "completed") === "completed");
}

/** Return the item with which a client returns the result of a call. */
export function resultItem(call, text) {
  const item = { type: OUTPUTS[call.type], call_id: call.call_id };
  if (call.type === "shell_call") return { ...item, output: [{ stdout: text, stderr: "", outcome: { type: "exit", exit_code: 0 } }] };
  if (call.type === "apply_patch_call") return { ...item, status: "completed", output: text };
  return { ...item, output: text };
}
