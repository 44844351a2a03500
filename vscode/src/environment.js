// The private environment: a virtual environment in the extension's storage, with the Penstock that comes with the extension.
'use strict';
const { spawn } = require('node:child_process');
const { createHash } = require('node:crypto');
const { existsSync, mkdirSync, readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const vscode = require('vscode');
const { MISSING } = require('./backend');
const { plainError } = require('./errors');

const WINDOWS = process.platform === 'win32';
const REQUIRED_PYTHON = 'Python 3.11 or later';

/** A file in the environment: the digest of the wheel that was installed. */
const RECORD = 'installed-wheel';

const NOT_PACKED =
  'This extension was not packed with Penstock: pack it with `make vsix`, or set `penstock.package` or `penstock.pythonPath`';

/** @param {string} folder */
const pythonIn = (folder) => path.join(folder, ...(WINDOWS ? ['Scripts', 'python.exe'] : ['bin', 'python']));

/** @param {string} storage the storage folder of the extension */
const privateEnvironment = (storage) => path.join(storage, 'python');

/** @param {string} storage */
const privatePython = (storage) => pythonIn(privateEnvironment(storage));

/** Returns the path of the wheel that `make vsix` packs. @param {string} extension the folder of the extension @param {string} version */
const wheelOf = (extension, version) => path.join(extension, 'wheel', `penstock-${version}-py3-none-any.whl`);

const settingOf = () => vscode.workspace.getConfiguration('penstock').get('package', '').trim();

/** Returns what pip installs. Without the setting it is a file, so pip never looks up the name in an index. @param {string} wheel */
function packageOf(wheel) {
  const setting = settingOf();
  if (setting !== '') return setting;
  if (existsSync(wheel)) return wheel;
  throw plainError(NOT_PACKED, { code: 'wheel_not_found' });
}

/** The version number alone is not enough: it does not change between two builds of a developer. @param {string} wheel */
const digestOf = (wheel) => createHash('sha256').update(readFileSync(wheel)).digest('hex');

/** Returns whether the environment has another Penstock than the extension. The user's own package is never outdated. @param {string} storage @param {string} wheel */
function isOutdated(storage, wheel) {
  if (settingOf() !== '' || !existsSync(wheel)) return false;
  const record = path.join(privateEnvironment(storage), RECORD);
  return !existsSync(record) || readFileSync(record, 'utf8') !== digestOf(wheel);
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
 * Creates the private environment, with progress that the user can see and cancel. An existing one is replaced.
 * @param {string} storage @param {string} wheel @param {import('./host').Log} log
 */
async function createEnvironment(storage, wheel, log) {
  const chosen = packageOf(wheel);
  mkdirSync(storage, { recursive: true });
  const base = await basePython(storage);
  if (base === undefined) {
    throw plainError(`${REQUIRED_PYTHON} was not found on this machine: install it, or set \`penstock.pythonPath\``, { code: MISSING });
  }
  const folder = privateEnvironment(storage);
  const steps = [
    { title: 'creating an environment', file: base.file, args: [...base.args, ISOLATED, '-m', 'venv', '--clear', folder] },
    {
      title: `installing ${chosen === wheel ? path.basename(wheel) : chosen}`,
      file: pythonIn(folder),
      args: [ISOLATED, '-m', 'pip', 'install', '--disable-pip-version-check', chosen],
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
  if (chosen === wheel) writeFileSync(path.join(folder, RECORD), digestOf(wheel));
}

module.exports = { createEnvironment, isOutdated, privatePython, pythonIn, wheelOf };
