'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { vscode, extension, log, cancellation } = require('./fake');
const { errorOfLine, plainError } = extension('errors.js');
const { GroupNames, readConfiguration } = extension('groups.js');
const { Journal } = extension('journal.js');
const { modelInformation, optionsToJson } = extension('models.js');
const { Provider } = extension('provider.js');

const CONFIGURATION = { endpoint: 'http://one/v1', apiKey: ' k ' };
const MODEL = { id: 'm', detail: 'tools · 15', name: 'M', max_input_tokens: 10, max_output_tokens: 5, tool_calling: true, efforts: ['low', 'high'], tooltip: ['a', 'b'] };

/** A provider whose backend answers with `answer`. */
function provider(answer) {
  const asked = [];
  const backend = {
    request: async (configuration, method, fields, listening = {}) => {
      asked.push({ configuration, method, fields, listening });
      return answer({ method, fields, listening, count: asked.length });
    },
  };
  const clock = { now: 0 };
  const shell = new Provider({ backend, log: log(), journal: new Journal(() => clock.now), now: () => clock.now });
  return { shell, asked, clock };
}

const models = () => ({ models: [MODEL] });
const list = (shell, configuration = CONFIGURATION) => shell.provideLanguageModelChatInformation({ silent: true, configuration });

test('without a configuration the list is empty and nothing is requested', async () => {
  const { shell, asked } = provider(models);
  for (const configuration of [undefined, {}, { apiKey: 'k' }, { endpoint: ' ' }, { endpoint: 3 }]) {
    assert.deepEqual(await shell.provideLanguageModelChatInformation({ silent: true, configuration }), []);
  }
  assert.equal(asked.length, 0);
});

test('parts are traced only at the level trace', async () => {
  const { shell } = provider(({ method, listening }) => {
    if (method === 'models') return models();
    listening.onLine({ id: 4, type: 'text', value: 'canary' });
    for (const name of ['look', 'canary']) listening.onLine({ id: 4, type: 'tool_call', call_id: 'gw-1', name, input: {} });
    return { result: {} };
  });
  const [model] = await list(shell);
  const options = { toolMode: 1, tools: [{ name: 'look', description: '' }] };
  const ask = () => shell.provideLanguageModelChatResponse(model, [], options, { report() {} }, cancellation().token);
  shell.log.logLevel = vscode.LogLevel.Debug;
  await ask();
  assert.deepEqual(shell.log.entries, []);
  shell.log.logLevel = vscode.LogLevel.Trace;
  await ask();
  assert.deepEqual(shell.log.entries, [
    ['trace', 'm: request 4, reported text, size 6'],
    ['trace', 'm: request 4, reported tool_call gw-1 look, size 2'],
    ['trace', 'm: request 4, reported tool_call gw-1 (6 characters), size 2'],
  ]);
});

test('an error that was sent as text does not fail the turn, but is recorded', async () => {
  const { shell } = provider(({ method }) => {
    if (method === 'models') return models();
    throw errorOfLine({ type: 'error', code: 'rate_limit_exceeded', message: 'Wait', as_text: true });
  });
  const [model] = await list(shell);
  await shell.provideLanguageModelChatResponse(model, [], { toolMode: 1 }, { report() {} }, cancellation().token);
  assert.deepEqual([shell.journal.turns[0].outcome, shell.journal.turns[0].error], ['error', 'Wait (rate_limit_exceeded)']);
});

test('lists are shared while they are fresh and requested again afterwards', async () => {
  const { shell, asked, clock } = provider(models);
  const lists = await Promise.all(Array.from({ length: 8 }, () => list(shell)));
  assert.equal(new Set(lists).size, 1);
  assert.equal(asked.length, 1);
  assert.deepEqual(asked[0].configuration, { endpoint: 'http://one/v1', preset: '', key: 'k', headers: {} });
  clock.now = 5 * 60_000;
  await list(shell);
  assert.equal(asked.length, 2);
});

test('the last good list is used after a failure; without one the failure is reported briefly', async () => {
  let isDown = true;
  const { shell, asked, clock } = provider(() => {
    if (isDown) throw new Error('down');
    return models();
  });
  const error = await list(shell).catch((thrown) => thrown);
  assert.deepEqual([error.message, error.stack], ['down', undefined]);
  await assert.rejects(list(shell), /down/);
  assert.equal(asked.length, 1);
  isDown = false;
  clock.now = 5_000;
  assert.equal((await list(shell)).length, 1);
  isDown = true;
  clock.now = 10 * 60_000;
  assert.equal((await list(shell))[0].id, 'm');
});

test('a refresh by the user gets a current list, which concurrent requests share', async () => {
  const { shell, asked } = provider(models);
  await list(shell);
  const insisting = () => shell.provideLanguageModelChatInformation({ silent: false, configuration: CONFIGURATION });
  const [one, other] = await Promise.all([insisting(), insisting()]);
  assert.equal(one, other);
  assert.deepEqual(asked.map((each) => each.fields), [{}, { refresh: true }]);
  await list(shell);
  assert.equal(asked.length, 2);
});

test('changed models make the editor ask again, but not while it is asking', async () => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const { shell, asked } = provider(() => held);
  let fired = 0;
  shell.onDidChangeLanguageModelChatInformation(() => (fired += 1));
  const first = list(shell);
  shell.refresh();
  assert.equal(fired, 0);
  release(models());
  await first;
  shell.refresh();
  assert.equal(fired, 1);
  await list(shell);
  assert.equal(asked.length, 2);
});

test('a learned limit makes the editor ask again, even while it is asking', async () => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const { shell, asked } = provider(() => held);
  let fired = 0;
  shell.onDidChangeLanguageModelChatInformation(() => (fired += 1));
  const first = list(shell);
  shell.refresh(true);
  assert.equal(fired, 1);
  release(models());
  await Promise.all([first, list(shell)]);
  assert.equal(asked.length, 2);
});

test('learned limits of all endpoints are forgotten and counted', async () => {
  const forgotten = { 'http://one/v1': ['m', 'n'], 'http://two/v1': ['o'] };
  const { shell, asked } = provider(({ method, count }) => (method === 'models' ? models() : { forgotten: forgotten[asked[count - 1].configuration.endpoint] }));
  assert.equal(await shell.forgetLimits(), 0);
  for (const endpoint of Object.keys(forgotten)) await list(shell, { endpoint });
  let fired = 0;
  shell.onDidChangeLanguageModelChatInformation(() => (fired += 1));
  assert.equal(await shell.forgetLimits(), 3);
  assert.equal(fired, 1);
  assert.deepEqual(asked.slice(2).map((each) => each.method), ['forget_limits', 'forget_limits']);
});

test('a model has the fields that the editor reads, without the key and gated fields', () => {
  const information = modelInformation(MODEL, 'digest');
  assert.equal(information.tooltip, 'a\nb');
  assert.deepEqual(information.capabilities, { imageInput: false, toolCalling: true });
  const effort = information.configurationSchema.properties.reasoningEffort;
  assert.deepEqual([effort.enum, effort.default, effort.group], [['default', 'low', 'high'], 'default', 'navigation']);
  assert.equal(information.detail, 'tools · 15');
  for (const gated of ['isDefault', 'requiresAuthorization']) assert.ok(!(gated in information), gated);
  assert.ok(!('pricing' in information));
  assert.equal(modelInformation({ ...MODEL, prices: { input: 1.25, output: 10, cached_input: null } }, 'digest').pricing, '$1.25 in, $10 out');
  assert.ok(!('configurationSchema' in modelInformation({ ...MODEL, efforts: [] }, 'digest')));
});

test('the effort can be in two places, and private options are not sent', () => {
  const rows = [
    [{ modelConfiguration: { reasoningEffort: 'high' } }, { reasoning_effort: 'high' }],
    [{ configuration: { reasoningEffort: 'low' } }, { reasoning_effort: 'low' }],
    [{ modelOptions: { reasoningEffort: 'low' } }, { reasoning_effort: 'low' }],
    [{ modelConfiguration: { reasoningEffort: 'default' } }, {}],
    [{ modelConfiguration: { reasoningEffort: 'high' }, modelOptions: { reasoning_effort: 'low' } }, { reasoning_effort: 'low' }],
    [{ modelOptions: { _conversationId: 'c', _otelTraceContext: {}, temperature: 1 } }, { _conversationId: 'c', temperature: 1 }],
  ];
  for (const [options, json] of rows) assert.deepEqual(optionsToJson(options), json);
});

async function respond(shell, { token = cancellation().token, options = { toolMode: 1 } } = {}) {
  const [model] = await list(shell);
  const parts = [];
  const messages = [{ role: 3, content: [new vscode.LanguageModelTextPart('hi')], name: undefined }];
  await shell.provideLanguageModelChatResponse(model, messages, options, { report: (part) => parts.push(part) }, token);
  return parts;
}

test('a response is requested and its parts are reported in order', async () => {
  const { shell, asked } = provider(({ method, listening }) => {
    if (method === 'models') return models();
    listening.onLine({ type: 'text', value: 'a' });
    listening.onLine({ type: 'from_the_future' });
    listening.onLine({ type: 'tool_call', call_id: 'gw-1', name: 'look', input: {} });
    return { result: { finish: 'tool_calls', response_id: 'r', diagnostics: [] }, usage: { recent: [{ response_id: 'r', input: 3 }] } };
  });
  const options = { toolMode: 2, tools: [{ name: 'look', description: 'd' }], modelOptions: { _conversationId: 'c' } };
  const parts = await respond(shell, { options });
  assert.deepEqual(parts.map((part) => part.constructor.name), ['TextPart', 'ToolCallPart']);
  assert.deepEqual(asked[1].fields, {
    model: 'm',
    messages: [{ role: 3, content: [{ type: 'text', value: 'hi' }] }],
    tools: [{ name: 'look', description: 'd', schema: null }],
    tool_mode: 2,
    options: { _conversationId: 'c' },
  });
  const [turn] = shell.journal.turns;
  assert.deepEqual([turn.outcome, turn.calls, turn.figures.input], ['tool_calls', ['look'], 3]);
});

test('the token cancels the request, and its subscription ends with the turn', async () => {
  const { token, emitter, cancel } = cancellation();
  const { shell } = provider(({ method, listening }) => {
    if (method === 'models') return models();
    cancel();
    assert.ok(listening.signal.aborted);
    throw new Error('the connection was closed');
  });
  assert.deepEqual(await respond(shell, { token }), []);
  assert.equal(emitter.listeners.length, 0);
});

test('a failure is rejected without a stack and recorded', async () => {
  const { shell } = provider(({ method }) => {
    if (method === 'models') return models();
    throw new TypeError('broken');
  });
  const error = await respond(shell).catch((thrown) => thrown);
  assert.deepEqual([error.message, error.stack], ['broken', undefined]);
  assert.deepEqual([shell.journal.turns[0].outcome, shell.journal.turns[0].error], ['error', 'broken (internal)']);
});

test('the message of an endpoint is not logged', async () => {
  const refused = plainError('The request was refused: planted prompt', { name: 'InvalidRequestError', code: 'invalid_request', status: 400 });
  const { shell, clock } = provider(({ method, count }) => {
    if (method === 'models' && count === 1) return models();
    throw refused;
  });
  await assert.rejects(respond(shell), /planted prompt/);
  await shell.provideTokenCount((await list(shell))[0], 'text');
  clock.now = 60 * 60_000;
  await list(shell);
  const brief = 'InvalidRequestError invalid_request 400';
  assert.deepEqual(shell.log.entries, [['error', `m: ${brief}`], ['warn', `tokens are estimated: ${brief}`], ['warn', `models: ${brief}`]]);
});

test('a value that cannot be encoded does not fail a count', async () => {
  const { shell } = provider(models);
  const [model] = await list(shell);
  const circle = {};
  circle.circle = circle;
  const content = [new vscode.LanguageModelToolResultPart('c', [new vscode.LanguageModelPromptTsxPart(circle)])];
  assert.equal(await shell.provideTokenCount(model, { role: 1, content, name: undefined }), 0);
});

test('reloading models keeps the keys', async () => {
  const { shell, asked } = provider(({ method }) => (method === 'models' ? models() : { result: {} }));
  const [model] = await list(shell);
  shell.reload();
  await shell.provideLanguageModelChatResponse(model, [], { toolMode: 1 }, { report() {} }, cancellation().token);
  assert.equal(asked.at(-1).configuration.key, 'k');
  await list(shell);
  assert.deepEqual(asked.map((each) => each.method), ['models', 'respond', 'models']);
});

test('tokens are counted by the host, and estimated if it fails', async () => {
  let isDown = false;
  const { shell } = provider(({ method, fields }) => {
    if (isDown) throw new Error('down');
    return method === 'models' ? models() : { tokens: fields.text ? fields.text.length : 99 };
  });
  const [model] = await list(shell);
  assert.equal(await shell.provideTokenCount(model, 'four'), 4);
  assert.equal(await shell.provideTokenCount(model, { role: 1, content: [], name: undefined }), 99);
  isDown = true;
  assert.ok((await shell.provideTokenCount(model, 'x'.repeat(400))) >= 100);
});

test('a short text is counted once per model; long texts and failures are not cached', async () => {
  let isDown = true;
  const { shell, asked } = provider(({ method, fields }) => {
    if (method === 'models') return models();
    if (isDown) throw new Error('down');
    return { tokens: fields.text.length };
  });
  const [model] = await list(shell);
  const questions = () => asked.filter((each) => each.method === 'count_tokens').length;
  await shell.provideTokenCount(model, 'type');
  isDown = false;
  assert.deepEqual(await Promise.all(['type', 'type', 'object'].map((text) => shell.provideTokenCount(model, text))), [4, 4, 6]);
  assert.equal(questions(), 3);
  assert.equal(await shell.provideTokenCount({ ...model, id: 'other' }, 'type'), 4);
  assert.equal(questions(), 4);
  const long = 'x'.repeat(300);
  await shell.provideTokenCount(model, long);
  await shell.provideTokenCount(model, long);
  assert.equal(questions(), 6);
  for (let count = 0; count < 6000; count += 1) await shell.provideTokenCount(model, String(count));
  assert.equal(shell.counts.known.size, 5000);
});

test('a model whose group was forgotten reports that', async () => {
  const { shell } = provider(models);
  const [model] = await list(shell);
  shell.forget();
  const { token } = cancellation();
  const asking = shell.provideLanguageModelChatResponse(model, [], { toolMode: 1 }, { report() {} }, token);
  await assert.rejects(asking, (error) => error.code === 'NotFound' && /select the model again/.test(error.message));
});

test('groups are named after their endpoint, and two at one endpoint have different names', () => {
  const names = new GroupNames();
  const [one, other] = ['k1', 'k2'].map((apiKey) => readConfiguration({ endpoint: 'https://h:8/v1', apiKey }));
  assert.equal(names.nameOf(one), 'h:8');
  assert.match(names.nameOf(other), /^h:8 \([0-9a-f]{4}\)$/);
  assert.equal(names.nameOf({ ...one }), 'h:8');
  assert.equal(names.nameOf(readConfiguration({ preset: 'vercel' })), 'vercel');
  assert.equal(names.nameOf(readConfiguration({ endpoint: 'no address' })), 'no address');
});
