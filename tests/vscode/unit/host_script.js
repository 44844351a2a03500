// A scripted host (docs/host.md) that fails on demand. Started as `host_script.js MODE vscode-host`.
'use strict';
const readline = require('node:readline');

const mode = process.argv[2];
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const waiting = new Map();
const asked = [];
const limits = mode === 'learned' ? ['m'] : [];

/** What each model does. */
const MODELS = {
  words: (id) => {
    for (const value of ['one ', 'two ', 'drei €']) say({ id, type: 'text', value });
    say({ id, type: 'done', result: { finish: 'stop', response_id: 'resp_1' }, usage: { recent: [{ response_id: 'resp_1', input: 7 }] } });
  },
  used: (id) => {
    say({ type: 'usage_changed', usage: { last: { outcome: 'completed' }, total: {} } });
    MODELS.words(id);
  },
  refused: (id) => {
    say({ type: 'usage_changed', usage: { last: { outcome: 'failed' }, total: {} } });
    MODELS.failing(id);
  },
  endless: (id) => {
    say({ id, type: 'text', value: 'first' });
    waiting.set(id, () => {
      for (let count = 0; count < 3; count += 1) say({ id, type: 'text', value: 'late' });
      say({ id, type: 'done', result: { finish: 'cancelled' } });
    });
  },
  failing: (id) => {
    say({ id, type: 'text', value: 'kept' });
    say({ id, type: 'error', code: 'rate_limit_exceeded', kind: 'Blocked', name: 'RateLimitError', message: 'Wait 3 s', status: 429, retry_after: 3 });
  },
  crashing: (id) => {
    say({ type: 'usage_changed', usage: { running: [{ estimated_input: 1200, max_input: 10_000, share: 0.12 }] } });
    say({ id, type: 'text', value: 'half' });
    process.stderr.write('boom: no memory\n', () => process.exit(7));
  },
  halfway: (id) => {
    process.stdout.write(`{"id":${id},"type":"text","value":"planted answer`, () => process.exit(9));
  },
  learning: (id) => {
    limits.push('learning');
    say({ type: 'models_changed', group: '127.0.0.1:9', reason: 'limits' });
    say({ id, type: 'error', code: 'context_length_exceeded', kind: '', name: 'ContextOverflowError', message: 'too long' });
  },
  'bad-notification': (id) => {
    say({ type: 'usage_changed' });
    MODELS.words(id);
  },
  burst: (id) => {
    for (let count = 0; count < 5000; count += 1) say({ id, type: 'text', value: String(count) });
    say({ id, type: 'done', result: { finish: 'stop' } });
  },
};

/** @type {Record<string, (request: any) => void>} */
const METHODS = {
  configure: ({ id, group }) => {
    say({ id, type: 'done', endpoint: 'x' });
    say({ type: 'models_changed', group });
  },
  models: ({ id }) => say({ id, type: 'done', models: [{ id: 'm', name: 'M', max_input_tokens: 10, max_output_tokens: 5 }] }),
  respond: ({ id, model }) => MODELS[model](id),
  cancel: ({ id, request }) => {
    waiting.get(request)?.();
    waiting.delete(request);
    say({ id, type: 'done' });
  },
  count_tokens: ({ id, text }) => say({ id, type: 'done', tokens: text.length }),
  forget_limits: ({ id }) => say({ id, type: 'done', forgotten: limits.splice(0) }),
  // Not in the protocol: the requests so far, for tests.
  asked: ({ id }) => say({ id, type: 'done', asked, environment: process.env }),
};

if (mode === 'dies') {
  process.stderr.write('No module named penstock\n', () => process.exit(1));
} else if (mode === 'other-protocol') {
  say({ type: 'ready', protocol: 2, version: '9.0' });
} else if (mode === 'silent') {
  process.stdin.resume();
} else {
  process.stdout.write('this is not a protocol line\n');
  say({ type: 'ready', protocol: 1, version: '0.1' });
}

readline.createInterface({ input: process.stdin }).on('line', (text) => {
  const request = JSON.parse(text);
  asked.push(request);
  METHODS[request.method]?.(request);
});
process.stdin.on('end', () => process.exit(0));
