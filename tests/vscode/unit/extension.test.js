// The whole extension, activated as by the editor, with the scripted host of host_script.js.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { vscode, settings, extension, cancellation, scripted } = require('./fake');
const { activate, deactivate } = extension('extension.js');
const { privatePython, wheelOf } = extension('environment.js');
const { Gateway } = extension('gateway.js');
const manifest = require('../../../vscode/package.json');

const skip = process.platform === 'win32' ? 'the host is started by a shell script' : false;
const CONFIGURATION = { endpoint: 'http://127.0.0.1:9/v1' };

/** @param {string} folder @param {string} mode */
function setHost(folder, mode) {
  const { file, arguments: words } = scripted(mode);
  settings.pythonPath = path.join(folder, mode, 'penstock');
  fs.mkdirSync(path.dirname(settings.pythonPath), { recursive: true });
  fs.writeFileSync(settings.pythonPath, `#!/bin/sh\nexec "${file}" "${words[0]}" ${mode} "$@"\n`, { mode: 0o755 });
}

function context(folder, state = {}) {
  const nothing = async () => undefined;
  return {
    extensionPath: folder,
    extension: { packageJSON: manifest },
    globalStorageUri: { fsPath: folder },
    subscriptions: [],
    globalState: { get: (name) => state[name], update: async (name, value) => void (state[name] = value) },
    secrets: { get: nothing, store: nothing, delete: nothing },
  };
}

/** The activated extension, and what the editor does with it. @param {object} state what it has stored */
function opened(t, mode = 'good', state = {}) {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'penstock-')));
  setHost(folder, mode);
  const items = [];
  const { createStatusBarItem } = vscode.window;
  vscode.window.createStatusBarItem = () => (items.push(createStatusBarItem()), items.at(-1));
  const waiting = new Set();
  activate(context(folder, state), { wait: (later) => (waiting.add(later), () => waiting.delete(later)) });
  const { provider } = vscode.lm;
  t.after(async () => {
    await deactivate();
    Object.assign(vscode.window, { createStatusBarItem, messages: [] });
    vscode.commands.calls = [];
    Object.assign(vscode.workspace, { isTrusted: true, workspaceFolders: [] });
    for (const emitter of [vscode.workspace.trusted, vscode.workspace.changed]) emitter.listeners = [];
    for (const name of Object.keys(settings)) delete settings[name];
    fs.rmSync(folder, { recursive: true, maxRetries: 3 });
  });
  return {
    folder,
    provider,
    bar: items[0],
    waiting,
    becomeQuiet: async () => {
      for (const later of waiting) later();
      await new Promise((resolve) => setImmediate(resolve));
    },
    run: (name) => vscode.commands.registered[`penstock.${name}`](),
    change: (name) => Promise.all(vscode.workspace.changed.listeners.map((hear) => hear({ affectsConfiguration: (each) => each === `penstock.${name}` }))),
    askAll: (...configurations) =>
      [undefined, ...configurations].reduce(
        (before, configuration) => before.then(() => provider.provideLanguageModelChatInformation({ silent: true, configuration })),
        Promise.resolve([]),
      ),
    list: (configuration = CONFIGURATION) => provider.provideLanguageModelChatInformation({ silent: true, configuration }),
    ask: (model, id) => provider.provideLanguageModelChatResponse({ ...model, id }, [], { toolMode: 1 }, { report() {} }, cancellation().token),
  };
}

test('the status bar does not spin for a process that has ended', { skip }, async (t) => {
  const { bar, list, ask } = opened(t);
  const spun = [];
  Object.defineProperty(bar, 'text', { get: () => spun.at(-1), set: (text) => spun.push(text) });
  const [model] = await list();
  await assert.rejects(ask(model, 'crashing'), /has stopped/);
  assert.equal(await ask(model, 'words'), undefined); // the old process has ended completely by now
  assert.deepEqual(spun.map((text) => text.includes('spin')), [true, false]);
});

test('a notification without figures does not hang a turn', { skip, timeout: 20_000 }, async (t) => {
  const { list, ask } = opened(t);
  const [model] = await list();
  assert.equal(await ask(model, 'bad-notification'), undefined);
});

test('a learned limit is announced at once and can be forgotten', { skip }, async (t) => {
  const { provider, list, ask, run } = opened(t);
  const [model] = await list();
  let fired = 0;
  provider.onDidChangeLanguageModelChatInformation(() => (fired += 1));
  await run('forgetLimits');
  assert.equal(fired, 0);
  await assert.rejects(ask(model, 'learning'), /too long/);
  assert.equal(fired, 1);
  await run('forgetLimits');
  await list();
  for (let count = 0; count < 2; count += 1) await assert.rejects(ask(model, 'learning'), /too long/);
  await run('forgetLimits');
  assert.deepEqual(vscode.window.messages, [
    'Penstock: no limit was learned.',
    'Penstock: one learned limit was forgotten.',
    'Penstock: 2 learned limits were forgotten.',
  ]);
});

test('learned limits are forgotten before the editor has listed models, and after a sign-out', { skip }, async (t) => {
  const { list, run } = opened(t, 'learned'); // each process knows a limit when it starts
  await run('forgetLimits');
  await list();
  await run('signOut');
  await run('forgetLimits');
  const [first, , second] = vscode.window.messages;
  assert.deepEqual([first, second], Array(2).fill('Penstock: one learned limit was forgotten.'));
});

test('groups that could not be asked to forget are named', { skip }, async (t) => {
  const { provider, run } = opened(t);
  t.mock.method(provider, 'forgetLimits', async () => ({ count: 1, unreachable: ['one:8', 'two'] }));
  await run('forgetLimits');
  assert.deepEqual(vscode.window.messages, ['Penstock: one learned limit was forgotten, but these endpoints could not be asked: one:8, two.']);
});

test('a turn that comes right after a restart is answered', { skip }, async (t) => {
  const { list, ask, run, change } = opened(t);
  const [model] = await list();
  for (const restart of [() => run('restart'), () => change('logLevel')]) {
    await restart();
    assert.equal(await ask(model, 'words'), undefined);
  }
});

test('granted trust starts a new search for Python', { skip }, async (t) => {
  const { folder, provider, list } = opened(t, 'dies');
  const preset = { preset: 'vercel', apiKey: 'k' };
  await assert.rejects(list(preset), /No module named penstock/);
  setHost(folder, 'good');
  let fired = 0;
  provider.onDidChangeLanguageModelChatInformation(() => (fired += 1));
  vscode.workspace.trusted.fire();
  assert.equal(fired, 1);
  assert.equal((await list(preset)).length, 1);
});

test('the user stays signed out until a command signs in', { skip }, async (t) => {
  const { list, run, change } = opened(t);
  assert.equal((await list()).length, 1);
  await run('signOut');
  await change('logLevel');
  assert.deepEqual(await list(), []);
  await run('addEndpoint'); // and cancels the first question
  assert.deepEqual(await list(), []);
  await run('restart');
  assert.equal((await list()).length, 1);
});

/** A gateway that only records where it would start. */
function gateways(t) {
  const started = [];
  t.mock.method(Gateway.prototype, 'launch', async (_command, cwd) => (started.push(cwd), 'http://127.0.0.1:9/v1'));
  return started;
}

test('no gateway is started in a workspace that is not trusted', { skip }, async (t) => {
  const started = gateways(t);
  const { folder, run } = opened(t);
  vscode.workspace.workspaceFolders = [{ uri: { scheme: 'file', fsPath: folder } }];
  vscode.workspace.isTrusted = false;
  await run('startGateway');
  assert.deepEqual(started, []);
  assert.match(vscode.window.messages[0], /^Penstock: A gateway .* trusted workspace: run "Workspaces: Manage Workspace Trust"$/);
  vscode.workspace.isTrusted = true;
  await run('startGateway');
  assert.deepEqual(started, [folder]);
});

test('the gateway of a virtual workspace runs in the folder of the extension', { skip }, async (t) => {
  const started = gateways(t);
  const { folder, run } = opened(t);
  vscode.workspace.workspaceFolders = [{ uri: { scheme: 'vscode-vfs', fsPath: '/no/such/folder' } }];
  await run('startGateway');
  assert.deepEqual(started, [folder]);
});

test('the editor asks for models again when a gateway is ready', { skip }, async (t) => {
  gateways(t);
  const { provider, list, run } = opened(t);
  await list();
  let fired = 0;
  provider.onDidChangeLanguageModelChatInformation(() => (fired += 1));
  await run('startGateway');
  assert.equal(fired, 1);
});

/** The context keys that were set. */
const keys = () => vscode.commands.calls.filter(([name]) => name === 'setContext').map(([, key, value]) => value && key);

test('"Get Started" opens the walkthrough, also in a workspace that is not trusted', { skip }, async (t) => {
  const { run } = opened(t);
  vscode.workspace.isTrusted = false;
  await run('getStarted');
  const [walkthrough] = manifest.contributes.walkthroughs;
  const id = `${manifest.publisher}.${manifest.name}#${walkthrough.id}`;
  assert.deepEqual(vscode.commands.calls, [['workbench.action.openWalkthrough', id, false]]);
  assert.deepEqual(vscode.window.messages, []);
});

const OFFER = 'Penstock has no endpoint yet, so it offers no models.';

test('without an endpoint the walkthrough is offered once per installation, and a click opens it', { skip }, async (t) => {
  const state = {};
  const { askAll, becomeQuiet } = opened(t, 'good', state);
  const { showInformationMessage } = vscode.window;
  t.after(() => Object.assign(vscode.window, { showInformationMessage }));
  const offers = [];
  vscode.window.showInformationMessage = async (text, button) => (offers.push(text), button);
  for (let time = 0; time < 3; time += 1) await askAll();
  assert.deepEqual(offers, [], 'the groups may still come');
  await becomeQuiet();
  assert.deepEqual(offers, [OFFER]);
  assert.equal(vscode.commands.calls[0][0], 'workbench.action.openWalkthrough');
  await askAll();
  await becomeQuiet();
  await deactivate();
  const { askAll: askLater, becomeQuiet: becomeQuietLater } = opened(t, 'good', state);
  await askLater();
  await becomeQuietLater();
  assert.deepEqual(offers, [OFFER]);
});

test('a group that comes after several requests without one cancels the offer of the walkthrough', { skip }, async (t) => {
  const { askAll, list, becomeQuiet, waiting } = opened(t);
  for (let time = 0; time < 3; time += 1) await askAll();
  assert.equal(waiting.size, 1);
  await list();
  assert.equal(waiting.size, 0);
  await askAll();
  await becomeQuiet();
  assert.deepEqual(vscode.window.messages, []);
});

test('a group without an endpoint and a preset is no endpoint', { skip }, async (t) => {
  const stored = { 'penstock.configuration': { name: 'n', endpoint: ' ' } };
  const { askAll, becomeQuiet } = opened(t, 'good', stored);
  await askAll({}, { apiKey: 'k' }, { endpoint: '', preset: ' ' });
  await becomeQuiet();
  assert.deepEqual([vscode.window.messages, keys()], [[OFFER], []]);
});

test('with an endpoint the walkthrough is not offered, and its first step is complete', { skip }, async (t) => {
  const { askAll, becomeQuiet } = opened(t);
  for (let time = 0; time < 3; time += 1) await askAll(CONFIGURATION);
  await becomeQuiet();
  assert.deepEqual(vscode.window.messages, []);
  assert.deepEqual(keys(), ['penstock.hasConnected']);
});

test('a user who has opened the walkthrough is not offered it', { skip }, async (t) => {
  const { askAll, run, becomeQuiet } = opened(t);
  await askAll();
  await run('getStarted');
  await askAll();
  await becomeQuiet();
  assert.deepEqual(vscode.window.messages, []);
});

test('the first step is complete when the gateway has started', { skip }, async (t) => {
  gateways(t);
  const { run } = opened(t);
  vscode.workspace.isTrusted = false;
  await run('startGateway');
  assert.deepEqual(keys(), []);
  vscode.workspace.isTrusted = true;
  await run('startGateway');
  assert.deepEqual(keys(), ['penstock.hasConnected']);
});

test('the first step is complete when an endpoint was added, not when the question was cancelled', { skip }, async (t) => {
  const { run } = opened(t);
  await run('addEndpoint');
  assert.deepEqual(keys(), []);
  const { showQuickPick, showInputBox } = vscode.window;
  t.after(() => Object.assign(vscode.window, { showQuickPick, showInputBox }));
  vscode.window.showQuickPick = async (items) => items[0];
  vscode.window.showInputBox = async ({ value }) => value ?? '';
  await run('addEndpoint');
  assert.deepEqual(keys(), ['penstock.hasConnected']);
});

test('the second step is complete when a model has answered, once', { skip }, async (t) => {
  const { list, ask } = opened(t);
  const [model] = await list();
  await assert.rejects(ask(model, 'refused'), /Wait 3 s/);
  assert.deepEqual(keys(), []);
  for (let turn = 0; turn < 2; turn += 1) await ask(model, 'used');
  assert.deepEqual(keys(), ['penstock.hasConnected', 'penstock.hasUsedModel']);
});

test('the third step is complete when usage was shown', { skip }, async (t) => {
  const { run } = opened(t);
  vscode.Uri = { from: (parts) => parts };
  t.after(() => delete vscode.Uri);
  await run('showUsage');
  assert.deepEqual(keys(), ['penstock.hasShownUsage']);
});

/** A program that runs the scripted host, like the Python of an environment with Penstock. @param {string} first a line before that */
function python(file, first = '') {
  const { file: node, arguments: words } = scripted('good');
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, `#!/bin/sh\n${first}\nexec "${node}" "${words[0]}" good "$@"\n`, { mode: 0o755 });
  return file;
}

/** An extension with a wheel, on a machine where only programs of `bin` are found. */
function withWheel(t, folder) {
  const wheel = wheelOf(folder, manifest.version);
  fs.mkdirSync(path.dirname(wheel));
  fs.writeFileSync(wheel, 'a wheel');
  const before = process.env.PATH;
  process.env.PATH = path.join(folder, 'bin');
  t.after(() => (process.env.PATH = before));
  delete settings.pythonPath;
}

test('an update is offered once if the private environment is not that of this extension', { skip }, async (t) => {
  const { folder, list, run } = opened(t);
  withWheel(t, folder);
  python(path.join(folder, 'python', 'bin', 'python'));
  const { showInformationMessage } = vscode.window;
  t.after(() => Object.assign(vscode.window, { showInformationMessage }));
  const offers = [];
  vscode.window.showInformationMessage = async (text, button) => (offers.push(text), button);
  assert.equal((await list()).length, 1);
  await run('restart');
  assert.equal((await list()).length, 1);
  assert.deepEqual(offers, ['Penstock: the Python backend (0.1) was not installed by this version of the extension.']);
  assert.deepEqual(vscode.commands.calls, [['penstock.install']]);
});

test('no update is offered for a Python that is not the private environment', { skip }, async (t) => {
  const { folder, list } = opened(t);
  withWheel(t, folder);
  python(path.join(folder, 'python', 'bin', 'python'));
  python(path.join(folder, 'bin', 'penstock'));
  assert.equal((await list()).length, 1);
  assert.deepEqual(vscode.window.messages, []);
});

/** A `python3` whose environments run the scripted host, and `install` as pip. Returns a function that lists the created environments. */
function withPython3(t, folder, install = '') {
  const source = python(path.join(folder, 'source'), `case "$*" in *pip*) ${install};; esac`);
  const created = path.join(folder, 'created');
  const create = `for last; do :; done; echo "$last" >> "${created}"; /bin/mkdir -p "$last/bin"; /bin/cp "${source}" "$last/bin/python"`;
  const script = `#!/bin/sh\ncase "$*" in *version_info*) echo new;; *venv*) ${create};; esac\n`;
  fs.mkdirSync(path.join(folder, 'bin'));
  fs.writeFileSync(path.join(folder, 'bin', 'python3'), script, { mode: 0o755 });
  vscode.window.withProgress = (_options, task) => task({ report() {} }, cancellation().token);
  t.after(() => delete vscode.window.withProgress);
  return () => fs.readFileSync(created, 'utf8').trim().split('\n');
}

test('a gateway offers to install a missing Python, and starts after the installation', { skip }, async (t) => {
  const started = gateways(t);
  const { folder, run } = opened(t);
  withWheel(t, folder);
  withPython3(t, folder);
  await run('startGateway');
  await run('startGateway');
  assert.deepEqual(vscode.window.messages.map((text) => /No Python with Penstock was found/.test(text)), [true, true]);
  assert.deepEqual(started, []);
  const { showWarningMessage } = vscode.window;
  t.after(() => Object.assign(vscode.window, { showWarningMessage }));
  vscode.window.showWarningMessage = async (_text, install) => install;
  await run('startGateway');
  assert.deepEqual(started, [folder]);
});

test('a request during an installation waits for it, and concurrent installations are one', { skip }, async (t) => {
  const { folder, list, run } = opened(t);
  withWheel(t, folder);
  const created = withPython3(t, folder);
  const both = [run('install'), run('install')];
  assert.equal((await list({ preset: 'vercel', apiKey: 'k' })).length, 1);
  await Promise.all(both);
  assert.deepEqual(created().map((each) => path.join(each, 'bin', 'python')), [privatePython(folder)]);
  assert.deepEqual(vscode.window.messages, Array(2).fill('Penstock: the Python backend is installed and running.'));
});

/** Accepts every offer of an update. Returns the offers, and a function that waits for the installations. */
function accepting(t) {
  const { showInformationMessage } = vscode.window;
  const { executeCommand } = vscode.commands;
  t.after(() => (Object.assign(vscode.window, { showInformationMessage }), Object.assign(vscode.commands, { executeCommand })));
  const offers = [];
  const installs = [];
  vscode.window.showInformationMessage = async (text, button) => (button && offers.push(text), button);
  vscode.commands.executeCommand = async (name) => name === 'penstock.install' && installs.push(vscode.commands.registered[name]());
  return { offers, installed: () => Promise.all(installs) };
}

test('a failed update leaves the old environment running and is offered again', { skip }, async (t) => {
  const { folder, list, run } = opened(t);
  withWheel(t, folder);
  const old = python(path.join(folder, 'python', 'bin', 'python'));
  withPython3(t, folder, 'echo "no space left"; exit 1');
  const { offers, installed } = accepting(t);
  assert.equal((await list()).length, 1);
  await installed();
  assert.deepEqual(vscode.window.messages, ['Penstock: no space left']);
  assert.equal(privatePython(folder), old);
  const [model] = await list();
  assert.equal(model.id, 'm');
  assert.equal(offers.length, 1);
  await run('restart');
  assert.equal((await list()).length, 1);
  await installed();
  assert.equal(offers.length, 2);
});

test('an update does not delete the environment that the gateway of this window runs from', { skip }, async (t) => {
  const { folder, run } = opened(t);
  withWheel(t, folder);
  const old = python(path.join(folder, 'python', 'bin', 'python'));
  withPython3(t, folder);
  const stopped = [];
  t.mock.method(Gateway.prototype, 'launch', async function launch(command) {
    this.program = command.file;
    return 'http://127.0.0.1:9/v1';
  });
  t.mock.method(Gateway.prototype, 'stop', async function stop() {
    stopped.push(this.program);
    this.program = undefined;
  });
  await run('startGateway');
  await run('install');
  assert.notEqual(privatePython(folder), old);
  assert.deepEqual([fs.existsSync(old), fs.existsSync(path.join(folder, 'python', `used-by-${process.pid}`))], [true, true]);
  await run('stopGateway');
  assert.deepEqual(stopped, [old]);
  await run('install');
  while (fs.existsSync(old)) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(fs.existsSync(privatePython(folder)));
});
