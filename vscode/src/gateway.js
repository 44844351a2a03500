// Starts and stops a local gateway; its log goes to an output channel.
'use strict';
const { spawn } = require('node:child_process');
const vscode = require('vscode');
const { plainError } = require('./errors');
const { PYTHON } = require('./host');
const { LineSplitter } = require('./lines');

const READY = /is ready at (\S+)/;
const GRACE = 5_000;

class Gateway {
  constructor() {
    /** @type {import('node:child_process').ChildProcess | undefined} */
    this.child = undefined;
    this.endpoint = '';
    /** The file of the program that runs. @type {string | undefined} */
    this.program = undefined;
    /** @type {Promise<string> | undefined} */
    this.ready = undefined;
    /** @type {vscode.OutputChannel | undefined} */
    this.output = undefined;
  }

  get isRunning() {
    return this.child !== undefined;
  }

  /**
   * Returns the endpoint when the gateway is ready. Concurrent callers share one start.
   * @param {import('./host').Command} command @param {string | undefined} cwd @returns {Promise<string>}
   */
  start(command, cwd) {
    return (this.ready ??= this.launch(command, cwd));
  }

  /**
   * @param {import('./host').Command} command
   * @param {string | undefined} cwd the folder with penstock.toml
   * @returns {Promise<string>}
   */
  launch(command, cwd) {
    const settings = vscode.workspace.getConfiguration('penstock');
    const port = String(settings.get('gatewayPort', 8080));
    const args = [...command.arguments, 'serve', '--port', port, ...settings.get('gatewayArguments', /** @type {string[]} */ ([]))];
    const output = (this.output ??= vscode.window.createOutputChannel('Penstock Gateway'));
    output.appendLine(`> ${command.file} ${args.join(' ')}`);
    const child = spawn(command.file, args, { cwd, windowsHide: true, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...PYTHON, PYTHONUNBUFFERED: '1' } });
    this.child = child;
    this.program = command.file;
    return new Promise((resolve, reject) => {
      let last = '';
      const onLine = (/** @type {string} */ line) => {
        output.appendLine(line);
        last = line;
        const ready = READY.exec(line);
        if (ready !== null) resolve((this.endpoint = ready[1]));
      };
      for (const stream of [child.stdout, child.stderr]) {
        const splitter = new LineSplitter();
        stream.on('data', (chunk) => splitter.feed(chunk).forEach(onLine));
        stream.on('end', () => splitter.end().forEach(onLine));
      }
      const end = (/** @type {string} */ reason) => {
        if (this.child === child) [this.child, this.program, this.ready, this.endpoint] = [undefined, undefined, undefined, ''];
        output.appendLine(`> ended (${reason})`);
        // Has no effect once the gateway was ready.
        reject(plainError(`The gateway did not start (${reason}): ${last}`, { code: 'gateway_failed' }));
      };
      child.once('error', (error) => end(error.message));
      child.once('close', (code, signal) => end(signal ? `signal ${signal}` : `exit code ${code}`));
    });
  }

  /** Stops the gateway: running turns may finish, but only for a few seconds. @returns {Promise<void>} */
  stop() {
    const child = this.child;
    if (child === undefined) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => child.kill('SIGKILL'), GRACE);
      child.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
      child.kill('SIGTERM');
    });
  }

  dispose() {
    this.child?.kill('SIGTERM');
    this.output?.dispose();
  }
}

module.exports = { Gateway };
