'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { vscode, settings, extension } = require('./fake');
const { Status, statusText, usageMarkdown, short, dollars } = extension('status.js');
const { Journal } = extension('journal.js');
const { turnItem, turnMarkdown } = extension('recent.js');

const totals = { requests: 2, input: 12_345, cached: 1_000, reasoning: 50, output: 678, cost: 0.123, unpriced: 0, is_estimate: false };
const last = { model: 'm', outcome: 'completed', input: 12_000, output: 400, is_estimate: false };
const running = { model: 'm', estimated_input: 12_345, max_input: 128_000, share: 0.0964 };

test('numbers are short', () => {
  const rows = [[0, '0'], [999, '999'], [1000, '1.0k'], [9949, '9.9k'], [12_345, '12k'], [999_600, '1.0M'], [1_234_567, '1.2M'], [undefined, '0']];
  for (const [count, text] of rows) assert.equal(short(count), text);
  const costs = [[null, '–'], [0, '$0.00'], [0.001, '<$0.01'], [1.239, '$1.24']];
  for (const [cost, text] of costs) assert.equal(dollars(cost), text);
});

test('the status bar shows the estimate while a turn runs, and the real figures afterwards', () => {
  const rows = [
    [{}, '$(dashboard) Penstock'],
    [{ running: [running], last, total: totals }, '$(loading~spin) ~12k of 128k (10%)'],
    [{ running: [running, running] }, '$(loading~spin) ~12k of 128k (10%) +1'],
    [{ running: [], last, total: totals }, '$(dashboard) 12k in, 400 out · Σ 13k'],
    [{ last: { ...last, outcome: 'cancelled', is_estimate: true }, total: totals }, '$(dashboard) ~12k in, 400 out · Σ 13k'],
    [{ last: { ...last, outcome: 'failed' }, total: totals }, '$(warning) failed · Σ 13k'],
  ];
  for (const [usage, text] of rows) assert.equal(statusText(usage), text);
});

test('the hover has a row for each model, a sum, and notes', () => {
  const by_model = [{ group: 'a', model: 'x|y', ...totals }, { group: 'b', model: 'x|y', ...totals, cost: null }];
  const text = usageMarkdown({ by_model, total: { ...totals, unpriced: 2, is_estimate: true } });
  const lines = text.split('\n');
  assert.equal(lines[2], '| x\\|y (a) | 2 | 12k | 1.0k | 50 | 678 | $0.12 |');
  assert.equal(lines[3], '| x\\|y (b) | 2 | 12k | 1.0k | 50 | 678 | – |');
  assert.match(lines[4], /^\| \*\*all\*\* \|/);
  assert.match(text, /estimates.*\n\n.*price: 2/s);
  assert.equal(usageMarkdown({}), 'No turns yet.');
});

test('the status bar item is hidden until the first turn, and if it is disabled', (t) => {
  t.after(() => delete settings.statusBar);
  const status = new Status();
  assert.equal(status.item.isShown, false);
  status.update({ running: [], last, total: totals });
  assert.equal(status.item.isShown, true);
  assert.ok(status.item.tooltip instanceof vscode.MarkdownString);
  assert.deepEqual(status.item.tooltip.isTrusted, { enabledCommands: ['penstock.showRecent', 'penstock.showLog'] });
  settings.statusBar = false;
  status.update(status.usage);
  assert.equal(status.item.isShown, false);
});

test('a turn is described in full', () => {
  let now = 1_000;
  const journal = new Journal(() => now);
  const turn = journal.begin('m');
  turn.note({ type: 'text' });
  turn.note({ type: 'tool_call', name: 'look' });
  now = 3_500;
  const figures = { response_id: 'resp_1', input: 10, cached: 4, output: 5, reasoning: 1, cost: 0.5 };
  turn.end({ result: { finish: 'tool_calls', response_id: 'resp_1', diagnostics: [{ code: 'repeated_call', message: 'twice' }] }, usage: { recent: [figures] } });
  assert.deepEqual(turnItem(turn).description, 'tool_calls · 2.5 s · 10 in · 5 out · $0.50');
  const text = turnMarkdown(turn);
  for (const said of ['1 text, 1 tool\\_call', 'including 4 cached', 'penstock explain resp_1', 'repeated\\_call: twice']) assert.ok(text.includes(said), said);
  const failed = journal.begin('m');
  failed.fail(Object.assign(new Error('Wait'), { reason: 'rate_limit_exceeded' }));
  assert.deepEqual([turnItem(failed).label, turnItem(failed).detail], ['$(error) m', 'Wait (rate_limit_exceeded)']);
});

test('hostile texts of an endpoint stay short, and cannot add lines, icons or markup', () => {
  const hostile = `| $(error) [x](command:quit)\n\n# Title\u2028${'y'.repeat(50_000)}`;
  const journal = new Journal();
  const turn = journal.begin('m $(flame)');
  turn.note({ type: 'tool_call', name: hostile });
  turn.end({ result: { finish: hostile, response_id: hostile, diagnostics: Array.from({ length: 500 }, () => ({ code: hostile, message: hostile })) } });
  const failed = journal.begin('m');
  failed.fail(Object.assign(new Error(hostile), { reason: hostile }));
  for (const { label, description, detail } of [turn, failed].map(turnItem)) {
    const shown = [label.replace(/^\$\(\w+\) /, ''), description, detail].join(' ');
    assert.ok(!shown.includes('$(') && !/[\n\u2028]/.test(shown) && shown.length < 600, shown);
  }
  for (const page of [turn, failed].map(turnMarkdown)) {
    assert.ok(page.split('\n').every((line) => line.length < 1_000));
    assert.equal(page.split('\n').filter((line) => line.startsWith('# ')).length, 1);
    assert.ok(!page.includes('](') && !page.includes(' $('));
  }
  assert.equal(turn.diagnostics.length, 100);
});

test('only the newest turns are kept', () => {
  const journal = new Journal();
  for (let count = 0; count < 60; count += 1) journal.begin(String(count));
  assert.deepEqual([journal.turns.length, journal.turns[0].model], [50, '59']);
});
