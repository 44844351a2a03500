// Errors for users. The chat view shows message and stack, and VS Code adds a new stack to a LanguageModelError. So these
// are plain errors with a name and a code, and without a stack (decision 23).
'use strict';

/**
 * @typedef {Error & { code: string, reason: string, isText?: boolean, status?: number, retryAfter?: number }} PlainError
 */

/**
 * @param {string} message one sentence that says what to do
 * @param {{ name?: string, code?: string, kind?: string, status?: number, retryAfter?: number }} [details]
 * @returns {PlainError}
 */
function plainError(message, details = {}) {
  const error = /** @type {PlainError} */ (new Error(message));
  error.name = details.name || 'PenstockError';
  // `code` is VS Code's kind if there is one; `reason` is the endpoint's code.
  error.code = details.kind || details.code || '';
  error.reason = details.code || '';
  if (details.status !== undefined) error.status = details.status;
  if (details.retryAfter !== undefined) error.retryAfter = details.retryAfter;
  error.stack = undefined;
  return error;
}

/** Converts an `error` line. @param {import('./lines').Line} line */
function errorOfLine(line) {
  const number = (/** @type {unknown} */ value) => (typeof value === 'number' ? value : undefined);
  const error = plainError(text(line.message) || 'The model could not answer. For details, run "Penstock: Show the Log".', {
    name: text(line.name),
    code: text(line.code),
    kind: text(line.kind),
    status: number(line.status),
    retryAfter: number(line.retry_after),
  });
  // The backend has also sent it as text (`penstock.errorsAsText`).
  if (line.as_text === true) error.isText = true;
  return error;
}

/** Converts anything that was thrown to an error without a stack. @param {unknown} thrown @returns {PlainError} */
function asPlain(thrown) {
  if (thrown instanceof Error && thrown.stack === undefined) return /** @type {PlainError} */ (thrown);
  if (!(thrown instanceof Error)) return plainError(String(thrown), { code: 'internal' });
  return plainError(thrown.message, { code: 'internal', name: thrown.name === 'Error' ? '' : thrown.name });
}

/**
 * Describes an error for the log, without its message: that may quote the endpoint, and endpoints quote prompts.
 * @param {unknown} thrown
 */
function briefly(thrown) {
  const { name, reason, status } = asPlain(thrown);
  return [name, reason, status].filter(Boolean).join(' ');
}

/**
 * Returns a text of a server as one short line. The Python backend has already shortened and masked most of them; without it
 * the server may be anything.
 * @param {unknown} text
 */
function oneLine(text, limit = 300) {
  const line = String(text ?? '').slice(0, 20_000).replace(/[\s\p{C}]+/gu, ' ').trim();
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value : '');

module.exports = { plainError, errorOfLine, asPlain, briefly, oneLine };
