// The Python backend as a child process: sends requests, receives lines (docs/host.md). Contains no logic about models.
'use strict';
const { spawn } = require('node:child_process');
const { briefly, errorOfLine, plainError } = require('./errors');
const { LineSplitter, parseLine, writeLine, PROTOCOL } = require('./lines');

const MAX_LINE_LENGTH = 64 * 1024 * 1024;
const START_TIMEOUT = 30_000; // long enough for a cold disk and a virus scanner
const MAX_STDERR = 2_000;

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {{ file: string, arguments: string[], label: string }} Command
 * @typedef {{ onLine?: (line: Line) => void, signal?: AbortSignal }} Listening
 * @typedef {{ logLevel?: number, trace(text: string): void, debug(text: string): void, info(text: string): void, warn(text: string): void, error(text: string): void }} Log
 * @typedef {{ cwd?: string, log: Log, onNotification?: (line: Line) => void, onEnd?: () => void, startTimeout?: number, level?: string }} HostOptions
 * @typedef {{ resolve: (line: Line) => void, reject: (error: Error) => void, onLine?: (line: Line) => void }} Pending
 */

/** The level in our channel for each level of the Python backend. @type {Record<string, string>} */
const LEVELS = { trace: 'trace', debug: 'debug', warning: 'warn', error: 'error', critical: 'error' };

/** The environment of every Python process. The current folder is not searched for modules: it may contain anything. */
const PYTHON = { PYTHONUTF8: '1', PYTHONSAFEPATH: '1' };

/** The last line of a cancelled request. */
const CANCELLED = { type: 'done', result: { finish: 'cancelled' } };

class HostProcess {
  /** Starts the process and waits until it is ready. @param {Command} command @param {HostOptions} options */
  static async start(command, options) {
    const host = new HostProcess(command, options);
    try {
      await host.ready;
    } catch (error) {
      host.dispose();
      throw error;
    }
    return host;
  }

  /** @param {Command} command @param {HostOptions} options */
  constructor(command, { cwd, log, onNotification, onEnd, level = 'info', startTimeout = START_TIMEOUT }) {
    this.command = command;
    this.log = log;
    this.onNotification = onNotification;
    this.isAlive = true;
    this.isReady = false;
    this.version = '';
    this.stderr = '';
    /**
     * The configured groups of this process. backend.js stores them here because they end with the process.
     * @type {Map<string, { settings: string, done: Promise<unknown> }>}
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
    this.child.stdin.on('error', () => {}); // the process has ended, which `watch` handles
    this.ready = this.handshake(startTimeout);
    this.ended = this.watch().finally(() => onEnd?.());
  }

  get pid() {
    return this.child.pid;
  }

  /** @param {number} timeout */
  async handshake(timeout) {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    /** @type {Promise<Line>} */
    const first = new Promise((resolve, reject) => {
      this.pending.set(0, { resolve, reject });
      timer = setTimeout(() => reject(plainError(`it did not answer within ${timeout / 1000} seconds`, { code: 'host_silent' })), timeout);
    });
    const ready = await first.finally(() => clearTimeout(timer));
    this.isReady = true;
    this.version = String(ready.version ?? '');
    if (ready.protocol === PROTOCOL) return;
    const older = Number(ready.protocol) < PROTOCOL ? 'Penstock' : 'this extension';
    throw plainError(
      `${this.command.label} is Penstock ${this.version}, which uses protocol ${ready.protocol} instead of ${PROTOCOL}: update ${older}`,
      { code: 'protocol_mismatch' },
    );
  }

  /**
   * Sends a request and returns the `done` line. Lines before it go to `onLine`, in order, and none after `signal` fires.
   * @param {string} method @param {Line} fields @param {Listening} [listening] @returns {Promise<Line>}
   */
  request(method, fields, { onLine, signal } = {}) {
    if (signal?.aborted) return Promise.resolve(CANCELLED);
    if (!this.isAlive) return Promise.reject(this.endedError());
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      const cancel = () => {
        if (!this.pending.delete(id)) return;
        this.request('cancel', { request: id }).catch(() => {}); // it has already ended
        resolve(CANCELLED);
      };
      signal?.addEventListener('abort', cancel, { once: true });
      const removeListener = () => signal?.removeEventListener('abort', cancel);
      this.pending.set(id, {
        onLine,
        resolve: (line) => (removeListener(), resolve(line)),
        reject: (error) => (removeListener(), reject(error)),
      });
      this.send({ id, method, ...fields }).catch((error) => this.settle(id)?.reject(error));
    });
  }

  /** Writes one line after the previous one: a full pipe makes callers wait, and memory stays bounded. @param {Line} request @returns {Promise<void>} */
  async send(request) {
    const line = Buffer.from(writeLine(request));
    if (line.length > MAX_LINE_LENGTH) {
      const message = 'The conversation with its attachments is over 64 MiB: attach less, or start a new one';
      throw plainError(message, { code: 'request_too_large' });
    }
    this.writing = this.writing.then(() => this.write(line));
    return this.writing;
  }

  /** @param {Buffer} line @returns {Promise<void>} */
  write(line) {
    return new Promise((resolve) => {
      // The answer, or the end of the process, shows whether it was read.
      if (!this.isAlive || this.child.stdin.write(line)) return resolve();
      const proceed = () => {
        this.child.stdin.off('drain', proceed);
        this.child.off('close', proceed);
        resolve();
      };
      this.child.stdin.once('drain', proceed);
      this.child.once('close', proceed);
    });
  }

  async watch() {
    /** @type {Promise<string>} */
    const closed = new Promise((resolve) => {
      this.child.once('error', (error) => resolve(error.message));
      this.child.once('close', (code, signal) => resolve(signal ? `signal ${signal}` : `exit code ${code}`));
    });
    const read = Promise.all([this.readLines(), this.readLog()]).catch((error) => {
      // Stop the process, or pending requests would wait forever.
      this.log.error(`the output of the Python backend cannot be read: ${briefly(error)}`);
      this.child.kill('SIGKILL');
    });
    const reason = await closed;
    await read;
    this.isAlive = false;
    this.reason = reason;
    for (const [id, pending] of [...this.pending]) {
      this.pending.delete(id);
      pending.reject(this.endedError());
    }
  }

  /** Reads a chunk only after the previous one was handled, so a slow reader slows the upstream. */
  async readLines() {
    const splitter = new LineSplitter();
    for await (const chunk of this.child.stdout) for (const line of splitter.feed(chunk)) this.dispatch(line);
    for (const line of splitter.end()) this.dispatch(line);
  }

  async readLog() {
    const splitter = new LineSplitter();
    for await (const chunk of this.child.stderr) for (const line of splitter.feed(chunk)) this.writeLog(line);
    for (const line of splitter.end()) this.writeLog(line);
  }

  /** @param {string} text */
  dispatch(text) {
    const line = parseLine(text);
    // Do not log the text: half a line of a crashed process is part of an answer.
    if (line === undefined) return this.log.warn(`not a valid protocol line: ${text.length} characters`);
    if (line.id === undefined || line.id === null) return this.handleNotification(line);
    const pending = this.pending.get(line.id);
    if (pending === undefined) return; // cancelled
    if (line.type === 'done') this.settle(line.id)?.resolve(line);
    else if (line.type === 'error') this.settle(line.id)?.reject(errorOfLine(line));
    else this.forward(line, pending);
  }

  /** @param {Line} line @param {Pending} pending */
  forward(line, pending) {
    try {
      pending.onLine?.(line);
    } catch (error) {
      // A part that cannot be reported ends only its own turn.
      this.settle(line.id)?.reject(/** @type {Error} */ (error));
      this.request('cancel', { request: line.id }).catch(() => {});
    }
  }

  /** @param {Line} line */
  handleNotification(line) {
    if (line.type === 'ready') this.settle(0)?.resolve(line);
    else if (line.type === 'error') this.log.error(`${line.code}: ${line.message}`);
    else this.notify(line);
  }

  /** Passes a notification on. An error in the listener must not stop the reader: answers follow. @param {Line} line */
  notify(line) {
    try {
      this.onNotification?.(line);
    } catch (error) {
      this.log.error(`the notification ${line.type} could not be handled: ${briefly(error)}`);
    }
  }

  /** @param {number} id */
  settle(id) {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    return pending;
  }

  /** Writes a log line of the Python backend to our channel, with its level. @param {string} text */
  writeLog(text) {
    const record = parseLine(text);
    if (record === undefined) {
      this.stderr = `${this.stderr}${text}\n`.slice(-MAX_STDERR);
      return this.log.warn(text);
    }
    const level = String(record.level ?? 'info').toLowerCase();
    const write = /** @type {'trace' | 'debug' | 'info' | 'warn' | 'error'} */ (LEVELS[level] ?? 'info');
    const { message, time: _time, level: _level, ...fields } = record;
    this.log[write](`${message} ${JSON.stringify(fields)}`);
  }

  endedError() {
    const lastLine = this.stderr.trim().split('\n').at(-1) ?? '';
    const detail = lastLine === '' ? '' : `: ${lastLine.slice(0, 200)}`;
    if (!this.isReady) return plainError(`it exited before it was ready, with ${this.reason}${detail}`, { code: 'host_ended' });
    return plainError(`Penstock's Python backend has stopped (${this.reason ?? 'stopped'}${detail}). Try again: it restarts automatically`, {
      code: 'host_ended',
    });
  }

  /** Stops the process: closes its input, and kills it if that does not help. */
  dispose() {
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 3_000);
    timer.unref();
    this.child.once('close', () => clearTimeout(timer));
    return this.ended;
  }
}

module.exports = { HostProcess, CANCELLED, PYTHON };
