// Convert lines to the editor's part classes, and the editor's messages to JSON. One table each and no logic: Python decides
// what parts mean.
'use strict';
const vscode = require('vscode');
const { dataClass, thinkingClass } = require('./editor');
const { oneLine } = require('./errors');

/** @typedef {import('./lines').Line} Line */

/** @param {Line} line */
function dataOf(line) {
  const DataPart = dataClass();
  return DataPart && new DataPart(new Uint8Array(Buffer.from(line.base64, 'base64')), line.mime);
}

/** @param {Line} line */
function thinkingOf(line) {
  const ThinkingPart = thinkingClass();
  return ThinkingPart && new ThinkingPart(line.value, line.thinking_id ?? undefined, line.metadata ?? undefined);
}

/**
 * The part to report for each type of line. Other types are from a later version and are ignored.
 * @type {Record<string, (line: Line) => unknown>}
 */
const PART_BUILDERS = {
  text: (line) => new vscode.LanguageModelTextPart(line.value),
  thinking: thinkingOf,
  tool_call: (line) => new vscode.LanguageModelToolCallPart(line.call_id, line.name, line.input),
  data: dataOf,
  usage: dataOf,
  marker: dataOf,
};

/** Returns the part to report, or undefined if this VS Code has no class for it. @param {Line} line @returns {unknown} */
function partOfLine(line) {
  return Object.hasOwn(PART_BUILDERS, line.type) ? PART_BUILDERS[line.type](line) : undefined;
}

const ID = /^[A-Za-z0-9_-]{1,80}$/;
const MEDIA_TYPE = /^[a-z_]{1,20}(\/[a-z0-9.+-]{1,80})?$/;
const LIKELY_SECRET = /(^|[^A-Za-z0-9])((sk|pk|rk|vck|gsk|hf|gh[opsu]|[a-z_]*pat)[-_][\w-]{6,}|AIza[\w-]{20,}|AKIA[0-9A-Z]{12,})/;

/**
 * Returns a text that has a shape and does not look like a secret; of others, the length.
 * @param {unknown} text @param {(text: string) => boolean} isHarmless
 */
function shown(text, isHarmless) {
  if (typeof text !== 'string') return [];
  return [isHarmless(text) && !LIKELY_SECRET.test(text) ? text : `(${text.length} characters)`];
}

/**
 * Describes what is reported for a line, by its kind and size: never its content. A model may write anything into the name of
 * a tool, so only the names of tools in the request are shown.
 * @param {string} model @param {Line} line @param {boolean} isReported @param {string[]} tools
 */
function tracedLine(model, line, isReported, tools) {
  const { id, type, value, call_id, name, input, mime, base64 } = line;
  const pieces = [value].flat().filter((each) => typeof each === 'string');
  const size = input ? JSON.stringify(input).length : (pieces.join('').length || Math.floor(String(base64 ?? '').length * 0.75));
  const part = [
    ...shown(type, (each) => ID.test(each)),
    ...shown(call_id, (each) => ID.test(each)),
    ...shown(name, (each) => tools.includes(each)),
    ...shown(mime, (each) => MEDIA_TYPE.test(each)),
  ];
  return `${oneLine(model, 80)}: request ${id}, ${isReported ? 'reported' : 'ignored'} ${part.join(' ')}, size ${size}`;
}

const AUDIENCES = ['assistant', 'user', 'extension'];

/** Returns the audience of text or data (proposed API). @param {any} part */
function audienceOf(part) {
  if (!Array.isArray(part.audience)) return {};
  const audience = part.audience.map((/** @type {number} */ mark) => AUDIENCES[mark]).filter(Boolean);
  return audience.length > 0 ? { audience } : {};
}

/** @param {any} part */
const isThinking = (part) => {
  const ThinkingPart = thinkingClass();
  return ThinkingPart !== undefined && part instanceof ThinkingPart;
};

/** @param {any} part */
const isData = (part) => part?.data instanceof Uint8Array && typeof part.mimeType === 'string';

/**
 * How to convert each class; the first matching row is used. Classes that an extension may have bundled a copy of are
 * recognised by their shape.
 * @type {Array<[(part: any) => boolean, (part: any) => Line]>}
 */
const CONVERTERS = [
  [
    (part) => part instanceof vscode.LanguageModelTextPart,
    (part) => ({ type: 'text', value: part.value, ...audienceOf(part) }),
  ],
  [
    (part) => part instanceof vscode.LanguageModelToolCallPart,
    (part) => ({ type: 'tool_call', call_id: part.callId, name: part.name, input: objectOf(part.input) }),
  ],
  [
    (part) => part instanceof vscode.LanguageModelToolResultPart || isResult(part),
    (part) => ({
      type: 'tool_result',
      call_id: part.callId,
      content: part.content.map(resultContent),
      is_error: part.isError === true,
    }),
  ],
  [
    isThinking,
    (part) => ({ type: 'thinking', value: part.value, id: part.id ?? null, metadata: part.metadata ?? null }),
  ],
  // Private types (markers, cache control, ...) are sent as data: Python knows which are not content.
  [
    isData,
    (part) => ({
      type: 'data',
      mime: part.mimeType,
      base64: Buffer.from(part.data.buffer, part.data.byteOffset, part.data.byteLength).toString('base64'),
      ...audienceOf(part),
    }),
  ],
];

/** @param {any} part */
const isResult = (part) => typeof part?.callId === 'string' && Array.isArray(part.content);

/** Returns a call's input as an object; other extensions do not ensure that (editor 5). @param {any} input */
const objectOf = (input) => (input !== null && typeof input === 'object' && !Array.isArray(input) ? input : {});

/** @param {any} part @returns {Line | undefined} */
function partToJson(part) {
  if (typeof part === 'string') return { type: 'text', value: part };
  return CONVERTERS.find(([matches]) => matches(part))?.[1](part);
}

/**
 * Converts the full result of a tool: text and data unchanged, anything else (prompt-tsx trees, objects) as JSON, because
 * an omitted result would mislead the model.
 * @param {any} part @returns {Line}
 */
function resultContent(part) {
  const converted = partToJson(part);
  if (converted !== undefined && (converted.type === 'text' || converted.type === 'data')) return converted;
  return { type: 'text', value: asText(part !== null && typeof part === 'object' && 'value' in part ? part.value : part) };
}

/** @param {unknown} value */
const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value) ?? '');

/** Converts a message. Role 3 (system) is passed on unchanged. @param {import('vscode').LanguageModelChatRequestMessage} message */
function messageToJson(message) {
  const content = typeof message.content === 'string' ? [message.content] : message.content;
  return {
    role: Number(message.role),
    content: content.map(partToJson).filter((part) => part !== undefined),
    ...(message.name ? { name: message.name } : {}),
  };
}

/** @param {import('vscode').LanguageModelChatTool} tool */
const toolToJson = (tool) => ({
  name: tool.name,
  description: tool.description,
  schema: tool.inputSchema ?? null,
});

module.exports = { tracedLine, partOfLine, partToJson, messageToJson, toolToJson };
