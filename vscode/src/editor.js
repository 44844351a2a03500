// What this VS Code has. Data parts are stable since 1.106, thinking parts are still a proposal that the
// editor exports to everybody (editor 3): both are looked for at run time, and no proposal is enabled.
'use strict';
const vscode = require('vscode');

/**
 * @typedef {new (data: Uint8Array, mimeType: string) => { data: Uint8Array, mimeType: string }} DataClass
 * @typedef {new (value: string | string[], id?: string, metadata?: Record<string, unknown>) =>
 *   { value: string | string[], id?: string, metadata?: Record<string, unknown> }} ThinkingClass
 */

/** @param {string} name @returns {any} */
function find(name) {
  const found = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (vscode))[name];
  return typeof found === 'function' ? found : undefined;
}

/** @returns {DataClass | undefined} */
const dataClass = () => find('LanguageModelDataPart');

/** @returns {ThinkingClass | undefined} */
const thinkingClass = () => find('LanguageModelThinkingPart');

/**
 * How thinking is asked for: what the settings say, and `auto` by what there is (decision 24).
 * @param {string} setting
 */
function thinkingMode(setting) {
  const here = thinkingClass() !== undefined;
  if (setting === 'part') return here ? 'part' : 'none';
  if (setting === 'text' || setting === 'none') return setting;
  return here ? 'part' : 'text';
}

module.exports = { dataClass, thinkingClass, thinkingMode };
