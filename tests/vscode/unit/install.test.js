// Which program is started and where, and the error if it does not work. The programs are scripts that record their calls.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { vscode, settings, extension, log, cancellation, scripted } = require('./fake');
const { createEnvironment, isOutdated, wheelOf } = extension('environment.js');
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
  assert.equal(called.length, 3);
  for (const call of called) assert.ok(call.startsWith(`${storage} -I -`), call);
});

const PIP = 'pip install --disable-pip-version-check';

test('pip installs the wheel that comes with the extension by its path, never by its name', { skip }, async (t) => {
  const folder = folderOf(t);
  const calls = pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  const wheel = packed(folder);
  assert.ok(wheel.endsWith('penstock-1.2.3-py3-none-any.whl'));
  await createEnvironment(path.join(folder, 'storage'), wheel, log());
  assert.ok(calls().at(-1).endsWith(`${PIP} ${wheel}`), calls().at(-1));
});

test('the setting replaces the wheel that comes with the extension', { skip }, async (t) => {
  const folder = folderOf(t);
  const calls = pythons(t, folder, 'exit 0');
  withProgress(t, cancellation().token);
  settings.package = ' ./my-copy ';
  t.after(() => delete settings.package);
  await createEnvironment(path.join(folder, 'storage'), packed(folder), log());
  assert.ok(calls().at(-1).endsWith(`${PIP} ./my-copy`), calls().at(-1));
  delete settings.package;
  assert.equal(isOutdated(path.join(folder, 'storage'), wheelOf(folder, '1.2.3')), true, 'it has not the wheel');
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
