'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { vscode, extension } = require('./fake');
const { partOfLine, partToJson, messageToJson, toolToJson, tracedLine } = extension('parts.js');
const { thinkingMode, turnSettings } = extension('editor.js');

const bytes = (text) => new Uint8Array(Buffer.from(text));
const base64 = (text) => Buffer.from(text).toString('base64');

test('every line becomes its part', () => {
  const rows = [
    [{ type: 'text', value: 'a' }, new vscode.LanguageModelTextPart('a')],
    [{ type: 'thinking', value: 't', thinking_id: 'rs_1', metadata: { a: 1 } }, new vscode.LanguageModelThinkingPart('t', 'rs_1', { a: 1 })],
    [{ type: 'thinking', value: 't', thinking_id: null, metadata: null }, new vscode.LanguageModelThinkingPart('t', undefined, undefined)],
    [{ type: 'tool_call', call_id: 'gw-1', name: 'look', input: { at: 'sea' } }, new vscode.LanguageModelToolCallPart('gw-1', 'look', { at: 'sea' })],
    ...['data', 'usage', 'marker'].map((type) => [{ type, mime: 'x/y', base64: base64('€') }, new vscode.LanguageModelDataPart(bytes('€'), 'x/y')]),
  ];
  for (const [line, part] of rows) {
    assert.deepEqual(partOfLine(line), part);
    assert.equal(partOfLine(line).constructor, part.constructor);
  }
});

test('unknown types are ignored, including names of object properties', () => {
  assert.equal(partOfLine({ type: 'hologram' }), undefined);
  assert.equal(partOfLine({ type: 'toString' }), undefined);
});

test('parts are omitted if the editor has no class for them', (t) => {
  const { LanguageModelThinkingPart, LanguageModelDataPart } = vscode;
  t.after(() => Object.assign(vscode, { LanguageModelThinkingPart, LanguageModelDataPart }));
  assert.deepEqual(['auto', 'part', 'text', 'none', 'junk'].map(thinkingMode), ['part', 'part', 'text', 'none', 'part']);
  delete vscode.LanguageModelThinkingPart;
  delete vscode.LanguageModelDataPart;
  assert.equal(partOfLine({ type: 'thinking', value: 't' }), undefined);
  assert.equal(partOfLine({ type: 'usage', mime: 'usage', base64: '' }), undefined);
  assert.deepEqual(['auto', 'part', 'text', 'none'].map(thinkingMode), ['text', 'none', 'text', 'none']);
});

test('a setting that is not valid means the default', () => {
  const chosen = (values) => turnSettings({ get: (name, otherwise) => values[name] ?? otherwise });
  const defaults = { thinking: 'part', citations: 'end', errors_as_text: false, system_role: 'system' };
  assert.deepEqual(chosen({}), defaults);
  assert.deepEqual(chosen({ thinking: 'loud', citations: true, errorsAsText: 'yes', systemRole: 'user' }), defaults);
  const others = { thinking: 'none', citations: 'inline', errorsAsText: true, systemRole: 'developer' };
  assert.deepEqual(chosen(others), { thinking: 'none', citations: 'inline', errors_as_text: true, system_role: 'developer' });
});

test('a trace has the kind and the size of a part, and no content', () => {
  const lines = [
    [{ id: 3, type: 'text', value: 'canary' }, 'm: request 3, reported text, size 6'],
    [{ id: 3, type: 'thinking', value: ['canary', '!'], thinking_id: 'canary', metadata: { canary: 1 } }, 'm: request 3, reported thinking, size 7'],
    [{ id: 3, type: 'tool_call', call_id: 'gw-1', name: 'look', input: { at: 'canary' } }, 'm: request 3, reported tool_call gw-1 look, size 15'],
    [{ id: 3, type: 'tool_call', call_id: 'gw-1', name: 'the canary', input: {} }, 'm: request 3, reported tool_call gw-1 (10 characters), size 2'],
    [{ id: 3, type: 'tool_call', call_id: 'gw-the canary', name: 'look', input: {} }, 'm: request 3, reported tool_call (13 characters) look, size 2'],
    [{ id: 3, type: 'tool_call', call_id: 'gw-sk-canary-1', name: 'look', input: {} }, 'm: request 3, reported tool_call (14 characters) look, size 2'],
    [{ id: 3, type: 'data', mime: 'a canary', base64: '' }, 'm: request 3, reported data (8 characters), size 0'],
    [{ id: 3, type: 'usage', mime: 'usage', base64: 'Y2FuYXJ5', tokens: { canary: 1 } }, 'm: request 3, reported usage usage, size 6'],
  ];
  for (const [line, text] of lines) assert.equal(tracedLine('m', line, true, ['look']), text);
  assert.equal(tracedLine('m', { id: 3, type: 'hologram' }, false, []), 'm: request 3, ignored hologram, size 0');
});

test('every part of a message is converted', () => {
  const result = new vscode.LanguageModelToolResultPart('gw-1', [
    new vscode.LanguageModelTextPart('seen'),
    new vscode.LanguageModelDataPart(bytes('png'), 'image/png'),
    new vscode.LanguageModelPromptTsxPart({ node: 1 }),
    { anything: true },
  ]);
  result.isError = true;
  const marked = Object.assign(new vscode.LanguageModelTextPart('for you'), { audience: [1, 0] });
  const rows = [
    [new vscode.LanguageModelTextPart('a'), { type: 'text', value: 'a' }],
    ['bare', { type: 'text', value: 'bare' }],
    [marked, { type: 'text', value: 'for you', audience: ['user', 'assistant'] }],
    [new vscode.LanguageModelToolCallPart('gw-1', 'look', { a: 1 }), { type: 'tool_call', call_id: 'gw-1', name: 'look', input: { a: 1 } }],
    [new vscode.LanguageModelToolCallPart('gw-1', 'look', '{"a"'), { type: 'tool_call', call_id: 'gw-1', name: 'look', input: {} }],
    [new vscode.LanguageModelThinkingPart(['a', 'b'], 'rs_1', { k: 1 }), { type: 'thinking', value: ['a', 'b'], id: 'rs_1', metadata: { k: 1 } }],
    [new vscode.LanguageModelDataPart(bytes('m\\x'), 'stateful_marker'), { type: 'data', mime: 'stateful_marker', base64: base64('m\\x') }],
    [
      result,
      {
        type: 'tool_result',
        call_id: 'gw-1',
        is_error: true,
        content: [
          { type: 'text', value: 'seen' },
          { type: 'data', mime: 'image/png', base64: base64('png') },
          { type: 'text', value: '{"node":1}' },
          { type: 'text', value: '{"anything":true}' },
        ],
      },
    ],
  ];
  for (const [part, json] of rows) assert.deepEqual(partToJson(part), json);
  assert.equal(partToJson({ unheard: 'of' }), undefined);
});

test('a view of a larger buffer is converted alone', () => {
  const part = new vscode.LanguageModelDataPart(Uint8Array.from(bytes('--body--')).subarray(2, 6), 'text/plain');
  assert.equal(partToJson(part).base64, base64('body'));
});

test('the system role is passed on, and an empty name is not', () => {
  const content = [new vscode.LanguageModelTextPart('be brief'), { unheard: 'of' }];
  assert.deepEqual(messageToJson({ role: 3, content, name: '' }), { role: 3, content: [{ type: 'text', value: 'be brief' }] });
  assert.deepEqual(messageToJson({ role: 2, content: 'bare', name: 'x' }), { role: 2, content: [{ type: 'text', value: 'bare' }], name: 'x' });
});

test('a tool without a schema has none', () => {
  const tool = { name: 'look', description: 'Look' };
  assert.deepEqual(toolToJson(tool), { name: 'look', description: 'Look', schema: null });
  assert.deepEqual(toolToJson({ ...tool, inputSchema: { type: 'object' } }).schema, { type: 'object' });
});
