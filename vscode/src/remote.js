// The same lines over HTTP: a Penstock gateway that runs already, near or far, needs no Python here (docs/host.md).
'use strict';
const { errorOfLine, plainError } = require('./errors');
const { CANCELLED } = require('./host');
const { LineSplitter, parseLine, writeLine } = require('./lines');

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {{ endpoint: string, preset: string, key: string, headers: Record<string, string> }} Configuration
 */

/**
 * Where a gateway takes requests, whether its address was given with /v1 or without. A query stays: some proxies want one.
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
  const wrong = (/** @type {string} */ what) => plainError(`The endpoint of this group ${what}`, { code: 'invalid_base_url' });
  if (!URL.canParse(endpoint.trim())) throw wrong('is no address: write one such as http://127.0.0.1:8080/v1');
  const url = new URL(endpoint.trim());
  // `fetch` takes no such address, and the Python side does not either.
  if (url.username || url.password) throw wrong('must not have a user name or a password in it: put them into its `headers`');
  return url;
}

/** @param {Configuration} configuration */
function headersOf({ headers, key }) {
  try {
    const all = new Headers(key ? { authorization: `Bearer ${key}` } : {});
    // Setting, not adding: a header that somebody has written wins over the key, as on the Python side.
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    all.set('content-type', 'application/json');
    return all;
  } catch {
    // The engine's own words have the value in them, and that may be the key.
    const message = 'The key or a header of this group has a character that cannot be sent: enter it again';
    throw plainError(message, { code: 'invalid_headers', kind: 'NoPermissions' });
  }
}

/** node gives up on who says nothing for five minutes. */
const SILENT = ['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'];

/** Why nothing came, or nothing more. @param {any} thrown @param {string} shown @param {string} message for all but silence @param {{ code: string, kind?: string }} details */
function silenceOr(thrown, shown, message, details) {
  if (!SILENT.includes(thrown?.cause?.code ?? thrown?.code)) return plainError(message, details);
  return plainError(`${shown} was reached and then said nothing for too long: try again, or choose a faster model`, { code: 'timeout' });
}

/** What an HTTP error says, in its own words where it has some. @param {Response} answer @param {string} url */
async function errorOfAnswer(answer, url) {
  const body = parseLine(await answer.text().catch(() => ''));
  if (answer.status === 404 && body?.error?.code !== 'model_not_found') {
    return plainError(`${url} is not there: this endpoint is no Penstock gateway, so a Python with Penstock is needed`, {
      code: 'no_gateway',
      kind: 'NotFound',
      status: 404,
    });
  }
  const message = typeof body?.error?.message === 'string' ? body.error.message : `${url} answered with status ${answer.status}`;
  const kind = { 401: 'NoPermissions', 403: 'NoPermissions', 404: 'NotFound', 429: 'Blocked' }[answer.status];
  return plainError(message, { code: body?.error?.code, kind, status: answer.status });
}

const BROKEN = 'The gateway closed the connection in the middle of the answer: try again';

class RemoteGateway {
  /** @param {Configuration} configuration */
  constructor(configuration) {
    this.url = partsUrl(configuration.endpoint);
    /** As people and the log may see it: a query may hold a key. */
    this.shown = this.url.origin + this.url.pathname;
    this.headers = headersOf(configuration);
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
      const message = `${this.shown} cannot be reached: is the gateway running?`;
      throw silenceOr(thrown, this.shown, message, { code: 'connection_failed', kind: 'NotFound' });
    });
    if (!answer.ok || answer.body === null) throw await errorOfAnswer(answer, this.shown);
    const splitter = new LineSplitter();
    for await (const chunk of this.read(answer.body)) {
      for (const text of splitter.feed(chunk)) {
        const line = parseLine(text);
        // A line that came with the same chunk as others may be behind a cancel.
        if (line === undefined || signal?.aborted) continue;
        if (line.type === 'done') return line;
        if (line.type === 'error') throw errorOfLine(line);
        onLine?.(line);
      }
    }
    if (signal?.aborted) return CANCELLED;
    throw plainError(BROKEN, { code: 'stream_truncated' });
  }

  /** What is thrown here is the connection's fault; what the listener throws does not come by. @param {unknown} body */
  async *read(body) {
    try {
      yield* /** @type {AsyncIterable<Uint8Array>} */ (body);
    } catch (thrown) {
      throw silenceOr(thrown, this.shown, BROKEN, { code: 'stream_truncated' });
    }
  }
}

module.exports = { RemoteGateway, partsUrl };
