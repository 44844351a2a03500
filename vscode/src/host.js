// The Python side as a child process: requests out, lines in (docs/host.md). It decides nothing about models.
'use strict';
const { spawn } = require('node:child_process');
const { briefly, errorOfLine, plainError } = require('./errors');
const { LineSplitter, parseLine, writeLine, PROTOCOL } = require('./lines');

const LONGEST_LINE = 64 * 1024 * 1024;
const PATIENCE = 30_000; // for the first line: a cold disk and a virus scanner
const LAST_WORDS = 2_000;

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {{ file: string, arguments: string[], label: string }} Command
 * @typedef {{ onLine?: (line: Line) => void, signal?: AbortSignal }} Listening
 * @typedef {{ trace(text: string): void, info(text: string): void, warn(text: string): void, error(text: string): void }} Log
 * @typedef {{ cwd?: string, log: Log, onNews?: (line: Line) => void, onEnd?: () => void, patience?: number, level?: string }} Surroundings
 * @typedef {{ resolve: (line: Line) => void, reject: (error: Error) => void, onLine?: (line: Line) => void }} Pending
 */

/** What every Python of ours is told. The folder that it is started in is not searched for modules: it may be anybody's. */
const PYTHON = { PYTHONUTF8: '1', PYTHONSAFEPATH: '1' };

/** The end of a request that nobody waits for any more. */
const CANCELLED = { type: 'done', result: { finish: 'cancelled' } };

class HostProcess {
  /** Starts the process and waits until it is ready. @param {Command} command @param {Surroundings} surroundings */
  static async start(command, surroundings) {
    const host = new HostProcess(command, surroundings);
    try {
      await host.ready;
    } catch (error) {
      host.dispose();
      throw error;
    }
    return host;
  }

  /** @param {Command} command @param {Surroundings} surroundings */
  constructor(command, { cwd, log, onNews, onEnd, level = 'info', patience = PATIENCE }) {
    this.command = command;
    this.log = log;
    this.onNews = onNews;
    this.isAlive = true;
    this.isReady = false;
    this.version = '';
    this.lastWords = '';
    /**
     * What is configured in this process, by group: backend.js keeps it here because it ends with the process.
     * @type {Map<string, { thinking: string, done: Promise<unknown> }>}
     */
    this.groups = new Map();
    /** @type {Map<number, Pending>} */
    this.pending = new Map();
    this.lastId = 0;
    /** @type {Promise<void>} */
    this.writing = Promise.resolve();
    this.child = spawn(command.file, [...command.arguments, 'vscode-host', '--log-level', level], {
      cwd,
      stdio: ['pipe', 'pipe', 'pipe'],
      windowsHide: true,
      env: { ...process.env, ...PYTHON },
    });
    this.child.stdin.on('error', () => {}); // the process is gone: its end tells so
    this.ready = this.handshake(patience);
    this.ended = this.watch().finally(() => onEnd?.());
  }

  get pid() {
    return this.child.pid;
  }

  /** @param {number} patience */
  async handshake(patience) {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    /** @type {Promise<Line>} */
    const first = new Promise((resolve, reject) => {
      this.pending.set(0, { resolve, reject });
      timer = setTimeout(() => reject(plainError(`it did not answer within ${patience / 1000} seconds`, { code: 'host_silent' })), patience);
    });
    const ready = await first.finally(() => clearTimeout(timer));
    this.isReady = true;
    this.version = String(ready.version ?? '');
    if (ready.protocol === PROTOCOL) return;
    const older = Number(ready.protocol) < PROTOCOL ? 'Penstock' : 'this extension';
    throw plainError(
      `${this.command.label} is Penstock ${this.version}, which speaks protocol ${ready.protocol} and not ${PROTOCOL}: update ${older}`,
      { code: 'protocol_mismatch' },
    );
  }

  /**
   * Asks, and gives the `done` line. Lines before it go to `onLine`, in order, and none after `signal` fires.
   * @param {string} method @param {Line} fields @param {Listening} [listening] @returns {Promise<Line>}
   */
  request(method, fields, { onLine, signal } = {}) {
    if (signal?.aborted) return Promise.resolve(CANCELLED);
    if (!this.isAlive) return Promise.reject(this.deathOf());
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      const cancel = () => {
        if (!this.pending.delete(id)) return;
        this.request('cancel', { request: id }).catch(() => {}); // it had ended already
        resolve(CANCELLED);
      };
      signal?.addEventListener('abort', cancel, { once: true });
      const free = () => signal?.removeEventListener('abort', cancel);
      this.pending.set(id, {
        onLine,
        resolve: (line) => (free(), resolve(line)),
        reject: (error) => (free(), reject(error)),
      });
      this.send({ id, method, ...fields }).catch((error) => this.settle(id)?.reject(error));
    });
  }

  /** Writes one line when the one before has gone: a full pipe makes us wait, not grow. @param {Line} request @returns {Promise<void>} */
  async send(request) {
    const line = Buffer.from(writeLine(request));
    if (line.length > LONGEST_LINE) {
      const message = 'The conversation with its attachments is over 64 MiB: attach less, or start a new one';
      throw plainError(message, { code: 'request_too_large' });
    }
    this.writing = this.writing.then(() => this.write(line));
    return this.writing;
  }

  /** @param {Buffer} line @returns {Promise<void>} */
  write(line) {
    return new Promise((resolve) => {
      // Whether it was read is told by the answer, or by the end of the process.
      if (!this.isAlive || this.child.stdin.write(line)) return resolve();
      const go = () => {
        this.child.stdin.off('drain', go);
        this.child.off('close', go);
        resolve();
      };
      this.child.stdin.once('drain', go);
      this.child.once('close', go);
    });
  }

  async watch() {
    /** @type {Promise<string>} */
    const closed = new Promise((resolve) => {
      this.child.once('error', (error) => resolve(error.message));
      this.child.once('close', (code, signal) => resolve(signal ? `signal ${signal}` : `exit code ${code}`));
    });
    const read = Promise.all([this.readLines(), this.readLog()]).catch((error) => {
      // Whom nobody listens to must end, or everyone who waits for its answers waits for ever.
      this.log.error(`the Python side cannot be read: ${briefly(error)}`);
      this.child.kill('SIGKILL');
    });
    const how = await closed;
    await read;
    this.isAlive = false;
    this.how = how;
    for (const [id, pending] of [...this.pending]) {
      this.pending.delete(id);
      pending.reject(this.deathOf());
    }
  }

  /** Reads a chunk when the one before has been worked off: who does not keep up slows the upstream down. */
  async readLines() {
    const splitter = new LineSplitter();
    for await (const chunk of this.child.stdout) for (const line of splitter.feed(chunk)) this.dispatch(line);
    for (const line of splitter.end()) this.dispatch(line);
  }

  async readLog() {
    const splitter = new LineSplitter();
    for await (const chunk of this.child.stderr) for (const line of splitter.feed(chunk)) this.tell(line);
    for (const line of splitter.end()) this.tell(line);
  }

  /** @param {string} text */
  dispatch(text) {
    const line = parseLine(text);
    // Not its words: half a line of a process that died is a piece of an answer.
    if (line === undefined) return this.log.warn(`no line of the protocol: ${text.length} characters`);
    if (line.id === undefined || line.id === null) return this.hear(line);
    const pending = this.pending.get(line.id);
    if (pending === undefined) return; // cancelled: nothing of it is shown any more
    if (line.type === 'done') this.settle(line.id)?.resolve(line);
    else if (line.type === 'error') this.settle(line.id)?.reject(errorOfLine(line));
    else this.forward(line, pending);
  }

  /** @param {Line} line @param {Pending} pending */
  forward(line, pending) {
    try {
      pending.onLine?.(line);
    } catch (error) {
      // A part that cannot be reported ends its turn, and no other.
      this.settle(line.id)?.reject(/** @type {Error} */ (error));
      this.request('cancel', { request: line.id }).catch(() => {});
    }
  }

  /** @param {Line} line */
  hear(line) {
    if (line.type === 'ready') this.settle(0)?.resolve(line);
    else if (line.type === 'error') this.log.error(`${line.code}: ${line.message}`);
    else this.spread(line);
  }

  /** News that cannot be shown must not stop the reader: behind it come the answers. @param {Line} line */
  spread(line) {
    try {
      this.onNews?.(line);
    } catch (error) {
      this.log.error(`the news ${line.type} cannot be shown: ${briefly(error)}`);
    }
  }

  /** @param {number} id */
  settle(id) {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    return pending;
  }

  /** The log of the Python side, in our channel at its level. @param {string} text */
  tell(text) {
    const record = parseLine(text);
    if (record === undefined) {
      this.lastWords = `${this.lastWords}${text}\n`.slice(-LAST_WORDS);
      return this.log.warn(text);
    }
    const level = String(record.level ?? 'info').toLowerCase();
    const write = { debug: 'trace', warning: 'warn', error: 'error', critical: 'error' }[level] ?? 'info';
    const { message, time: _time, level: _level, ...fields } = record;
    this.log[/** @type {keyof Log} */ (write)](`${message} ${JSON.stringify(fields)}`);
  }

  deathOf() {
    const said = this.lastWords.trim().split('\n').at(-1) ?? '';
    const words = said === '' ? '' : `: ${said.slice(0, 200)}`;
    if (!this.isReady) return plainError(`it ended before it was ready, with ${this.how}${words}`, { code: 'host_ended' });
    return plainError(`Penstock's Python side has ended (${this.how ?? 'stopped'}${words}). Try again: it is started anew`, {
      code: 'host_ended',
    });
  }

  /** Ends it: by the end of its input, and by force when that does not help. */
  dispose() {
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 3_000);
    timer.unref();
    this.child.once('close', () => clearTimeout(timer));
    return this.ended;
  }
}

module.exports = { HostProcess, CANCELLED, PYTHON };
