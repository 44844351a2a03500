'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { vscode, settings, extension, log, scripted } = require('./fake');
const { addGroup, forgetOwn, ownConfiguration, addressFault } = extension('endpoints.js');
const { Gateway } = extension('gateway.js');
const { candidates, commandOf, startHost } = extension('python.js');
const manifest = require('../../../vscode/package.json');

/** A folder with Pythons, and a workspace with one of them. */
function places(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'penstock-'));
  const bin = process.platform === 'win32' ? ['Scripts', 'python.exe'] : ['bin', 'python'];
  for (const place of ['workspace/.venv', 'storage/python']) {
    const file = path.join(folder, place, ...bin);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, '');
  }
  vscode.workspace.workspaceFolders = [{ uri: { scheme: 'file', fsPath: path.join(folder, 'workspace') } }];
  const environments = {
    getActiveEnvironmentPath: () => ({ path: 'x' }),
    resolveEnvironment: async () => ({ executable: { uri: { fsPath: '/selected/python' } } }),
  };
  vscode.extensions.getExtension = () => ({ activate: async () => ({ environments }) });
  t.after(() => {
    vscode.workspace.workspaceFolders = [];
    vscode.workspace.isTrusted = true;
    vscode.extensions.getExtension = () => undefined;
    delete settings.pythonPath;
    fs.rmSync(folder, { recursive: true });
  });
  return path.join(folder, 'storage');
}

async function files(storage) {
  const all = [];
  for await (const each of candidates(storage)) all.push(each.file);
  return all;
}

test('Python is searched for on the PATH, as selected, in the workspace, and in the private environment', async (t) => {
  const storage = places(t);
  const found = (await files(storage)).map((file) => file.split(path.sep).slice(-4, -2).join('/') || file);
  assert.equal(found.length, 4);
  assert.equal(found[0], 'penstock');
  assert.deepEqual(found.slice(2), ['workspace/.venv', 'storage/python']);
});

test('programs of a workspace are not run before it is trusted', async (t) => {
  const storage = places(t);
  vscode.workspace.isTrusted = false;
  const found = await files(storage);
  assert.equal(found.length, 2);
  assert.ok(found[1].startsWith(storage));
});

test('if the setting is set, nothing else is tried', async (t) => {
  const storage = places(t);
  settings.pythonPath = ' /my/python ';
  assert.deepEqual(await files(storage), ['/my/python']);
});

test('the program is started directly, a Python with the module', () => {
  for (const file of ['penstock', '/a/bin/penstock', 'penstock.exe']) assert.deepEqual(commandOf(file, '').arguments, []);
  for (const file of ['python3', '/a/penstock/bin/python']) assert.deepEqual(commandOf(file, '').arguments, ['-m', 'penstock']);
});

test('a missing Python is reported in one sentence, and the log has every reason', async (t) => {
  const storage = places(t);
  settings.pythonPath = '/nowhere/python';
  const logged = log();
  const error = await startHost(storage, { log: logged }).catch((thrown) => thrown);
  assert.deepEqual([error.code, error.stack], ['python_not_found', undefined]);
  assert.match(error.message, /^`penstock\.pythonPath` is \/nowhere\/python, but there is no such program: .*Install the Python Backend/);
  assert.ok(logged.entries.some(([, text]) => text.includes('/nowhere/python') && text.includes('no such program')));
});

function context() {
  const state = new Map();
  const secrets = new Map();
  return {
    state,
    globalState: { get: (name) => state.get(name), update: async (name, value) => (value === undefined ? state.delete(name) : state.set(name, value)) },
    secrets: { get: async (name) => secrets.get(name), store: async (name, value) => secrets.set(name, value), delete: async (name) => secrets.delete(name) },
  };
}

const GROUP = { name: 'n', endpoint: 'http://h/v1', apiKey: 'k' };

test('a group is added in an editor with groups', async (t) => {
  t.after(() => ((vscode.commands.known = []), (vscode.commands.calls = [])));
  vscode.commands.known = ['lm.addLanguageModelsProviderGroup'];
  const kept = context();
  await addGroup(kept, GROUP);
  assert.deepEqual(vscode.commands.calls, [['lm.addLanguageModelsProviderGroup', { vendor: 'penstock', ...GROUP }]]);
  assert.equal(await ownConfiguration(kept), undefined);
});

test('an editor without groups stores one configuration, its key separately, and forgets it', async () => {
  const kept = context();
  await addGroup(kept, GROUP);
  assert.ok(!JSON.stringify([...kept.state]).includes('"k"'));
  assert.deepEqual(await ownConfiguration(kept), GROUP);
  await forgetOwn(kept);
  assert.equal(await ownConfiguration(kept), undefined);
  assert.equal(await kept.secrets.get('penstock.configuration'), undefined);
});

test('a URL is validated', () => {
  for (const good of ['http://h', 'https://h:1/v1']) assert.equal(addressFault(good), undefined);
  for (const bad of ['', 'h', 'ftp://h', 'file:///x']) assert.equal(typeof addressFault(bad), 'string');
});

test('a gateway that cannot start reports its last output, and can be started again', async () => {
  const gateway = new Gateway();
  const { file, arguments: words } = scripted('dies');
  const starting = () => gateway.start({ file, arguments: words, label: '' }, undefined);
  await assert.rejects(starting(), /exit code 1\): No module named penstock/);
  assert.equal(gateway.isRunning, false);
  await assert.rejects(starting(), /exit code 1/);
});

test('the folder of a gateway is not searched for modules', async (t) => {
  const gateway = new Gateway();
  t.after(() => gateway.stop());
  const script = 'console.log(`is ready at safe:${process.env.PYTHONSAFEPATH}`); setInterval(() => {}, 1000)';
  const endpoint = await gateway.start({ file: process.execPath, arguments: ['-e', script], label: '' }, undefined);
  assert.equal(endpoint, 'safe:1');
});

test('concurrent starts share one gateway, which is forgotten when it has ended', async () => {
  const gateway = new Gateway();
  const script = "console.log('Penstock is ready at http://127.0.0.1:1/v1'); setInterval(() => {}, 1000)";
  const starting = () => gateway.start({ file: process.execPath, arguments: ['-e', script], label: '' }, undefined);
  assert.deepEqual(await Promise.all([starting(), starting()]), Array(2).fill('http://127.0.0.1:1/v1'));
  await gateway.stop();
  assert.deepEqual([gateway.isRunning, gateway.endpoint], [false, '']);
});

test('the manifest and the code name the same commands and settings', () => {
  const source = fs.readdirSync(path.join(__dirname, '../../../vscode/src')).map((name) => fs.readFileSync(path.join(__dirname, '../../../vscode/src', name), 'utf8'));
  const text = source.join('\n');
  const registered = [...text.matchAll(/^ {2}'(penstock\.\w+)': \(shell\)/gm)].map((match) => match[1]);
  assert.deepEqual(registered.sort(), manifest.contributes.commands.map((each) => each.command).sort());
  const read = new Set([...text.matchAll(/\.get\('(\w+)',/g)].map((match) => `penstock.${match[1]}`));
  assert.deepEqual([...read].sort(), Object.keys(manifest.contributes.configuration.properties).sort());
});
