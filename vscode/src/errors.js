// Errors as people should meet them. The chat view prints message and stack, and VS Code gives a
// LanguageModelError a new stack on the way: so a plain error, with a name and a code, and no stack (decision 23).
'use strict';

/**
 * @typedef {Error & { code: string, reason: string, status?: number, retryAfter?: number }} PlainError
 */

/**
 * @param {string} message one sentence that says what to do
 * @param {{ name?: string, code?: string, kind?: string, status?: number, retryAfter?: number }} [details]
 * @returns {PlainError}
 */
function plainError(message, details = {}) {
  const error = /** @type {PlainError} */ (new Error(message));
  error.name = details.name || 'PenstockError';
  // `code` is VS Code's kind where one fits; what the endpoint called it is the `reason`.
  error.code = details.kind || details.code || '';
  error.reason = details.code || '';
  if (details.status !== undefined) error.status = details.status;
  if (details.retryAfter !== undefined) error.retryAfter = details.retryAfter;
  error.stack = undefined;
  return error;
}

/** The error that an `error` line tells of. @param {import('./lines').Line} line */
function errorOfLine(line) {
  const number = (/** @type {unknown} */ value) => (typeof value === 'number' ? value : undefined);
  return plainError(text(line.message) || 'The model could not answer. "Penstock: Show the Log" has more.', {
    name: text(line.name),
    code: text(line.code),
    kind: text(line.kind),
    status: number(line.status),
    retryAfter: number(line.retry_after),
  });
}

/** Whatever was thrown, without a stack. @param {unknown} thrown @returns {PlainError} */
function asPlain(thrown) {
  if (thrown instanceof Error && thrown.stack === undefined) return /** @type {PlainError} */ (thrown);
  if (!(thrown instanceof Error)) return plainError(String(thrown), { code: 'internal' });
  return plainError(thrown.message, { code: 'internal', name: thrown.name === 'Error' ? '' : thrown.name });
}

/**
 * An error as the log has it. Its sentence may quote the endpoint, and endpoints quote prompts: there are none in the log.
 * @param {unknown} thrown
 */
function briefly(thrown) {
  const { name, reason, status } = asPlain(thrown);
  return [name, reason, status].filter(Boolean).join(' ');
}

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value : '');

module.exports = { plainError, errorOfLine, asPlain, briefly };
