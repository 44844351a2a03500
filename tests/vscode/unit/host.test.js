'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { extension, log, scripted } = require('./fake');
const { HostProcess } = extension('host.js');
const { Backend } = extension('backend.js');

const CONFIGURATION = { endpoint: 'http://127.0.0.1:9/v1', preset: '', key: 'secret', headers: {} };

async function started(t, mode = 'good', options = {}) {
  const host = await HostProcess.start(scripted(mode), { log: log(), ...options });
  t.after(() => host.dispose());
  return host;
}

const respond = (host, model, listening) => host.request('respond', { model, messages: [] }, listening);

test('lines of concurrent turns reach their turn, in order', async (t) => {
  const host = await started(t);
  const turns = Array.from({ length: 20 }, async () => {
    const texts = [];
    await respond(host, 'words', { onLine: (line) => texts.push(line.value) });
    return texts.join('');
  });
  assert.deepEqual(new Set(await Promise.all(turns)), new Set(['one two drei €']));
  assert.equal(host.pending.size, 0);
});

test('a burst of lines is complete', async (t) => {
  const host = await started(t);
  const seen = [];
  await respond(host, 'burst', { onLine: (line) => seen.push(Number(line.value)) });
  assert.deepEqual(seen, [...Array(5000).keys()]);
});

test('cancel is sent once, and nothing comes after it', async (t) => {
  const host = await started(t);
  const aborter = new AbortController();
  const seen = [];
  const done = await respond(host, 'endless', {
    signal: aborter.signal,
    onLine: (line) => {
      seen.push(line.value);
      aborter.abort();
    },
  });
  assert.equal(done.result.finish, 'cancelled');
  const { asked } = await host.request('asked', {}); // the late lines have been read by now
  assert.deepEqual(asked.map((each) => each.method), ['respond', 'cancel', 'asked']);
  assert.equal(asked[1].request, asked[0].id);
  assert.deepEqual(seen, ['first']);
});

test('a request that is already cancelled is not sent', async (t) => {
  const host = await started(t);
  const done = await respond(host, 'words', { signal: AbortSignal.abort() });
  assert.equal(done.result.finish, 'cancelled');
  assert.deepEqual((await host.request('asked', {})).asked.map((each) => each.method), ['asked']);
});

test('an error line rejects without a stack, and the parts before it stay', async (t) => {
  const host = await started(t);
  const seen = [];
  const error = await respond(host, 'failing', { onLine: (line) => seen.push(line.value) }).catch((thrown) => thrown);
  assert.deepEqual(seen, ['kept']);
  assert.deepEqual([error.name, error.code, error.reason, error.message], ['RateLimitError', 'Blocked', 'rate_limit_exceeded', 'Wait 3 s']);
  assert.deepEqual([error.status, error.retryAfter, error.stack], [429, 3, undefined]);
});

test('a part that cannot be reported ends its own turn only', async (t) => {
  const host = await started(t);
  const broken = respond(host, 'endless', {
    onLine: () => {
      throw new TypeError('no such class');
    },
  });
  await assert.rejects(broken, /no such class/);
  assert.deepEqual((await host.request('count_tokens', { text: 'four' })).tokens, 4);
});

test('a crash rejects the running requests and reports the exit code', async (t) => {
  const host = await started(t);
  const error = await respond(host, 'crashing').catch((thrown) => thrown);
  assert.match(error.message, /exit code 7: boom: no memory/);
  assert.deepEqual([error.stack, error.code, host.isAlive], [undefined, 'host_ended', false]);
  await assert.rejects(respond(host, 'words'), /has stopped/);
});

test('a process that does not start reports the reason', async () => {
  const missing = { file: '/nowhere/python', arguments: [], label: 'nowhere' };
  await assert.rejects(HostProcess.start(missing, { log: log() }), /ENOENT/);
  await assert.rejects(HostProcess.start(scripted('dies'), { log: log() }), /No module named penstock/);
  await assert.rejects(HostProcess.start(scripted('other-protocol'), { log: log() }), /uses protocol 2 instead of 1: update this extension/);
  await assert.rejects(HostProcess.start(scripted('silent'), { log: log(), startTimeout: 1 }), /did not answer/);
});

test('an invalid line is logged and ends nothing', async (t) => {
  const options = { log: log() };
  await started(t, 'good', options);
  assert.ok(options.log.entries.some(([level, text]) => level === 'warn' && text === 'not a valid protocol line: 27 characters'));
});

test('an answer that a crash has cut off is not logged', async (t) => {
  const options = { log: log() };
  const host = await started(t, 'good', options);
  await assert.rejects(respond(host, 'halfway'), /exit code 9/);
  assert.equal(options.log.entries.filter(([, text]) => text.startsWith('not a valid protocol line')).length, 2);
  assert.ok(!JSON.stringify(options.log.entries).includes('planted'));
});

test('a notification that cannot be handled stops neither the turn nor the reader', { timeout: 20_000 }, async (t) => {
  const onNotification = () => {
    throw new TypeError('no figures');
  };
  const host = await started(t, 'good', { onNotification });
  await respond(host, 'bad-notification');
  assert.ok(host.log.entries.some(([level, text]) => level === 'error' && text === 'the notification usage_changed could not be handled: TypeError internal'));
});

test('a process whose output cannot be read is killed, and its requests fail', { timeout: 20_000 }, async (t) => {
  const host = await started(t);
  const waiting = respond(host, 'endless', { onLine: () => host.child.stdout.destroy(new Error('broken pipe')) });
  await assert.rejects(waiting, /has stopped \(signal SIGKILL/);
});

test('a value that JSON cannot express is rejected with one sentence', async (t) => {
  const host = await started(t);
  const aborter = new AbortController();
  const circle = {};
  circle.circle = circle;
  for (const value of [10n, circle]) {
    const error = await host.request('respond', { model: 'words', value }, { signal: aborter.signal }).catch((thrown) => thrown);
    assert.deepEqual([error.reason, error.stack, error.message.includes('\n')], ['invalid_request', undefined, false]);
  }
  assert.equal(host.pending.size, 0);
});

test('the folder that Python is started in is not searched for modules', async (t) => {
  const { environment } = await (await started(t)).request('asked', {});
  assert.equal(environment.PYTHONSAFEPATH, '1');
});

test('the process ends when it is disposed of', async () => {
  const host = await HostProcess.start(scripted('good'), { log: log() });
  await host.dispose();
  assert.deepEqual([host.isAlive, host.reason], [false, 'exit code 0']);
});

function backend(t, modes) {
  const starts = [];
  const door = new Backend({
    log: log(),
    settings: () => ({ thinking: 'part', ...door.chosen }),
    start: () => {
      const mode = modes[Math.min(starts.length, modes.length - 1)];
      starts.push(mode);
      return HostProcess.start(scripted(mode), { log: log() });
    },
  });
  door.chosen = {};
  t.after(() => door.stop());
  return { door, starts };
}

const methods = async (door) => (await door.host.request('asked', {})).asked.map((each) => each.method);

test('concurrent requests share one start and one configuration', async (t) => {
  const { door, starts } = backend(t, ['good']);
  await Promise.all(Array.from({ length: 8 }, () => door.request(CONFIGURATION, 'models', {})));
  assert.equal(starts.length, 1);
  const asked = await methods(door);
  assert.equal(asked.filter((method) => method === 'configure').length, 1);
  assert.equal(asked[0], 'configure');
});

test('after a crash the next request starts another process and configures it', async (t) => {
  const { door, starts } = backend(t, ['good']);
  await assert.rejects(door.request(CONFIGURATION, 'respond', { model: 'crashing' }), /has stopped/);
  await door.request(CONFIGURATION, 'respond', { model: 'words' });
  assert.equal(starts.length, 2);
  assert.deepEqual(await methods(door), ['configure', 'respond', 'asked']);
});

test('a process that starts after a crash is stopped too', async (t) => {
  const { door } = backend(t, ['good']);
  const first = await door.session();
  first.child.kill('SIGKILL');
  await first.ended;
  const second = door.session();
  await door.stop();
  assert.deepEqual([(await second).isAlive, door.host], [false, undefined]);
});

test('the account does not depend on the order of requests', async (t) => {
  const accounts = [];
  for (const keys of [['k1', 'k2'], ['k2', 'k1']]) {
    const { door } = backend(t, ['good']);
    for (const key of keys) await door.request({ ...CONFIGURATION, key }, 'models', {});
    const { asked } = await door.host.request('asked', {});
    accounts.push(Object.fromEntries(asked.filter((each) => each.method === 'configure').map(({ key, account }) => [key, account])));
  }
  const [today, tomorrow] = accounts;
  assert.deepEqual(today, tomorrow);
  assert.match(today.k1, /^[0-9a-f]{16}$/);
  assert.notEqual(today.k1, today.k2);
});

test('a log line of the process has the same level in our channel, and trace is the lowest', async (t) => {
  const host = await started(t);
  host.log.entries.length = 0;
  for (const level of ['trace', 'debug', 'info', 'warning', 'error', 'critical', 'odd']) {
    host.writeLog(JSON.stringify({ time: 'now', level, message: 'response.output_text.delta', id: 3, index: 0 }));
  }
  const text = 'response.output_text.delta {"id":3,"index":0}';
  assert.deepEqual(host.log.entries, ['trace', 'debug', 'info', 'warn', 'error', 'error', 'info'].map((level) => [level, text]));
});

test('a changed setting is sent for the same group, before its next request', async (t) => {
  const { door } = backend(t, ['good']);
  await door.request(CONFIGURATION, 'models', {});
  door.chosen = { citations: 'end', system_role: 'developer' };
  for (let count = 0; count < 2; count += 1) await door.request(CONFIGURATION, 'models', {});
  const { asked } = await door.host.request('asked', {});
  const configured = asked.filter((each) => each.method === 'configure');
  assert.deepEqual(configured.map((each) => [each.group, each.thinking, each.citations, each.system_role, each.key]), [
    ['127.0.0.1:9', 'part', undefined, undefined, 'secret'],
    ['127.0.0.1:9', 'part', 'end', 'developer', 'secret'],
  ]);
});
