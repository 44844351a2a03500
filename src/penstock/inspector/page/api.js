/** The gateway's HTTP API. Every path is relative to the page, so that the page works under a prefix. */

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const UNREACHABLE = "The gateway did not answer. Check that it is running, then try again.";

const WRONG_KEY = "The gateway does not know this key, or it has expired. Check that it is complete, or use another one.";

class Api {
  /** In memory only: it is gone when the page is closed. */
  key = "";
  /** Set by the shell: asks the user for a key, and returns whether there is a new one. */
  askForKey = async (_message) => false;

  #asking = null;

  get(path, query, signal) {
    return this.#json(path, { query, signal });
  }

  post(path, body, query, signal) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return this.#json(path, { method: "POST", body: text, type: "application/json", query, signal });
  }

  bytes(path, blob, query, signal) {
    return this.#json(path, { method: "POST", body: blob, type: "application/octet-stream", query, signal });
  }

  async text(path, query, signal) {
    return (await this.fetch(path, { query, signal, accept: "*/*" })).text();
  }

  /** Read server-sent events until the stream ends. `onEvent` gets `{event, data}`, both strings. */
  async stream(path, { method = "GET", body, query, signal } = {}, onEvent) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await this.fetch(path, {
      method, body: text, type: "application/json", query, signal, accept: "text/event-stream",
    });
    if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
      throw new ApiError(response.status, "not_a_stream", "The gateway's answer is not a stream of events.");
    }
    const decoder = new EventDecoder(onEvent);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        decoder.feed(value);
      }
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ApiError(0, "connection_lost", "The connection to the gateway was lost.");
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  async #json(path, options) {
    const response = await this.fetch(path, options);
    try {
      return await response.json();
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new ApiError(response.status, "not_json", "The gateway's answer is not JSON.");
    }
  }

  /** Return the answer if its status is not an error; otherwise throw an `ApiError`. */
  async fetch(path, { method = "GET", body, type, query, signal, accept = "application/json" } = {}) {
    for (;;) {
      const key = this.key;
      const headers = { accept };
      if (body !== undefined && type) headers["content-type"] = type;
      if (key) headers.authorization = `Bearer ${key}`;
      let response;
      try {
        response = await fetch(address(path, query), {
          method, body, headers, signal, credentials: "omit", cache: "no-store", redirect: "error",
        });
      } catch (error) {
        if (signal?.aborted) throw error;
        throw new ApiError(0, "unreachable", UNREACHABLE);
      }
      if (response.ok) return response;
      const error = await readError(response);
      if (response.status !== 401 || !(await this.#newKey(key, signal))) throw error;
    }
  }

  /** Several requests that are refused at once ask for one key. */
  async #newKey(refused, signal) {
    if (this.key !== refused) return true;
    this.#asking ??= this.askForKey(refused ? WRONG_KEY : "").finally(() => {
      this.#asking = null;
    });
    return (await this.#asking) && !signal?.aborted;
  }
}

export const api = new Api();

/** Return the URL of a path of the gateway; empty parameters are left out. */
export function address(path, query) {
  const url = new URL(path.replace(/^\/+/, ""), document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, String(value));
  }
  return url.href;
}

async function readError(response) {
  const fallback = `The gateway answered with HTTP ${response.status}.`;
  try {
    const { error } = await response.json();
    return new ApiError(response.status, String(error?.code ?? ""), String(error?.message ?? fallback));
  } catch {
    return new ApiError(response.status, "", fallback);
  }
}

/** Text of a stream of events in pieces of any size -> events. Linear in the size of the stream. */
export class EventDecoder {
  #onEvent;
  #pieces = [];
  #event = "";
  #data = [];
  #isAfterReturn = false;

  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  feed(text) {
    if (text === "") return;
    const begins = this.#isAfterReturn && text.startsWith("\n");
    this.#isAfterReturn = text.endsWith("\r");
    if (begins) text = text.slice(1);
    let begin = 0;
    for (const match of text.matchAll(/\r\n|\n|\r/g)) {
      this.#pieces.push(text.slice(begin, match.index));
      begin = match.index + match[0].length;
      this.#line(this.#pieces.length === 1 ? this.#pieces[0] : this.#pieces.join(""));
      this.#pieces = [];
    }
    if (begin < text.length) this.#pieces.push(text.slice(begin));
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length) this.#onEvent({ event: this.#event || "message", data: this.#data.join("\n") });
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
  }
}
