// The extension with the real Python backend, over both transports. Started by test_extension.py with an endpoint.
'use strict';
const assert = require('node:assert/strict');
const os = require('node:os');
const test = require('node:test');
const { vscode, settings, extension, log, cancellation } = require('./fake');
const { Backend } = extension('backend.js');
const { plainError } = extension('errors.js');
const { Journal } = extension('journal.js');
const { Provider } = extension('provider.js');
const { startHost } = extension('python.js');
const { statusText } = extension('status.js');

const { PENSTOCK_ENDPOINT: endpoint, PENSTOCK_PYTHON: python } = process.env;
const skip = endpoint && python ? false : 'started by test_extension.py, which has an endpoint';

/** How to reach the Python backend. */
const TRANSPORTS = {
  process: (options) => startHost(os.tmpdir(), options),
  gateway: () => Promise.reject(plainError('none', { code: 'python_not_found' })),
};

async function opened(t, transport) {
  settings.pythonPath = python;
  const heard = { usage: undefined };
  const options = { log: log(), onNotification: (line) => (heard.usage = line.usage ?? heard.usage) };
  const backend = new Backend({
    log: log(),
    settings: () => ({ thinking: 'part', citations: 'end', errors_as_text: false, system_role: 'system' }),
    start: () => TRANSPORTS[transport](options),
    onRemoteUsage: (usage) => (heard.usage = usage),
  });
  t.after(() => backend.stop());
  const provider = new Provider({ backend, log: log(), journal: new Journal() });
  const models = await provider.provideLanguageModelChatInformation({ silent: true, configuration: { endpoint } });
  return { provider, heard, model: models.find((each) => each.id === 'demo') };
}

async function ask({ provider, model }, text, { options = { toolMode: 1 }, cancelAt = 0 } = {}) {
  const { token, cancel } = cancellation();
  const parts = [];
  const report = (part) => {
    parts.push(part);
    if (parts.length === cancelAt) cancel();
  };
  const messages = [{ role: 1, content: [new vscode.LanguageModelTextPart(text)], name: undefined }];
  const error = await provider.provideLanguageModelChatResponse(model, messages, options, { report }, token).catch((thrown) => thrown);
  return { parts, error };
}

const textOf = (parts) => parts.filter((part) => part instanceof vscode.LanguageModelTextPart).map((part) => part.value).join('');

for (const transport of Object.keys(TRANSPORTS)) {
  test(`${transport}: the demo is listed with its limits and efforts`, { skip }, async (t) => {
    const { model } = await opened(t, transport);
    assert.ok(model.maxInputTokens > 1000 && model.capabilities.toolCalling === true);
    assert.deepEqual(model.configurationSchema.properties.reasoningEffort.enum, ['default', 'low', 'medium', 'high']);
  });

  test(`${transport}: text, then usage, then the marker`, { skip }, async (t) => {
    const shell = await opened(t, transport);
    const { parts, error } = await ask(shell, 'count from 1 to 5');
    assert.equal(error, undefined);
    assert.match(textOf(parts), /1.*2.*3.*4.*5/s);
    assert.deepEqual(parts.filter((part) => part.mimeType).map((part) => part.mimeType), ['usage', 'stateful_marker']);
    const usage = JSON.parse(Buffer.from(parts.at(-2).data).toString());
    const [turn] = shell.provider.journal.turns;
    assert.deepEqual([turn.outcome, turn.figures.output], ['stop', usage.completion_tokens]);
  });

  test(`${transport}: thinking and a tool call are separate parts`, { skip }, async (t) => {
    const shell = await opened(t, transport);
    const thought = await ask(shell, 'think about it');
    assert.ok(thought.parts.some((part) => part instanceof vscode.LanguageModelThinkingPart));
    const tools = [{ name: 'weather', description: 'The weather in a city', inputSchema: { type: 'object', properties: { city: { type: 'string' } } } }];
    const called = await ask(shell, 'What is the weather in Bern?', { options: { toolMode: 2, tools } });
    const calls = called.parts.filter((part) => part instanceof vscode.LanguageModelToolCallPart);
    assert.deepEqual(calls.map((call) => [call.name, typeof call.input]), [['weather', 'object']]);
  });

  test(`${transport}: nothing is reported after a cancel`, { skip }, async (t) => {
    const { parts, error } = await ask(await opened(t, transport), 'count from 1 to 200', { cancelAt: 3 });
    assert.deepEqual([parts.length, error], [3, undefined]);
  });

  test(`${transport}: a failure is one sentence, and the parts before it stay`, { skip }, async (t) => {
    const { parts, error } = await ask(await opened(t, transport), 'fail in the middle');
    assert.ok(parts.length > 0);
    assert.equal(error.stack, undefined);
    assert.ok(error.message.length > 10 && !/[{\n]/.test(error.message), error.message);
  });

  test(`${transport}: tokens are counted`, { skip }, async (t) => {
    const { provider, model } = await opened(t, transport);
    // The counter learns from the endpoint's usage, so the number may change a little.
    const [few, many] = await Promise.all([1, 100].map((times) => provider.provideTokenCount(model, 'four words are here '.repeat(times))));
    assert.ok(few >= 2 && few <= 8 && many >= 200 && many <= 800, `${few}, ${many}`);
  });
}

test('the status bar has figures that it can show', { skip }, async (t) => {
  const shell = await opened(t, 'gateway');
  await ask(shell, 'count from 1 to 3');
  assert.match(statusText(shell.heard.usage), /^\$\(dashboard\) \d+ in, \d+ out · Σ \d+$/);
});
