/** What is known of a response while its events arrive: status, error, usage and the items that are done. */

const ENDS = { "response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed",
  "response.cancelled": "cancelled" };

/** The code of the diagnostic that says that the usage is the gateway's own estimate. */
const ESTIMATED = "usage_estimated";

/** Indexes come from the stream: a large one must not make a large list. */
const MOST_ITEMS = 10_000;

export class ResponseState {
  id = "";
  status = "";
  error = null;
  usage = null;
  /** What the gateway dropped, degraded or repaired. */
  diagnostics = [];
  items = [];

  apply(event) {
    const { type, response } = event;
    if (response !== null && typeof response === "object") this.#snapshot(response);
    if (type === "response.output_item.done") this.#set(event.output_index, event.item);
    else if (type === "error") this.error ??= event.error ?? event;
    else if (Object.hasOwn(ENDS, type)) this.#end(response?.status ?? ENDS[type], response?.output);
  }

  get isEstimated() {
    return this.diagnostics.some((each) => each?.code === ESTIMATED);
  }

  /** The diagnostics apart from the one that is shown with the numbers. */
  get noticed() {
    return this.diagnostics.filter((each) => each && each.code !== ESTIMATED);
  }

  get isOver() {
    return !["", "in_progress", "queued"].includes(this.status);
  }

  #snapshot(response) {
    if (typeof response.id === "string") this.id = response.id;
    if (typeof response.status === "string") this.status = response.status;
    if (response.usage) this.usage = response.usage;
    if (Array.isArray(response.diagnostics)) this.diagnostics = response.diagnostics;
    if (response.error) this.error = response.error;
  }

  #end(status, output) {
    this.status = status;
    if (Array.isArray(output)) output.forEach((item, index) => this.#set(index, item));
  }

  #set(index, item) {
    if (Number.isInteger(index) && index >= 0 && index < MOST_ITEMS && item !== null
      && typeof item === "object") this.items[index] = item;
  }
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
  if (call.type === "shell_call") return { ...item,
    output: [{ stdout: text, stderr: "", outcome: { type: "exit", exit_code: 0 } }] };
  if (call.type === "apply_patch_call") return { ...item, status: "completed", output: text };
  return { ...item, output: text };
}
