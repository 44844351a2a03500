// The wire of docs/host.md: one JSON object per line, in whatever pieces the pipe brings.
'use strict';
const { plainError } = require('./errors');

const PROTOCOL = 1;
const MOST = 64 * 1024 * 1024;
const FEED = 10;

/** @typedef {Record<string, any>} Line */

/** Bytes in any pieces, whole lines out. A character may be cut in two, so bytes are joined, not texts. */
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
    for (let end = bytes.indexOf(FEED); end >= 0; end = bytes.indexOf(FEED, start)) {
      this.keep(bytes.subarray(start, end));
      const line = this.take();
      if (line !== '') lines.push(line);
      start = end + 1;
    }
    this.keep(bytes.subarray(start));
    return lines;
  }

  /** What is left when the pipe ends: a whole line whose end is missing. @returns {string[]} */
  end() {
    const line = this.take();
    return line === '' ? [] : [line];
  }

  /** @param {Buffer} piece */
  keep(piece) {
    this.length += piece.length;
    // A line over the bound is skipped to its end and not held (docs/host.md, rules).
    if (this.length > MOST) {
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

/** The object that a line is, or nothing: whoever prints to a pipe must not end a turn. @param {string} text */
function parseLine(text) {
  try {
    const line = JSON.parse(text);
    return line !== null && typeof line === 'object' && !Array.isArray(line) ? /** @type {Line} */ (line) : undefined;
  } catch {
    return undefined;
  }
}

/** A request as a line. Tools and messages are of other extensions: they may hold what JSON has no form for. @param {Line} request */
function writeLine(request) {
  try {
    return `${JSON.stringify(request)}\n`;
  } catch {
    // The engine's own words draw the circle that it found, on many lines.
    throw plainError('A message or a tool holds a value that cannot be sent (a circle, or a BigInt): leave it out, or turn that tool off', {
      code: 'invalid_request',
    });
  }
}

module.exports = { LineSplitter, parseLine, writeLine, PROTOCOL };
