// Convert a model of the host for the editor's list.
'use strict';

/** @typedef {import('./lines').Line} Line */

const EFFORT = 'reasoningEffort';
const UNSET = 'default';

/**
 * An effort picker next to the model's name (a proposed API that is not gated: editor 12). The first choice sends nothing,
 * and the endpoint decides (decision 29).
 * @param {unknown} efforts
 */
function effortSchema(efforts) {
  if (!Array.isArray(efforts) || efforts.length === 0) return {};
  const levels = [UNSET, ...efforts.filter((level) => typeof level === 'string' && level !== UNSET)];
  const effort = {
    type: 'string',
    title: 'Thinking Effort',
    description: 'How long the model thinks before it answers.',
    enum: levels,
    enumItemLabels: levels.map((level) => level === UNSET ? 'Automatic' : level.charAt(0).toUpperCase() + level.slice(1)),
    enumDescriptions: levels.map((level) => (level === UNSET ? "The endpoint's own choice" : '')),
    default: UNSET,
    group: 'navigation',
  };
  return { configurationSchema: { properties: { [EFFORT]: effort } } };
}

/** The text of the pricing column (proposed, not gated). @param {Line | null | undefined} prices dollars per million tokens */
const pricing = (prices) => (prices ? { pricing: `$${prices.input} in, $${prices.output} out` } : {});

/**
 * @param {Line} model @param {string} digest of its configuration
 * @returns {import('vscode').LanguageModelChatInformation & { penstock: string }}
 */
function modelInformation(model, digest) {
  return {
    id: model.id,
    name: model.name || model.id,
    family: model.family || model.id,
    version: model.version || '',
    maxInputTokens: model.max_input_tokens,
    maxOutputTokens: model.max_output_tokens,
    detail: typeof model.detail === 'string' && model.detail !== '' ? model.detail : undefined,
    tooltip: Array.isArray(model.tooltip) ? model.tooltip.join('\n') : undefined,
    // A boolean: VS Code converts numbers to one anyway. Never set `editTools`: VS Code would reject the whole list (editor 13).
    capabilities: { imageInput: model.image_input === true, toolCalling: model.tool_calling === true },
    .../** @type {object} */ ({ isUserSelectable: true, ...pricing(model.prices), ...effortSchema(model.efforts) }),
    // The editor passes this object back with a request; it must not contain the key.
    penstock: digest,
  };
}

const MAX_PLACE = 24;

/**
 * Adds the place of a model to its detail, which the picker shows instead of the name of the group.
 * @template {{ detail?: string }} Information @param {Information} information @param {string} place @returns {Information}
 */
function withPlace(information, place) {
  // The end stays: it distinguishes two groups with the same endpoint.
  const short = place.length > MAX_PLACE ? `${place.slice(0, MAX_PLACE - 9)}…${place.slice(-8)}` : place;
  return { ...information, detail: [information.detail, short].filter(Boolean).join(' · ') };
}

/**
 * Returns the selected effort. It is in `modelConfiguration`; other versions use other names.
 * @param {any} options @returns {string | undefined}
 */
function pickedEffort(options) {
  // The picker's first choice is always set: it must not override the option of another extension.
  return [options.modelConfiguration, options.configuration, options.modelOptions]
    .map((each) => each?.[EFFORT])
    .find((each) => typeof each === 'string' && each !== '' && each !== UNSET);
}

/**
 * Returns the options of a request. Of the editor's private options only the conversation id is used, as the prompt cache
 * key; the others may contain anything.
 * @param {any} options @returns {Line}
 */
function optionsToJson(options) {
  const given = Object.entries(options.modelOptions ?? {}).filter(
    ([name]) => name !== EFFORT && (!name.startsWith('_') || name === '_conversationId'),
  );
  const effort = pickedEffort(options);
  return { ...(effort === undefined ? {} : { reasoning_effort: effort }), ...Object.fromEntries(given) };
}

/**
 * Returns whether a request is one of VS Code's helpers (titles, summaries), which would take the text of an error for the answer: it
 * offers no tools, or it has private options without a conversation. A summary offers tools, but has no conversation.
 * @param {any} options
 */
function isHelper(options) {
  const names = Object.keys(options.modelOptions ?? {}).filter((name) => name.startsWith('_'));
  return (options.tools ?? []).length === 0 || (names.length > 0 && !names.includes('_conversationId'));
}

module.exports = { isHelper, modelInformation, optionsToJson, withPlace };
