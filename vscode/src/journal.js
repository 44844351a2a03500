// A record of the last turns of this window, for "Show Recent Turns".
'use strict';
const { oneLine } = require('./errors');

const MAX_TURNS = 50;
const MAX_DIAGNOSTICS = 100;

/** @typedef {import('./lines').Line} Line */

class Turn {
  /** @param {string} model @param {() => number} now */
  constructor(model, now) {
    this.now = now;
    this.model = model;
    this.began = now();
    this.seconds = 0;
    this.outcome = 'running';
    this.responseId = '';
    this.error = '';
    /** @type {Record<string, number>} */
    this.counts = {};
    /** @type {string[]} */
    this.calls = [];
    /** @type {Line[]} */
    this.diagnostics = [];
    /** @type {Line | undefined} */
    this.figures = undefined;
  }

  /** @param {Line} line */
  note(line) {
    this.counts[line.type] = (this.counts[line.type] ?? 0) + 1;
    if (line.type === 'tool_call') this.calls.push(oneLine(line.name, 80));
  }

  /** @param {Line} done */
  end(done) {
    this.seconds = (this.now() - this.began) / 1000;
    this.outcome = oneLine(done.result?.finish, 80) || 'stop';
    this.responseId = done.result?.response_id || '';
    const diagnostics = Array.isArray(done.result?.diagnostics) ? done.result.diagnostics : [];
    this.diagnostics = diagnostics.slice(0, MAX_DIAGNOSTICS).map((/** @type {Line} */ { code, message }) => ({ code: oneLine(code, 80), message: oneLine(message) }));
    const recent = Array.isArray(done.usage?.recent) ? done.usage.recent : [];
    this.figures = recent.find((/** @type {Line} */ each) => each.response_id && each.response_id === this.responseId);
  }

  /** @param {import('./errors').PlainError} error */
  fail(error) {
    this.seconds = (this.now() - this.began) / 1000;
    this.outcome = 'error';
    this.error = [oneLine(error.message), error.reason ? `(${oneLine(error.reason, 80)})` : ''].join(' ').trim();
  }
}

class Journal {
  constructor(now = Date.now) {
    this.now = now;
    /** Newest first. @type {Turn[]} */
    this.turns = [];
  }

  /** @param {string} model */
  begin(model) {
    const turn = new Turn(model, this.now);
    this.turns.unshift(turn);
    this.turns.length = Math.min(this.turns.length, MAX_TURNS);
    return turn;
  }
}

module.exports = { Journal };
