// The same lines over HTTP, from a running Penstock gateway: needs no Python on this machine (docs/host.md).
'use strict';
const { errorOfLine, oneLine, plainError } = require('./errors');
const { CANCELLED } = require('./host');
const { LineSplitter, parseLine, writeLine } = require('./lines');

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {{ endpoint: string, preset: string, key: string, headers: Record<string, string> }} Configuration
 */

/**
 * Returns the URL of `POST /v1/parts`, for an endpoint with or without /v1. The query is kept: some proxies need one.
 * @param {string} endpoint
 */
function partsUrl(endpoint) {
  const url = addressOf(endpoint);
  const base = url.pathname.replace(/\/+$/, '');
  url.pathname = base.endsWith('/v1') ? `${base}/parts` : `${base}/v1/parts`;
  return url;
}

/** @param {string} endpoint */
function addressOf(endpoint) {
  const invalid = (/** @type {string} */ what) => plainError(`The endpoint of this group ${what}`, { code: 'invalid_base_url' });
  if (!URL.canParse(endpoint.trim())) throw invalid('is not a valid URL: enter one such as http://127.0.0.1:8080/v1');
  const url = new URL(endpoint.trim());
  // Neither `fetch` nor the Python backend accepts such a URL.
  if (url.username || url.password) throw invalid('must not contain a user name or password: use `headers` instead');
  return url;
}

/** @param {Configuration} configuration */
function headersOf({ headers, key }) {
  try {
    const all = new Headers(key ? { authorization: `Bearer ${key}` } : {});
    // Set, not append: a configured header overrides the key, as in the Python backend.
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    all.set('content-type', 'application/json');
    return all;
  } catch {
    // The engine's own message contains the value, which may be the key.
    const message = 'The key or a header of this group contains an invalid character: enter it again';
    throw plainError(message, { code: 'invalid_headers', kind: 'NoPermissions' });
  }
}

/** Node's timeouts: five minutes without data. */
const TIMEOUTS = ['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'];

/** Returns a timeout error, or an error with `message`. @param {any} thrown @param {string} displayUrl @param {string} message if it is not a timeout @param {{ code: string, kind?: string }} details */
function connectionError(thrown, displayUrl, message, details) {
  if (!TIMEOUTS.includes(thrown?.cause?.code ?? thrown?.code)) return plainError(message, details);
  return plainError(`${displayUrl} was reached but sent nothing for too long: try again, or choose a faster model`, { code: 'timeout' });
}

/** Converts an HTTP error, with its own message if it has one. @param {Response} answer @param {string} url @param {string} key */
async function errorOfAnswer(answer, url, key) {
  const body = parseLine(await answer.text().catch(() => ''));
  if (answer.status === 404 && body?.error?.code !== 'model_not_found') {
    return plainError(`${url} was not found: this endpoint is not a Penstock gateway, so run "Penstock: Install the Python Backend"`, {
      code: 'no_gateway',
      kind: 'NotFound',
      status: 404,
    });
  }
  const unexplained = `${url} returned HTTP ${answer.status}: check the URL and the log of the gateway`;
  const quoted = typeof body?.error?.message === 'string' ? body.error.message : unexplained;
  // It may be any server, which may quote the key. A shorter key is a placeholder, which may be part of a word.
  const message = oneLine(key.length >= 8 ? quoted.replaceAll(key, '[key]') : quoted);
  const kind = { 401: 'NoPermissions', 403: 'NoPermissions', 404: 'NotFound', 429: 'Blocked' }[answer.status];
  return plainError(message, { code: body?.error?.code, kind, status: answer.status });
}

const BROKEN = 'The gateway closed the connection in the middle of the answer: try again';

class RemoteGateway {
  /** @param {Configuration} configuration */
  constructor(configuration) {
    this.url = partsUrl(configuration.endpoint);
    /** The URL for display and the log: a query may contain a key. */
    this.displayUrl = this.url.origin + this.url.pathname;
    this.headers = headersOf(configuration);
    this.key = configuration.key;
  }

  /**
   * @param {string} method @param {Line} fields @param {import('./host').Listening} [listening]
   * @returns {Promise<Line>}
   */
  async request(method, fields, { onLine, signal } = {}) {
    try {
      return await this.ask(method, fields, onLine, signal);
    } catch (error) {
      if (signal?.aborted) return CANCELLED;
      throw error;
    }
  }

  /**
   * @param {string} method @param {Line} fields @param {((line: Line) => void) | undefined} onLine
   * @param {AbortSignal | undefined} signal
   */
  async ask(method, fields, onLine, signal) {
    const body = writeLine({ id: 1, method, ...fields });
    const answer = await fetch(this.url, { method: 'POST', headers: this.headers, body, signal }).catch((thrown) => {
      const message = `${this.displayUrl} cannot be reached: is the gateway running?`;
      throw connectionError(thrown, this.displayUrl, message, { code: 'connection_failed', kind: 'NotFound' });
    });
    if (!answer.ok || answer.body === null) throw await errorOfAnswer(answer, this.displayUrl, this.key);
    const splitter = new LineSplitter();
    for await (const chunk of this.read(answer.body)) {
      for (const text of splitter.feed(chunk)) {
        const line = parseLine(text);
        // Lines later in the same chunk may follow a cancel.
        if (line === undefined || signal?.aborted) continue;
        if (line.type === 'done') return line;
        if (line.type === 'error') throw errorOfLine(line);
        onLine?.(line);
      }
    }
    if (signal?.aborted) return CANCELLED;
    throw plainError(BROKEN, { code: 'stream_truncated' });
  }

  /** Reads the body. Converts only errors of the connection, not those of the listener. @param {unknown} body */
  async *read(body) {
    try {
      yield* /** @type {AsyncIterable<Uint8Array>} */ (body);
    } catch (thrown) {
      throw connectionError(thrown, this.displayUrl, BROKEN, { code: 'stream_truncated' });
    }
  }
}

module.exports = { RemoteGateway, partsUrl };
