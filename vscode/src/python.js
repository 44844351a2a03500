// Find or install the Python backend. Each candidate is started; the first one that answers is used.
'use strict';
const { spawn } = require('node:child_process');
const { existsSync, mkdirSync } = require('node:fs');
const path = require('node:path');
const vscode = require('vscode');
const { MISSING } = require('./backend');
const { asPlain, plainError } = require('./errors');
const { HostProcess } = require('./host');
const { programOf } = require('./program');

/** @typedef {import('./host').Command} Command */

const WINDOWS = process.platform === 'win32';
const REQUIRED_PYTHON = 'Python 3.11 or later';

/** @param {string} folder */
const pythonIn = (folder) => path.join(folder, ...(WINDOWS ? ['Scripts', 'python.exe'] : ['bin', 'python']));

/** @param {string} storage the storage folder of the extension */
const privateEnvironment = (storage) => path.join(storage, 'python');

/** Returns the command for a Python or for the `penstock` program, which is recognised by its name. @param {string} file @param {string} label @returns {Command} */
function commandOf(file, label) {
  const isProgram = /^penstock(\.exe)?$/i.test(path.basename(file));
  return { file, arguments: isProgram ? [] : ['-m', 'penstock'], label };
}

/** Returns the interpreter that is selected in the Python extension, if any. @returns {Promise<string | undefined>} */
async function selectedInterpreter() {
  const extension = vscode.extensions.getExtension('ms-python.python');
  if (extension === undefined) return undefined;
  try {
    const environments = (await extension.activate())?.environments;
    const active = environments?.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri);
    const resolved = active && (await environments.resolveEnvironment(active));
    return resolved?.executable?.uri?.fsPath;
  } catch {
    return undefined; // ignore errors of the other extension
  }
}

/** @returns {Command[]} */
function workspaceEnvironments() {
  return (vscode.workspace.workspaceFolders ?? [])
    .filter((folder) => folder.uri.scheme === 'file')
    .map((folder) => pythonIn(path.join(folder.uri.fsPath, '.venv')))
    .filter((file) => existsSync(file))
    .map((file) => commandOf(file, file));
}

const settingOf = () => vscode.workspace.getConfiguration('penstock').get('pythonPath', '').trim();

/**
 * Yields the candidates in order; the first that works is used. Programs of a workspace are run only if it is trusted.
 * @param {string} storage @returns {AsyncGenerator<Command>}
 */
async function* candidates(storage) {
  const setting = settingOf();
  if (setting !== '') {
    yield commandOf(setting, setting);
    return; // an explicit setting is used or reported as an error
  }
  yield commandOf('penstock', '`penstock` on the PATH');
  if (vscode.workspace.isTrusted) {
    const selected = await selectedInterpreter();
    if (selected !== undefined) yield commandOf(selected, `the selected interpreter ${selected}`);
    yield* workspaceEnvironments();
  }
  const own = pythonIn(privateEnvironment(storage));
  if (existsSync(own)) yield commandOf(own, 'the private environment');
}

/**
 * Starts the first candidate that answers. @param {string} storage @param {import('./host').HostOptions} options
 * @returns {Promise<HostProcess>}
 */
async function startHost(storage, options) {
  /** @type {import('./errors').PlainError[]} */
  const failures = [];
  for await (const candidate of candidates(storage)) {
    try {
      const command = { ...candidate, file: programOf(candidate.file, options.cwd ?? storage) };
      const host = await HostProcess.start(command, options);
      options.log.info(`Penstock ${host.version} from ${command.label}`);
      return host;
    } catch (error) {
      const failure = asPlain(error);
      options.log.info(`not usable: ${candidate.label}: ${failure.message}`);
      failures.push(failure);
    }
  }
  throw plainError(notFoundMessage(failures), { code: MISSING, name: 'PythonNotFound' });
}

/** Returns the message if no candidate answers: a version mismatch or the explicit setting comes first. @param {Error[]} failures */
function notFoundMessage(failures) {
  const mismatch = failures.find((each) => /** @type {import('./errors').PlainError} */ (each).reason === 'protocol_mismatch');
  if (mismatch !== undefined) return mismatch.message;
  const setting = settingOf();
  if (setting !== '') {
    const reasons = failures.map((each) => each.message).join(', ');
    return `\`penstock.pythonPath\` is ${setting}, but ${reasons}: change it, or clear it and run "Penstock: Install the Python Backend"`;
  }
  return (
    'No Python with Penstock was found: run "Penstock: Install the Python Backend", or set `penstock.pythonPath`. ' +
    'The log lists the places that were searched'
  );
}

/**
 * Runs a program until it exits and returns its output. @param {string} file @param {string[]} args
 * @param {{ cwd: string, token?: import('vscode').CancellationToken, onLine?: (text: string) => void }} options
 * @returns {Promise<string>}
 */
function run(file, args, { cwd, token, onLine }) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { cwd, windowsHide: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const onOutput = (/** @type {Buffer} */ chunk) => {
      output = (output + chunk.toString()).slice(-20_000);
      onLine?.(chunk.toString().trim());
    };
    child.stdout.on('data', onOutput);
    child.stderr.on('data', onOutput);
    const subscription = token?.onCancellationRequested(() => child.kill());
    child.once('error', reject);
    child.once('close', (code) => {
      subscription?.dispose();
      if (token?.isCancellationRequested) reject(plainError('The installation was cancelled', { code: 'cancelled' }));
      else if (code === 0) resolve(output);
      else reject(plainError(output.trim().split('\n').at(-1) || `${file} exited with code ${code}`));
    });
  });
}

/**
 * Isolated mode: Python imports nothing from the current folder or the user's folders. `-m` and `-c` search the current folder
 * first, which may contain anything.
 */
const ISOLATED = '-I';

/** Finds a Python that is new enough to create an environment. @param {string} cwd @returns {Promise<{ file: string, args: string[] } | undefined>} */
async function basePython(cwd) {
  const names = WINDOWS ? ['python', 'python3'] : ['python3', 'python', 'python3.14', 'python3.13', 'python3.12', 'python3.11'];
  const pythons = [...names.map((file) => ({ file, args: /** @type {string[]} */ ([]) })), ...(WINDOWS ? [{ file: 'py', args: ['-3'] }] : [])];
  for (const each of pythons) {
    const check = 'import sys; print("new" if sys.version_info >= (3, 11) else "old")';
    const answer = await run(each.file, [...each.args, ISOLATED, '-c', check], { cwd }).catch(() => '');
    if (answer.trim() === 'new') return each;
  }
  return undefined;
}

/**
 * Creates the private environment, with progress that the user can see and cancel.
 * @param {string} storage @param {import('./host').Log} log
 */
async function createEnvironment(storage, log) {
  mkdirSync(storage, { recursive: true });
  const base = await basePython(storage);
  if (base === undefined) {
    throw plainError(`${REQUIRED_PYTHON} was not found on this machine: install it, or set \`penstock.pythonPath\``, { code: MISSING });
  }
  const folder = privateEnvironment(storage);
  const requirement = vscode.workspace.getConfiguration('penstock').get('package', 'penstock');
  const steps = [
    { title: 'creating an environment', file: base.file, args: [...base.args, ISOLATED, '-m', 'venv', '--clear', folder] },
    {
      title: `installing ${requirement}`,
      file: pythonIn(folder),
      args: [ISOLATED, '-m', 'pip', 'install', '--disable-pip-version-check', '--upgrade', requirement],
    },
  ];
  const options = { location: vscode.ProgressLocation.Notification, title: 'Penstock', cancellable: true };
  await vscode.window.withProgress(options, async (progress, token) => {
    for (const { title, file, args } of steps) {
      progress.report({ message: title });
      log.info(`${title}: ${file} ${args.join(' ')}`);
      await run(file, args, { cwd: storage, token, onLine: (text) => log.trace(text) });
    }
  });
}

module.exports = { startHost, createEnvironment, candidates, commandOf };
