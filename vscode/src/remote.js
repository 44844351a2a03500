// The same lines over HTTP: a Penstock gateway that runs already, near or far, needs no Python here (docs/host.md).
'use strict';
const { errorOfLine, plainError } = require('./errors');
const { CANCELLED } = require('./host');
const { LineSplitter, parseLine } = require('./lines');

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {{ endpoint: string, preset: string, key: string, headers: Record<string, string> }} Configuration
 */

/** Where a gateway takes requests, whether its address was given with /v1 or without. @param {string} endpoint */
function partsUrl(endpoint) {
  const base = endpoint.trim().replace(/\/+$/, '');
  return base.endsWith('/v1') ? `${base}/parts` : `${base}/v1/parts`;
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

class RemoteGateway {
  /** @param {Configuration} configuration */
  constructor(configuration) {
    this.url = partsUrl(configuration.endpoint);
    this.headers = {
      ...configuration.headers,
      ...(configuration.key ? { authorization: `Bearer ${configuration.key}` } : {}),
      'content-type': 'application/json',
    };
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
      if (error instanceof Error && error.stack === undefined) throw error;
      throw plainError(`${this.url} cannot be reached: is the gateway running?`, { code: 'connection_failed', kind: 'NotFound' });
    }
  }

  /**
   * @param {string} method @param {Line} fields @param {((line: Line) => void) | undefined} onLine
   * @param {AbortSignal | undefined} signal
   */
  async ask(method, fields, onLine, signal) {
    const body = JSON.stringify({ id: 1, method, ...fields });
    const answer = await fetch(this.url, { method: 'POST', headers: this.headers, body, signal });
    if (!answer.ok || answer.body === null) throw await errorOfAnswer(answer, this.url);
    const splitter = new LineSplitter();
    for await (const chunk of /** @type {AsyncIterable<Uint8Array>} */ (/** @type {unknown} */ (answer.body))) {
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
    throw plainError('The gateway closed the connection in the middle of the answer: try again', { code: 'stream_truncated' });
  }
}

module.exports = { RemoteGateway, partsUrl };
