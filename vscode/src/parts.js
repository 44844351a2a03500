// Parts both ways: lines to the editor's classes, the editor's messages to JSON. One table each, and no logic:
// what parts mean is decided in Python.
'use strict';
const vscode = require('vscode');
const { dataClass, thinkingClass } = require('./editor');

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
 * What is reported for each type of line. A type that is not here is news of a later version: ignored.
 * @type {Record<string, (line: Line) => unknown>}
 */
const REPORTED = {
  text: (line) => new vscode.LanguageModelTextPart(line.value),
  thinking: thinkingOf,
  tool_call: (line) => new vscode.LanguageModelToolCallPart(line.call_id, line.name, line.input),
  data: dataOf,
  usage: dataOf,
  marker: dataOf,
};

/** The part to report, or nothing where this VS Code has no class for it. @param {Line} line @returns {unknown} */
function partOfLine(line) {
  return Object.hasOwn(REPORTED, line.type) ? REPORTED[line.type](line) : undefined;
}

const AUDIENCES = ['assistant', 'user', 'extension'];

/** Who a text or a piece of data is for (proposed). @param {any} part */
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
 * How each class is written. The first row that fits is taken. Classes that an extension's bundle may have made a
 * copy of are told by their shape.
 * @type {Array<[(part: any) => boolean, (part: any) => Line]>}
 */
const WRITTEN = [
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
  // Private types (markers, cache control, ...) go along as data: Python knows which are nobody's content.
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

/** A call's input must be an object; others pass what they like (editor 5). @param {any} input */
const objectOf = (input) => (input !== null && typeof input === 'object' && !Array.isArray(input) ? input : {});

/** @param {any} part @returns {Line | undefined} */
function partToJson(part) {
  if (typeof part === 'string') return { type: 'text', value: part };
  return WRITTEN.find(([fits]) => fits(part))?.[1](part);
}

/**
 * What a tool gave back, in full: text and data as they are, and what is neither (prompt-tsx trees, objects) as JSON,
 * because a result that is left out would be a lie to the model.
 * @param {any} part @returns {Line}
 */
function resultContent(part) {
  const written = partToJson(part);
  if (written !== undefined && (written.type === 'text' || written.type === 'data')) return written;
  return { type: 'text', value: asText(part !== null && typeof part === 'object' && 'value' in part ? part.value : part) };
}

/** @param {unknown} value */
const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value) ?? '');

/** Role 3 is the system: it passes as it is. @param {import('vscode').LanguageModelChatRequestMessage} message */
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

module.exports = { partOfLine, partToJson, messageToJson, toolToJson };
