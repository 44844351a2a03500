'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { extension } = require('./fake');
const { LineSplitter, parseLine } = extension('lines.js');

const TEXT = '{"a":"€ 😀"}\n\r\n{"b":2}\r\n{"c":"no end"}';
const LINES = ['{"a":"€ 😀"}', '{"b":2}', '{"c":"no end"}'];

const split = (chunks) => {
  const splitter = new LineSplitter();
  return [...chunks.flatMap((chunk) => splitter.feed(chunk)), ...splitter.end()];
};

test('lines do not depend on the chunks', () => {
  const bytes = Buffer.from(TEXT);
  for (let size = 1; size <= bytes.length; size += 1) {
    const chunks = [];
    for (let start = 0; start < bytes.length; start += size) chunks.push(bytes.subarray(start, start + size));
    assert.deepEqual(split(chunks), LINES, `pieces of ${size}`);
  }
  for (let first = 0; first <= bytes.length; first += 1) {
    assert.deepEqual(split([bytes.subarray(0, first), bytes.subarray(first)]), LINES, `cut at ${first}`);
  }
});

test('a line over the limit is skipped, and the next one is not', () => {
  const splitter = new LineSplitter();
  const megabytes = Buffer.alloc(1024 * 1024, 'x');
  for (let count = 0; count < 65; count += 1) assert.deepEqual(splitter.feed(megabytes), []);
  assert.equal(splitter.pieces.length, 0);
  assert.deepEqual(splitter.feed(Buffer.from('tail\n{"d":1}\n')), ['{"d":1}']);
});

test('only objects are lines', () => {
  for (const junk of ['', 'Traceback', '[1]', 'null', '3', '{"a":']) assert.equal(parseLine(junk), undefined);
  assert.deepEqual(parseLine('{"a":1}'), { a: 1 });
});
