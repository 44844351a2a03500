'use strict';
const assert = require('node:assert/strict');
const http = require('node:http');
const test = require('node:test');
const { extension, log } = require('./fake');
const { Backend } = extension('backend.js');
const { plainError } = extension('errors.js');
const { RemoteGateway, partsUrl } = extension('remote.js');

/** A gateway that answers with `answer`, and a backend without Python that uses it. */
async function withoutPython(t, answer) {
  const requests = [];
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      requests.push({ path: request.url, headers: request.headers, body: JSON.parse(body) });
      answer(response, request);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  const heard = { missing: 0, usage: [], overflows: 0, starts: 0, now: 0 };
  const door = new Backend({
    log: log(),
    settings: () => ({ thinking: 'part', citations: 'end' }),
    now: () => heard.now,
    start: () => {
      heard.starts += 1;
      return Promise.reject(plainError('no Python', { code: 'python_not_found' }));
    },
    onMissing: () => (heard.missing += 1),
    onRemoteUsage: (usage) => heard.usage.push(usage),
    onRemoteOverflow: () => (heard.overflows += 1),
  });
  const endpoint = `http://127.0.0.1:${server.address().port}/v1`;
  return { door, requests, heard, configuration: { endpoint, preset: '', key: 'k', headers: { 'x-one': '1' } } };
}

const line = (fields) => `${JSON.stringify({ id: 1, ...fields })}\n`;

test('the URL is completed', () => {
  for (const given of ['http://h', 'http://h/', 'http://h/v1', 'http://h/v1//']) assert.equal(partsUrl(given).href, 'http://h/v1/parts');
  assert.equal(partsUrl('http://h/v1?version=2').href, 'http://h/v1/parts?version=2');
});

test('the same lines arrive over HTTP, in any chunks', async (t) => {
  const lines = Buffer.from(line({ type: 'text', value: 'a €' }) + line({ type: 'done', result: {}, usage: { last: 1 } }));
  const { door, requests, heard, configuration } = await withoutPython(t, (response) => {
    for (const byte of lines) response.write(Buffer.from([byte]));
    response.end();
  });
  const seen = [];
  await door.request(configuration, 'respond', { model: 'm' }, { onLine: (each) => seen.push(each.value) });
  assert.deepEqual(seen, ['a €']);
  assert.deepEqual([heard.missing, heard.usage], [1, [{ last: 1 }]]);
  const [{ path, headers, body }] = requests;
  assert.deepEqual([path, headers.authorization, headers['x-one']], ['/v1/parts', 'Bearer k', '1']);
  assert.deepEqual(body, { id: 1, method: 'respond', thinking: 'part', citations: 'end', model: 'm' });
});

test('Python is not searched for with every request, but again after a while or a restart', async (t) => {
  const { door, heard, configuration } = await withoutPython(t, (response) => response.end(line({ type: 'done', tokens: 1 })));
  const count = () => door.request(configuration, 'count_tokens', { text: 'a' });
  await count();
  await count();
  assert.equal(heard.starts, 1);
  heard.now = 60_000;
  await count();
  assert.equal(heard.starts, 2);
  await door.stop();
  await count();
  assert.equal(heard.starts, 3);
});

test('a refused conversation is reported, because the gateway may have learned the limit', async (t) => {
  const errors = ['context_length_exceeded', 'rate_limit_exceeded'].flatMap((code) => [
    (response) => response.writeHead(400).end(JSON.stringify({ error: { code, message: 'no' } })),
    (response) => response.end(line({ type: 'error', code, message: 'no' })),
  ]);
  const { door, heard, configuration } = await withoutPython(t, (response) => errors.shift()(response));
  for (const expected of [1, 2, 2, 2]) {
    await assert.rejects(door.request(configuration, 'respond', { model: 'm' }), /no/);
    assert.equal(heard.overflows, expected);
  }
});

test('cancel closes the connection and nothing comes after it', async (t) => {
  const aborter = new AbortController();
  let closed;
  const isClosed = new Promise((resolve) => (closed = resolve));
  const { door, configuration } = await withoutPython(t, (response) => {
    response.on('close', closed);
    response.write(line({ type: 'text', value: 'first' }) + line({ type: 'text', value: 'late' }));
  });
  const seen = [];
  const done = await door.request(configuration, 'respond', {}, {
    signal: aborter.signal,
    onLine: (each) => {
      seen.push(each.value);
      aborter.abort();
    },
  });
  assert.deepEqual([seen, done.result.finish], [['first'], 'cancelled']);
  await isClosed;
});

const FAILURES = [
  ['an error line', (response) => response.end(line({ type: 'error', message: 'Full', code: 'x', kind: 'Blocked' })), /^Full$/, 'Blocked'],
  ['no gateway', (response) => response.writeHead(404).end('<html>'), /not a Penstock gateway/, 'NotFound'],
  ['a refusal', (response) => response.writeHead(401).end('{"error":{"message":"wrong key","code":"k"}}'), /wrong key/, 'NoPermissions'],
  ['a refusal that quotes the key', (response) => response.writeHead(401).end(JSON.stringify({ error: { message: `the-secret-key is\nwrong ${'x'.repeat(9000)}` } })), /^\[key\] is wrong x{285}…$/, 'NoPermissions'],
  ['a break', (response) => response.end(line({ type: 'text', value: 'a' })), /in the middle/, 'stream_truncated'],
  ['a torn connection', (response) => response.write(line({ type: 'text', value: 'a' }), () => response.socket.destroy()), /in the middle/, 'stream_truncated'],
  ['nobody', (response) => response.socket.destroy(), /is the gateway running/, 'NotFound'],
];
for (const [name, answer, message, code] of FAILURES) {
  test(`${name} is a plain error`, async (t) => {
    const { door, configuration } = await withoutPython(t, answer);
    const error = await door.request({ ...configuration, key: 'the-secret-key' }, 'models', {}).catch((thrown) => thrown);
    assert.match(error.message, message);
    assert.deepEqual([error.code, error.stack], [code, undefined]);
  });
}

test('the settings are sent with a turn and with nothing else', async (t) => {
  const { door, requests, configuration } = await withoutPython(t, (response) => response.end(line({ type: 'done', models: [] })));
  for (const method of ['models', 'count_tokens', 'usage', 'respond']) await door.request(configuration, method, {});
  assert.deepEqual(requests.map(({ body }) => [body.thinking, body.citations]), [[undefined, undefined], [undefined, undefined], [undefined, undefined], ['part', 'end']]);
});

test('a configured header overrides the key, in upper or lower case', async (t) => {
  const { door, requests, configuration } = await withoutPython(t, (response) => response.end(line({ type: 'done' })));
  await door.request({ ...configuration, headers: { Authorization: 'Bearer other' } }, 'models', {});
  assert.equal(requests[0].headers.authorization, 'Bearer other');
});

test('an error contains no secret of a URL or a header', async () => {
  const given = { endpoint: 'http://127.0.0.1:1/v1', preset: '', key: '', headers: {} };
  const rows = [
    [{ ...given, endpoint: 'http://user:secret@127.0.0.1:1/v1' }, /user name or password/],
    [{ ...given, endpoint: 'http://127.0.0.1:1/v1?key=secret' }, /^http:\/\/127\.0\.0\.1:1\/v1\/parts cannot be reached/],
    [{ ...given, endpoint: 'secret' }, /not a valid URL/],
    [{ ...given, key: 'secret\n\u20ac' }, /invalid character/],
  ];
  for (const [configuration, message] of rows) {
    const asking = async () => new RemoteGateway(configuration).request('models', {});
    const error = await asking().catch((thrown) => thrown);
    assert.match(error.message, message);
    assert.deepEqual([error.stack, error.message.includes('secret')], [undefined, false]);
  }
});

test('an error of a listener is not reported as a connection error', async (t) => {
  const { door, configuration } = await withoutPython(t, (response) => response.end(line({ type: 'text', value: 'a' }) + line({ type: 'done' })));
  const onLine = () => {
    throw new TypeError('no such class');
  };
  await assert.rejects(door.request(configuration, 'respond', {}, { onLine }), /^TypeError: no such class$/);
});

const timeout = (code) => Object.assign(new TypeError('fetch failed'), { cause: { code } });
const SILENCES = {
  'before the first line': async () => {
    throw timeout('UND_ERR_HEADERS_TIMEOUT');
  },
  'after a line': async () => new Response(new ReadableStream({ pull: (stream) => stream.error(timeout('UND_ERR_BODY_TIMEOUT')) })),
};
for (const [when, fetching] of Object.entries(SILENCES)) {
  test(`a gateway that sends nothing ${when} is a timeout`, async (t) => {
    t.mock.method(globalThis, 'fetch', fetching);
    const gateway = new RemoteGateway({ endpoint: 'http://h/v1', preset: '', key: '', headers: {} });
    const error = await gateway.request('respond', {}).catch((thrown) => thrown);
    assert.match(error.message, /sent nothing for too long: try again/);
    assert.deepEqual([error.code, error.stack], ['timeout', undefined]);
  });
}

test('a preset needs Python', async (t) => {
  const { door, configuration } = await withoutPython(t, (response) => response.end());
  await assert.rejects(door.request({ ...configuration, endpoint: '', preset: 'vercel' }, 'models', {}), /no Python/);
});

test('an older gateway does not stop that the limits of the others are forgotten', async (t) => {
  const { door, requests, configuration } = await withoutPython(t, (response, request) => {
    if (request.headers['x-one'] === 'old') response.writeHead(400).end(JSON.stringify({ error: { message: 'expected one of models, respond' } }));
    else response.end(line({ type: 'done', forgotten: ['m', 'n'] }));
  });
  const old = { ...configuration, headers: { 'x-one': 'old' } };
  const preset = { endpoint: '', preset: 'vercel', key: '', headers: {} };
  const forgotten = await door.forgetLimits([old, preset, configuration]);
  assert.deepEqual(forgotten, { count: 2, unreachable: [door.names.nameOf(old), 'vercel'] });
  assert.deepEqual(requests.map(({ body }) => body.method), ['forget_limits', 'forget_limits']);
  await assert.rejects(door.forgetLimits([]), /no Python/);
});
