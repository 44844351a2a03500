// Finds the Python side, or makes it. Every place is tried by starting it: what answers is what is used.
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
const NEEDED = 'Python 3.11 or later';

/** @param {string} folder */
const pythonIn = (folder) => path.join(folder, ...(WINDOWS ? ['Scripts', 'python.exe'] : ['bin', 'python']));

/** @param {string} storage where the editor lets us keep things */
const privateEnvironment = (storage) => path.join(storage, 'python');

/** A Python is told from the `penstock` program by its name. @param {string} file @param {string} label @returns {Command} */
function commandOf(file, label) {
  const isProgram = /^penstock(\.exe)?$/i.test(path.basename(file));
  return { file, arguments: isProgram ? [] : ['-m', 'penstock'], label };
}

/** The interpreter that is selected in the Python extension, where there is one. @returns {Promise<string | undefined>} */
async function selectedInterpreter() {
  const extension = vscode.extensions.getExtension('ms-python.python');
  if (extension === undefined) return undefined;
  try {
    const environments = (await extension.activate())?.environments;
    const active = environments?.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri);
    const resolved = active && (await environments.resolveEnvironment(active));
    return resolved?.executable?.uri?.fsPath;
  } catch {
    return undefined; // another extension's trouble is not ours
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
 * Where to look, the first that works wins. What a workspace brings along is run only when the workspace is trusted.
 * @param {string} storage @returns {AsyncGenerator<Command>}
 */
async function* candidates(storage) {
  const setting = settingOf();
  if (setting !== '') {
    yield commandOf(setting, setting);
    return; // who names one wants that one, and wants to hear when it does not work
  }
  yield commandOf('penstock', '`penstock` on the path');
  if (vscode.workspace.isTrusted) {
    const selected = await selectedInterpreter();
    if (selected !== undefined) yield commandOf(selected, `the selected interpreter ${selected}`);
    yield* workspaceEnvironments();
  }
  const own = pythonIn(privateEnvironment(storage));
  if (existsSync(own)) yield commandOf(own, 'the private environment');
}

/**
 * Starts the first that answers. @param {string} storage @param {import('./host').Surroundings} surroundings
 * @returns {Promise<HostProcess>}
 */
async function startHost(storage, surroundings) {
  /** @type {import('./errors').PlainError[]} */
  const failures = [];
  for await (const candidate of candidates(storage)) {
    try {
      const command = { ...candidate, file: programOf(candidate.file, surroundings.cwd ?? storage) };
      const host = await HostProcess.start(command, surroundings);
      surroundings.log.info(`Penstock ${host.version} from ${command.label}`);
      return host;
    } catch (error) {
      const failure = asPlain(error);
      surroundings.log.info(`not usable: ${candidate.label}: ${failure.message}`);
      failures.push(failure);
    }
  }
  throw plainError(whyNone(failures), { code: MISSING, name: 'PythonNotFound' });
}

/** What to do when none answers: one that was named, or that is of another time, says it best. @param {Error[]} failures */
function whyNone(failures) {
  const mismatch = failures.find((each) => /** @type {import('./errors').PlainError} */ (each).reason === 'protocol_mismatch');
  if (mismatch !== undefined) return mismatch.message;
  const setting = settingOf();
  if (setting !== '') {
    const said = failures.map((each) => each.message).join(', ');
    return `\`penstock.pythonPath\` is ${setting}, but ${said}: change it, or clear it and run "Penstock: Install the Python Side"`;
  }
  return (
    'No Python with Penstock was found: run "Penstock: Install the Python Side", or set `penstock.pythonPath`. ' +
    'The log says where it was looked for'
  );
}

/**
 * Runs a program to its end and gives what it printed. @param {string} file @param {string[]} words
 * @param {{ cwd: string, token?: import('vscode').CancellationToken, onLine?: (text: string) => void }} watching
 * @returns {Promise<string>}
 */
function run(file, words, { cwd, token, onLine }) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, words, { cwd, windowsHide: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    const hear = (/** @type {Buffer} */ chunk) => {
      printed = (printed + chunk.toString()).slice(-20_000);
      onLine?.(chunk.toString().trim());
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    const subscription = token?.onCancellationRequested(() => child.kill());
    child.once('error', reject);
    child.once('close', (code) => {
      subscription?.dispose();
      if (token?.isCancellationRequested) reject(plainError('The installation was stopped', { code: 'cancelled' }));
      else if (code === 0) resolve(printed);
      else reject(plainError(printed.trim().split('\n').at(-1) || `${file} ended with ${code}`));
    });
  });
}

/**
 * A Python that imports nothing from where it is started, nor from the user's own folders: `-m` and `-c` look into the
 * current folder first, and the editor may have been started in anybody's.
 */
const ALONE = '-I';

/** A Python that is new enough to make an environment with. @param {string} cwd @returns {Promise<{ file: string, words: string[] } | undefined>} */
async function basePython(cwd) {
  const names = WINDOWS ? ['python', 'python3'] : ['python3', 'python', 'python3.14', 'python3.13', 'python3.12', 'python3.11'];
  const tried = [...names.map((file) => ({ file, words: /** @type {string[]} */ ([]) })), ...(WINDOWS ? [{ file: 'py', words: ['-3'] }] : [])];
  for (const each of tried) {
    const check = 'import sys; print("new" if sys.version_info >= (3, 11) else "old")';
    const answer = await run(each.file, [...each.words, ALONE, '-c', check], { cwd }).catch(() => '');
    if (answer.trim() === 'new') return each;
  }
  return undefined;
}

/**
 * Makes the private environment, with progress that people see and can stop.
 * @param {string} storage @param {import('./host').Log} log
 */
async function createEnvironment(storage, log) {
  mkdirSync(storage, { recursive: true });
  const base = await basePython(storage);
  if (base === undefined) {
    throw plainError(`${NEEDED} is missing on this machine: install it, or set \`penstock.pythonPath\``, { code: MISSING });
  }
  const folder = privateEnvironment(storage);
  const wanted = vscode.workspace.getConfiguration('penstock').get('package', 'penstock');
  const steps = [
    { title: 'creating an environment', file: base.file, words: [...base.words, ALONE, '-m', 'venv', '--clear', folder] },
    {
      title: `installing ${wanted}`,
      file: pythonIn(folder),
      words: [ALONE, '-m', 'pip', 'install', '--disable-pip-version-check', '--upgrade', wanted],
    },
  ];
  const options = { location: vscode.ProgressLocation.Notification, title: 'Penstock', cancellable: true };
  await vscode.window.withProgress(options, async (progress, token) => {
    for (const { title, file, words } of steps) {
      progress.report({ message: title });
      log.info(`${title}: ${file} ${words.join(' ')}`);
      await run(file, words, { cwd: storage, token, onLine: (text) => log.trace(text) });
    }
  });
}

module.exports = { startHost, createEnvironment, candidates, commandOf };
