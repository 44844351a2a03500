// The private environment: a virtual environment in the extension's storage, with the Penstock that comes with the extension.
// Each installation has a folder of its own, so a failed one changes nothing, and what runs from an older one keeps running.
'use strict';
const { spawn } = require('node:child_process');
const { createHash } = require('node:crypto');
const { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } = require('node:fs');
const { rm } = require('node:fs/promises');
const path = require('node:path');
const vscode = require('vscode');
const { MISSING } = require('./backend');
const { asPlain, plainError } = require('./errors');

const WINDOWS = process.platform === 'win32';
const REQUIRED_PYTHON = 'Python 3.11 or later';

/** A file in an environment that is complete: the digest of the wheel that was installed; empty for the user's own package. */
const RECORD = 'installed-wheel';

/** A file in the storage: the name of the folder that is used. */
const CURRENT = 'current-python';

/** The folder of earlier versions of the extension, which had only one. */
const FIRST_FOLDER = 'python';

/** A folder, with the id of the process that made it. */
const FOLDER = /^python-(\d+)-\w+$/;

/** A file in an environment that a window uses, with the id of its process. */
const MARKER = /^used-by-(\d+)$/;

/** The prefix of a folder that is being deleted. */
const DISCARDED = 'discarded-';

const NOT_PACKED =
  'This extension was not packed with Penstock: pack it with `make vsix`, or set `penstock.package` or `penstock.pythonPath`';

/** @param {string} folder */
const pythonIn = (folder) => path.join(folder, ...(WINDOWS ? ['Scripts', 'python.exe'] : ['bin', 'python']));

/** Returns the folder of the environment that is used. @param {string} storage the storage folder of the extension */
function privateEnvironment(storage) {
  const pointer = path.join(storage, CURRENT);
  const name = existsSync(pointer) ? readFileSync(pointer, 'utf8') : '';
  const isUsable = FOLDER.test(name) && existsSync(pythonIn(path.join(storage, name)));
  return path.join(storage, isUsable ? name : FIRST_FOLDER);
}

/** @param {string} storage */
const privatePython = (storage) => pythonIn(privateEnvironment(storage));

/** Returns the path of the wheel that `make vsix` packs. @param {string} extension the folder of the extension @param {string} version */
const wheelOf = (extension, version) => path.join(extension, 'wheel', `penstock-${version}-py3-none-any.whl`);

const readPackageSetting = () => vscode.workspace.getConfiguration('penstock').get('package', '').trim();

/** Returns what pip installs. Without the setting it is a file, so pip never looks up the name in an index. @param {string} wheel */
function packageOf(wheel) {
  const setting = readPackageSetting();
  if (setting !== '') return setting;
  if (existsSync(wheel)) return wheel;
  throw plainError(NOT_PACKED, { code: 'wheel_not_found' });
}

/** Exact token counts for OpenAI's models: the editor shows how full the context is. */
const EXTRA = '[tokens]';

/** Returns a package for the log. A URL may contain a password or a token. @param {string} chosen */
const withoutSecrets = (chosen) => chosen.replace(/:\/\/[^/\s]*@/, '://[key]@').replace(/\?.*/, '?[key]');

/** The version number alone is not enough: it does not change between two builds of a developer. @param {string} wheel */
const digestOf = (wheel) => createHash('sha256').update(readFileSync(wheel)).digest('hex');

/** Returns whether the environment has another Penstock than the extension. The user's own package is never outdated. @param {string} storage @param {string} wheel */
function isOutdated(storage, wheel) {
  if (readPackageSetting() !== '' || !existsSync(wheel)) return false;
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

/** @param {string} storage */
const newFolder = (storage) => path.join(storage, `python-${process.pid}-${Date.now().toString(36)}`);

/**
 * Creates an environment and uses it from now on, with progress that the user can see and cancel. If that fails, the
 * environment that was used before is still used.
 * @param {string} storage @param {string} wheel @param {import('./host').Log} log
 */
async function createEnvironment(storage, wheel, log) {
  const chosen = packageOf(wheel);
  mkdirSync(storage, { recursive: true });
  const base = await basePython(storage);
  if (base === undefined) {
    throw plainError(`${REQUIRED_PYTHON} was not found on this machine: install it, or set \`penstock.pythonPath\``, { code: MISSING });
  }
  const folder = newFolder(storage);
  const python = pythonIn(folder);
  const install = [ISOLATED, '-m', 'pip', 'install', '--disable-pip-version-check'];
  const steps = [
    { title: 'creating an environment', file: base.file, args: [...base.args, ISOLATED, '-m', 'venv', folder], otherwise: undefined },
    chosen === wheel
      ? { title: `installing ${path.basename(wheel)}`, file: python, args: [...install, wheel + EXTRA], otherwise: [...install, wheel] }
      : { title: `installing ${withoutSecrets(chosen)}`, file: python, args: [...install, chosen], otherwise: undefined },
    { title: 'checking the installation', file: python, args: [ISOLATED, '-m', 'penstock', '--version'], otherwise: undefined },
  ];
  const options = { location: vscode.ProgressLocation.Notification, title: 'Penstock', cancellable: true };
  try {
    await vscode.window.withProgress(options, async (progress, token) => {
      const running = { cwd: storage, token, onLine: (/** @type {string} */ text) => log.trace(text) };
      for (const { title, file, args, otherwise } of steps) {
        progress.report({ message: title });
        log.info(`${title}: ${file} ${args.map((each) => (each === chosen ? withoutSecrets(each) : each)).join(' ')}`);
        try {
          await run(file, args, running);
        } catch (error) {
          if (otherwise === undefined || token.isCancellationRequested) throw error;
          // The extra has no wheels for every platform, such as Alpine: tokens are estimated there.
          log.warn(`without ${EXTRA}: ${error instanceof Error ? error.message : error}`);
          await run(file, otherwise, running);
        }
      }
    });
    writeFileSync(path.join(folder, RECORD), chosen === wheel ? digestOf(wheel) : '');
    use(storage, folder);
  } catch (error) {
    await discard(folder, log);
    throw error;
  }
}

/** Uses an environment from now on. Another window reads the old name or the new one, never a part. @param {string} storage @param {string} folder */
function use(storage, folder) {
  const written = path.join(storage, `${CURRENT}-${process.pid}`);
  writeFileSync(written, path.basename(folder));
  renameSync(written, path.join(storage, CURRENT));
}

/** @param {string} storage @returns {string[]} the paths of all environments, also of incomplete ones */
function environments(storage) {
  const names = existsSync(storage) ? readdirSync(storage) : [];
  return names.filter((name) => name === FIRST_FOLDER || FOLDER.test(name)).map((name) => path.join(storage, name));
}

/**
 * Marks the environments that contain these programs as used by this window, and no others, so that no window deletes them.
 * @param {string} storage @param {Array<string | undefined>} programs
 */
function markUsed(storage, programs) {
  for (const folder of environments(storage)) {
    const marker = path.join(folder, `used-by-${process.pid}`);
    try {
      if (programs.includes(pythonIn(folder))) writeFileSync(marker, '');
      else rmSync(marker, { force: true });
    } catch {
      // a folder that cannot be written or that another window has just deleted
    }
  }
}

/** Returns whether a process runs. @param {string | undefined} id undefined: none */
function isRunning(id) {
  if (id === undefined) return false;
  try {
    return process.kill(Number(id), 0);
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM'; // it belongs to another user
  }
}

/** Returns whether a window uses an environment or is installing it. @param {string} folder */
function isInUse(folder) {
  const files = readdirSync(folder);
  if (!files.includes(RECORD) && isRunning(FOLDER.exec(path.basename(folder))?.[1])) return true;
  return files.some((name) => isRunning(MARKER.exec(name)?.[1]));
}

/** Deletes the environments that nothing uses any more. What cannot be deleted now is deleted later. @param {string} storage @param {import('./host').Log} log */
async function removeUnused(storage, log) {
  const current = privateEnvironment(storage);
  for (const folder of environments(storage)) {
    try {
      if (folder !== current && !isInUse(folder)) await discard(folder, log);
    } catch (error) {
      log.debug(`not deleted: ${folder}: ${asPlain(error).message}`); // another window has just deleted it
    }
  }
  const left = existsSync(storage) ? readdirSync(storage).filter((name) => name.startsWith(DISCARDED)) : [];
  for (const name of left) await rm(path.join(storage, name), { recursive: true, force: true }).catch(() => {});
}

/** Deletes an environment, if possible. @param {string} folder @param {import('./host').Log} log */
async function discard(folder, log) {
  if (!existsSync(folder)) return;
  const discarded = path.join(path.dirname(folder), DISCARDED + path.basename(folder));
  try {
    renameSync(folder, discarded); // first: Windows does not rename a folder in use, but would delete a part of it
    await rm(discarded, { recursive: true, force: true, maxRetries: 3 });
    log.info(`deleted: ${folder}`);
  } catch (error) {
    log.info(`not deleted: ${folder}: ${asPlain(error).message}`);
  }
}

module.exports = { createEnvironment, isOutdated, markUsed, privatePython, pythonIn, removeUnused, wheelOf };
