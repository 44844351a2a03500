// Which program is started and where, and the error if it does not work. The programs are scripts that record their calls.
'use strict';
const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { vscode, settings, extension, log, cancellation, scripted } = require('./fake');
const { createEnvironment, isOutdated, markUsed, privatePython, removeUnused, wheelOf } = extension('environment.js');
const { startHost } = extension('python.js');
const { programOf } = extension('program.js');

const skip = process.platform === 'win32' ? 'the programs are shell scripts' : false;

function folderOf(t) {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'penstock-')));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  return folder;
}

/** @param {string} file @param {string[]} lines */
function program(file, ...lines) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, ['#!/bin/sh', ...lines, ''].join('\n'), { mode: 0o755 });
  return file;
}

/** A `penstock` program that runs host_script.js in a mode. */
function penstock(folder, mode) {
  const { file, arguments: words } = scripted(mode);
  return program(path.join(folder, mode, 'penstock'), `exec "${file}" "${words[0]}" ${mode} "$@"`);
}

/** A Python on the PATH, whose environments have a scripted `pip`. */
function pythons(t, folder, pip) {
  const calls = path.join(folder, 'calls');
  const own = program(path.join(folder, 'own'), `echo "$PWD $*" >> "${calls}"`, pip);
  const make = `for last; do :; done; mkdir -p "$last/bin"; cp "${own}" "$last/bin/python"`;
  program(path.join(folder, 'bin', 'python3'), `echo "$PWD $*" >> "${calls}"`, `case "$*" in *version_info*) echo new;; *venv*) ${make};; esac`);
  const before = process.env.PATH;
  process.env.PATH = `${path.join(folder, 'bin')}${path.delimiter}${before}`;
  t.after(() => (process.env.PATH = before));
  return () => fs.readFileSync(calls, 'utf8').trim().split('\n');
}

/** An extension with a packed wheel. */
function packed(folder, content = 'first build') {
  const wheel = wheelOf(folder, '1.2.3');
  fs.mkdirSync(path.dirname(wheel), { recursive: true });
  fs.writeFileSync(wheel, content);
  return wheel;
}

/** Waits until a file system has changed. */
async function until(isTrue) {
  while (!isTrue()) await new Promise((resolve) => setImmediate(resolve));
}

function withProgress(t, token) {
  vscode.window.withProgress = (_options, task) => task({ report() {} }, token);
  t.after(() => delete vscode.window.withProgress);
}

test('an installation runs in the folder of the extension and imports nothing from the current folder', { skip }, async (t) => {
  const folder = folderOf(t);
  const calls = pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  const storage = path.join(folder, 'storage');
  await createEnvironment(storage, packed(folder), log());
  const called = calls();
  assert.equal(called.length, 4);
  for (const call of called) assert.ok(call.startsWith(`${storage} -I -`), call);
});

const PIP = 'pip install --disable-pip-version-check';

test('pip installs the wheel that comes with the extension, with exact token counts, by its path and never by its name', { skip }, async (t) => {
  const folder = folderOf(t);
  const calls = pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  const wheel = packed(folder);
  assert.ok(wheel.endsWith('penstock-1.2.3-py3-none-any.whl'));
  await createEnvironment(path.join(folder, 'storage'), wheel, log());
  assert.ok(calls().at(-2).endsWith(`${PIP} ${wheel}[tokens]`), calls().at(-2));
});

test('where the exact token counts cannot be installed, the rest is', { skip }, async (t) => {
  const folder = folderOf(t);
  const calls = pythons(t, folder, 'case "$*" in *tokens*) echo no Rust; exit 1;; esac');
  withProgress(t, cancellation().token);
  const wheel = packed(folder);
  await createEnvironment(path.join(folder, 'storage'), wheel, log());
  assert.deepEqual(
    calls().slice(-3).map((call) => call.split(' ').at(-1)),
    [`${wheel}[tokens]`, wheel, '--version'],
  );
});

test('the setting replaces the wheel that comes with the extension', { skip }, async (t) => {
  const folder = folderOf(t);
  const calls = pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  settings.package = ' ./my-copy ';
  t.after(() => delete settings.package);
  await createEnvironment(path.join(folder, 'storage'), packed(folder), log());
  assert.ok(calls().at(-2).endsWith(`${PIP} ./my-copy`), calls().at(-2));
  delete settings.package;
  assert.equal(isOutdated(path.join(folder, 'storage'), wheelOf(folder, '1.2.3')), true, 'it has not the wheel');
});

test('a password or a token in the URL of a package is not logged', { skip }, async (t) => {
  const folder = folderOf(t);
  const calls = pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  settings.package = 'penstock @ https://me:hunter2@packages.example/penstock.whl?token=hunter3';
  t.after(() => delete settings.package);
  const recorded = log();
  await createEnvironment(path.join(folder, 'storage'), packed(folder), recorded);
  assert.ok(calls().at(-2).includes('hunter2'), 'pip needs it');
  assert.match(JSON.stringify(recorded), /packages\.example/);
  assert.doesNotMatch(JSON.stringify(recorded), /hunter/);
});

test('without a wheel nothing is installed, and the error says what to do', { skip }, async (t) => {
  const folder = folderOf(t);
  pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  const storage = path.join(folder, 'storage');
  const error = await createEnvironment(storage, wheelOf(folder, '1.2.3'), log()).catch((thrown) => thrown);
  assert.match(error.message, /`make vsix`, or set `penstock\.package` or `penstock\.pythonPath`$/);
  assert.deepEqual([error.reason, fs.existsSync(storage), fs.existsSync(path.join(folder, 'calls'))], ['wheel_not_found', false, false]);
});

test('an environment is outdated if its wheel is another one, even of the same version', { skip }, async (t) => {
  const folder = folderOf(t);
  pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  const storage = path.join(folder, 'storage');
  const wheel = packed(folder);
  assert.equal(isOutdated(storage, wheel), true, 'an earlier version of the extension left no record');
  await createEnvironment(storage, wheel, log());
  assert.equal(isOutdated(storage, wheel), false);
  packed(folder, 'second build');
  assert.equal(isOutdated(storage, wheel), true);
  await createEnvironment(storage, wheel, log());
  assert.equal(isOutdated(storage, wheel), false);
});

test('an environment with the package of the setting is never outdated, nor one of an extension without a wheel', (t) => {
  const folder = folderOf(t);
  assert.equal(isOutdated(folder, wheelOf(folder, '1.2.3')), false);
  const wheel = packed(folder);
  settings.package = './my-copy';
  t.after(() => delete settings.package);
  assert.equal(isOutdated(folder, wheel), false);
});

test('a failed installation leaves no record of the wheel', { skip }, async (t) => {
  const folder = folderOf(t);
  pythons(t, folder, 'echo "no space left"; exit 1');
  withProgress(t, cancellation().token);
  const storage = path.join(folder, 'storage');
  const wheel = packed(folder);
  await assert.rejects(createEnvironment(storage, wheel, log()), /no space left/);
  assert.equal(isOutdated(storage, wheel), true);
});

test('a cancelled installation reports that, not the last output of pip', { skip, timeout: 20_000 }, async (t) => {
  const folder = folderOf(t);
  pythons(t, folder, 'echo "Collecting penstock"; exec tail -f /dev/null');
  const { token, cancel } = cancellation();
  withProgress(t, token);
  const stopping = { ...log(), trace: (text) => text.includes('Collecting') && cancel() };
  const error = await createEnvironment(path.join(folder, 'storage'), packed(folder), stopping).catch((thrown) => thrown);
  assert.deepEqual([error.message, error.reason], ['The installation was cancelled', 'cancelled']);
});

/** The folders of environments in a storage. */
const folders = (storage) => fs.readdirSync(storage).filter((name) => fs.statSync(path.join(storage, name)).isDirectory());

/** An environment that was installed by an earlier version of the extension. */
function firstEnvironment(storage) {
  return program(path.join(storage, 'python', 'bin', 'python'), 'exit 0');
}

const FAILURES = [
  ['pip fails', 'case "$*" in *pip*) echo "no space left"; exit 1;; esac', /no space left/],
  ['the program does not start', 'case "$*" in *--version*) echo "bad library"; exit 1;; esac', /bad library/],
];
for (const [name, script, message] of FAILURES) {
  test(`an update that fails leaves the old environment and removes its own: ${name}`, { skip }, async (t) => {
    const folder = folderOf(t);
    pythons(t, folder, script);
    withProgress(t, cancellation().token);
    const storage = path.join(folder, 'storage');
    const old = firstEnvironment(storage);
    await assert.rejects(createEnvironment(storage, packed(folder), log()), message);
    assert.equal(privatePython(storage), old);
    assert.deepEqual(folders(storage), ['python']);
  });
}

test('a cancelled update leaves the old environment and removes its own', { skip, timeout: 20_000 }, async (t) => {
  const folder = folderOf(t);
  const storage = path.join(folder, 'storage');
  pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  await createEnvironment(storage, packed(folder), log());
  const [old, python] = [folders(storage), privatePython(storage)];
  pythons(t, folder, 'echo "Collecting penstock"; exec tail -f /dev/null');
  const { token, cancel } = cancellation();
  withProgress(t, token);
  const stopping = { ...log(), trace: (text) => text.includes('Collecting') && cancel() };
  await assert.rejects(createEnvironment(storage, packed(folder, 'second build'), stopping), /cancelled/);
  assert.deepEqual([folders(storage), privatePython(storage)], [old, python]);
});

test('an update uses a new folder, and the one before is deleted when nothing uses it', { skip }, async (t) => {
  const folder = folderOf(t);
  pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  const storage = path.join(folder, 'storage');
  const old = firstEnvironment(storage);
  await createEnvironment(storage, packed(folder), log());
  const python = privatePython(storage);
  assert.notEqual(python, old);
  markUsed(storage, [python, old]);
  await removeUnused(storage, log());
  assert.deepEqual([old, python].map((file) => fs.existsSync(file)), [true, true], 'this window uses both');
  markUsed(storage, [python]);
  await removeUnused(storage, log());
  assert.deepEqual([old, python].map((file) => fs.existsSync(file)), [false, true]);
  markUsed(storage, []);
  await removeUnused(storage, log());
  assert.ok(fs.existsSync(python), 'the current one stays');
});

/** The id of a process that has ended. */
const ended = () => spawnSync(process.execPath, ['-e', '']).pid;

test('a folder that another window uses or is installing is not deleted', { skip }, async (t) => {
  const storage = folderOf(t);
  const other = process.ppid;
  const rows = [
    [`python-${other}-a`, ['installed-wheel', `used-by-${other}`], true],
    [`python-${other}-b`, [], true],
    [`python-${other}-c`, ['installed-wheel'], false],
    [`python-${ended()}-d`, [], false],
    [`python-${ended()}-e`, ['installed-wheel', `used-by-${ended()}`], false],
    ['discarded-python-1-f', [], false],
    ['of-the-user', [], true],
  ];
  for (const [name, files] of rows) {
    program(path.join(storage, name, 'bin', 'python'), 'exit 0');
    for (const file of files) fs.writeFileSync(path.join(storage, name, file), '');
  }
  await removeUnused(storage, log());
  assert.deepEqual(folders(storage).sort(), rows.filter(([, , isKept]) => isKept).map(([name]) => name).sort());
});

test('two windows that install at the same time do not disturb each other, and the last one counts', { skip, timeout: 20_000 }, async (t) => {
  const folder = folderOf(t);
  const go = path.join(folder, 'go');
  pythons(t, folder, `case "$*" in *pip*) while [ ! -e "${go}" ]; do :; done;; esac`);
  withProgress(t, cancellation().token);
  const storage = path.join(folder, 'storage');
  const wheel = packed(folder);
  const other = spawn(process.execPath, [path.join(__dirname, 'install_once.js'), storage, wheel], { stdio: 'inherit' });
  const exited = new Promise((resolve) => other.once('exit', resolve));
  const here = createEnvironment(storage, wheel, log());
  await until(() => fs.existsSync(storage) && folders(storage).length === 2);
  await removeUnused(storage, log());
  fs.writeFileSync(go, '');
  assert.deepEqual([await here, await exited], [undefined, 0]);
  assert.equal(folders(storage).length, 2);
  assert.equal(isOutdated(storage, wheel), false);
});

test('a damaged name of the current folder means the first folder', { skip }, (t) => {
  const storage = folderOf(t);
  const old = firstEnvironment(storage);
  for (const name of ['', '../elsewhere', 'python-1-gone', 'python-1-a/../..']) {
    fs.writeFileSync(path.join(storage, 'current-python'), name);
    assert.equal(privatePython(storage), old, name);
  }
});

test('a name is searched for in absolute folders only, and resolved to an absolute path', { skip }, (t) => {
  const folder = folderOf(t);
  const file = program(path.join(folder, 'bin', 'penstock'), 'exit 0');
  fs.mkdirSync(path.join(folder, 'first', 'penstock'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'first', 'python3'), 'no program');
  const searched = ['', '.', path.relative(process.cwd(), path.join(folder, 'bin')), path.join(folder, 'first')];
  const join = (folders) => folders.join(path.delimiter);
  assert.throws(() => programOf('penstock', folder, join(searched)), /no such program on the PATH/);
  assert.equal(programOf('penstock', folder, join([...searched, path.join(folder, 'bin')])), file);
  assert.equal(programOf('bin/penstock', folder, ''), file);
  assert.equal(programOf(file, '/', ''), file);
  assert.throws(() => programOf('first/python3', folder, ''), /no such program/);
});

test('the host has an absolute path, because a gateway is started with it elsewhere', { skip }, async (t) => {
  const folder = folderOf(t);
  const file = penstock(folder, 'good');
  const before = process.env.PATH;
  process.env.PATH = `${path.dirname(file)}${path.delimiter}${before}`;
  t.after(() => (process.env.PATH = before));
  const host = await startHost(folder, { log: log(), cwd: folder });
  t.after(() => host.dispose());
  assert.equal(host.command.file, file);
});

const REASONS = [
  ['dies', /^`penstock\.pythonPath` is \S+, but it exited before it was ready, with exit code 1: No module named penstock: change it/],
  ['other-protocol', /^\S+ is Penstock 9\.0, which uses protocol 2 instead of 1: update this extension$/],
];
for (const [mode, message] of REASONS) {
  test(`the error explains why the configured Python does not work: ${mode}`, { skip }, async (t) => {
    const folder = folderOf(t);
    settings.pythonPath = penstock(folder, mode);
    t.after(() => delete settings.pythonPath);
    const error = await startHost(folder, { log: log() }).catch((thrown) => thrown);
    assert.match(error.message, message);
    assert.deepEqual([error.code, error.stack], ['python_not_found', undefined]);
  });
}
