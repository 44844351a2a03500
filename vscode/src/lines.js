// The line protocol of docs/host.md: one JSON object per line, split into arbitrary chunks by the pipe.
'use strict';
const { plainError } = require('./errors');

const PROTOCOL = 1;
const MAX_LENGTH = 64 * 1024 * 1024;
const LINE_FEED = 10;

/** @typedef {Record<string, any>} Line */

/** Splits chunks of bytes into lines. A character may be split between chunks, so bytes are joined, not strings. */
class LineSplitter {
  constructor() {
    /** @type {Buffer[]} */
    this.pieces = [];
    this.length = 0;
    this.skipping = false;
  }

  /** @param {Uint8Array} chunk @returns {string[]} */
  feed(chunk) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    /** @type {string[]} */
    const lines = [];
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      this.append(bytes.subarray(start, end));
      const line = this.take();
      if (line !== '') lines.push(line);
      start = end + 1;
    }
    this.append(bytes.subarray(start));
    return lines;
  }

  /** Returns the rest when the pipe ends: a last line without a line feed. @returns {string[]} */
  end() {
    const line = this.take();
    return line === '' ? [] : [line];
  }

  /** @param {Buffer} piece */
  append(piece) {
    this.length += piece.length;
    // A line over the limit is skipped and not kept in memory (docs/host.md, rules).
    if (this.length > MAX_LENGTH) {
      this.skipping = true;
      this.pieces = [];
    } else if (piece.length > 0) this.pieces.push(piece);
  }

  take() {
    const line = this.skipping ? '' : Buffer.concat(this.pieces).toString('utf8').trim();
    this.pieces = [];
    this.length = 0;
    this.skipping = false;
    return line;
  }
}

/** Parses a line as an object. Returns undefined for anything else: stray output must not end a turn. @param {string} text */
function parseLine(text) {
  try {
    const line = JSON.parse(text);
    return line !== null && typeof line === 'object' && !Array.isArray(line) ? /** @type {Line} */ (line) : undefined;
  } catch {
    return undefined;
  }
}

/** Encodes a request as a line. Tools and messages of other extensions may contain values that JSON cannot express. @param {Line} request */
function writeLine(request) {
  try {
    return `${JSON.stringify(request)}\n`;
  } catch {
    // The engine's own message describes the cycle on many lines.
    throw plainError('A message or a tool contains a value that cannot be sent (a cycle or a BigInt): remove it, or turn off that tool', {
      code: 'invalid_request',
    });
  }
}

module.exports = { LineSplitter, parseLine, writeLine, PROTOCOL };
