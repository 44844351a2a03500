// The features of this VS Code. Data parts are stable since 1.106; thinking parts are a proposed API that the editor
// exports to every extension (editor 3). Both are detected at run time, and no proposal is enabled.
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
 * Returns the thinking mode to request; `auto` depends on the features of this VS Code (decision 24).
 * @param {string} setting
 */
function thinkingMode(setting) {
  const isSupported = thinkingClass() !== undefined;
  if (setting === 'part') return isSupported ? 'part' : 'none';
  if (setting === 'text' || setting === 'none') return setting;
  return isSupported ? 'part' : 'text';
}

const CITATIONS = ['off', 'inline', 'end'];

/**
 * Returns the settings that the backend applies to each turn (docs/host.md). A value that is not valid means the default: a
 * typing error in a settings file must not stop every turn.
 * @param {{ get(name: string, otherwise: unknown): unknown }} settings
 */
function turnSettings(settings) {
  const citations = String(settings.get('citations', 'end'));
  return {
    thinking: thinkingMode(String(settings.get('thinking', 'auto'))),
    citations: CITATIONS.includes(citations) ? citations : 'end',
    errors_as_text: settings.get('errorsAsText', false) === true,
    system_role: settings.get('systemRole', 'system') === 'developer' ? 'developer' : 'system',
  };
}

module.exports = { dataClass, thinkingClass, thinkingMode, turnSettings };
