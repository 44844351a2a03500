// A model as the host tells it, for the editor's list.
'use strict';

/** @typedef {import('./lines').Line} Line */

const EFFORT = 'reasoningEffort';
const UNSET = 'default';

/**
 * A picker for the effort, beside the model's name (proposed, not gated: editor 12). Unset means unset: the first
 * choice sends nothing, and the endpoint decides (decision 29).
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

/** For the column of that name (proposed, not gated). @param {Line | null | undefined} prices dollars per million tokens */
const pricing = (prices) => (prices ? { pricing: `$${prices.input} in, $${prices.output} out` } : {});

/**
 * @param {Line} model @param {string} digest of the configuration that it is from
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
    tooltip: Array.isArray(model.tooltip) ? model.tooltip.join('\n') : undefined,
    // A boolean: numbers become one anyway. Never `editTools`: it would cost the whole list (editor 13).
    capabilities: { imageInput: model.image_input === true, toolCalling: model.tool_calling === true },
    .../** @type {object} */ ({ isUserSelectable: true, ...pricing(model.prices), ...effortSchema(model.efforts) }),
    // The editor hands this very object back with a request; it must not hold the key.
    penstock: digest,
  };
}

/**
 * The effort that was picked. It comes in `modelConfiguration`; other versions have other names for it.
 * @param {any} options @returns {string | undefined}
 */
function pickedEffort(options) {
  // The picker's first choice is always there: it must not hide what another extension asks for.
  return [options.modelConfiguration, options.configuration, options.modelOptions]
    .map((each) => each?.[EFFORT])
    .find((each) => typeof each === 'string' && each !== '' && each !== UNSET);
}

/**
 * The options of a request. Of the editor's private ones only the conversation is of use, as a name for the prompt
 * cache; the others may hold anything.
 * @param {any} options @returns {Line}
 */
function optionsToJson(options) {
  const given = Object.entries(options.modelOptions ?? {}).filter(
    ([name]) => name !== EFFORT && (!name.startsWith('_') || name === '_conversationId'),
  );
  const effort = pickedEffort(options);
  return { ...(effort === undefined ? {} : { reasoning_effort: effort }), ...Object.fromEntries(given) };
}

module.exports = { modelInformation, optionsToJson };
