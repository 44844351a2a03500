// Find the Python backend. Each candidate is started; the first one that answers is used.
'use strict';
const { existsSync } = require('node:fs');
const path = require('node:path');
const vscode = require('vscode');
const { MISSING } = require('./backend');
const { privatePython, pythonIn } = require('./environment');
const { asPlain, plainError } = require('./errors');
const { HostProcess } = require('./host');
const { programOf } = require('./program');

/** @typedef {import('./host').Command} Command */

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

const readPythonSetting = () => vscode.workspace.getConfiguration('penstock').get('pythonPath', '').trim();

/**
 * Yields the candidates in order; the first that works is used. Programs of a workspace are run only if it is trusted.
 * @param {string} storage @returns {AsyncGenerator<Command>}
 */
async function* candidates(storage) {
  const setting = readPythonSetting();
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
  const own = privatePython(storage);
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
  const setting = readPythonSetting();
  if (setting !== '') {
    const reasons = failures.map((each) => each.message).join(', ');
    return `\`penstock.pythonPath\` is ${setting}, but ${reasons}: change it, or clear it and run "Penstock: Install the Python Backend"`;
  }
  return (
    'No Python with Penstock was found: run "Penstock: Install the Python Backend", or set `penstock.pythonPath`. ' +
    'The log lists the places that were searched'
  );
}

module.exports = { startHost, candidates, commandOf };
