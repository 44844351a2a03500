// The entry point: creates the objects and registers the commands.
'use strict';
const vscode = require('vscode');
const { Backend, MISSING } = require('./backend');
const { turnSettings } = require('./editor');
const { addGroup, askEndpoint, forgetOwn, openManagement, ownConfiguration } = require('./endpoints');
const { createEnvironment, isOutdated, markUsed, privatePython, removeUnused, wheelOf } = require('./environment');
const { asPlain, plainError } = require('./errors');
const { Gateway } = require('./gateway');
const { readConfiguration } = require('./groups');
const { Journal } = require('./journal');
const { Provider } = require('./provider');
const { startHost } = require('./python');
const { Pages, showRecent, showUsage } = require('./recent');
const { Status } = require('./status');
const { Walkthrough } = require('./walkthrough');

const settings = () => vscode.workspace.getConfiguration('penstock');

const UNTRUSTED =
  'A gateway runs with the penstock.toml of its folder, so it is started only in a trusted workspace: ' +
  'run "Workspaces: Manage Workspace Trust"';

/** Returns a folder to run a gateway in: a virtual workspace has a path, but no folder on disk. */
const folderOnDisk = () => vscode.workspace.workspaceFolders?.find((each) => each.uri.scheme === 'file')?.uri.fsPath;

const RESTARTING = ['penstock.pythonPath', 'penstock.logLevel'];

/** Everything that lives as long as the extension. */
class Shell {
  /** @param {vscode.ExtensionContext} context @param {{ wait?: import('./walkthrough').Wait }} needs */
  constructor(context, { wait }) {
    this.context = context;
    this.storage = context.globalStorageUri.fsPath;
    this.wheel = wheelOf(context.extensionPath, context.extension.packageJSON.version);
    this.log = vscode.window.createOutputChannel('Penstock', { log: true });
    this.status = new Status();
    this.journal = new Journal();
    this.pages = new Pages();
    this.gateway = new Gateway();
    this.walkthrough = new Walkthrough(context.globalState, wait);
    this.hasOfferedInstall = false;
    /** @type {Promise<void> | undefined} */
    this.installing = undefined;
    this.isSignedOut = false;
    this.backend = new Backend({
      log: this.log,
      settings: () => turnSettings(settings()),
      start: () => this.startHost(),
      onMissing: (error) => this.offerInstall(error),
      onRemoteUsage: (usage) => this.usageChanged(usage),
      onRemoteOverflow: () => this.provider.refresh(true),
    });
    this.provider = new Provider({
      backend: this.backend,
      log: this.log,
      journal: this.journal,
      own: () => this.ownConfiguration(),
      onEndpoint: () => this.walkthrough.endpointFound(),
      isSignedIn: () => !this.isSignedOut,
    });
  }

  /** The editor asks for this before it asks for its groups, if there are any. */
  async ownConfiguration() {
    const own = await ownConfiguration(this.context);
    const hasEndpoint = readConfiguration(own) !== undefined || this.provider.configurations.size > 0;
    if (hasEndpoint) this.walkthrough.completed('connect');
    else this.walkthrough.offerUnlessConnected();
    return own;
  }

  async startHost() {
    await this.installing?.catch(() => {}); // an incomplete environment does not work
    await vscode.workspace.fs.createDirectory(this.context.globalStorageUri);
    markUsed(this.storage, [privatePython(this.storage), this.gateway.program]); // before it starts, another window may delete it
    const host = await startHost(this.storage, {
      cwd: this.storage, // not the workspace: Python would run a file `penstock.py` in it
      log: this.log,
      level: settings().get('logLevel', 'info'),
      onNotification: (line) => this.onNotification(line),
      onEnd: () => this.hostEnded(),
    });
    markUsed(this.storage, [host.command.file, this.gateway.program]);
    removeUnused(this.storage, this.log).catch((error) => this.log.info(asPlain(error).message));
    if (host.command.file === privatePython(this.storage) && isOutdated(this.storage, this.wheel)) this.offerUpdate(host.version);
    return host;
  }

  /** Clears the running requests: they have ended with the process. */
  hostEnded() {
    this.log.info('the Python backend has stopped');
    this.status.update({ ...this.status.usage, running: [] });
  }

  /** Searches again: environments in the workspace may be used now. */
  trustGranted() {
    this.backend.lookAgain();
    this.provider.refresh();
  }

  /** @param {import('./lines').Line} line */
  onNotification(line) {
    if (line.type === 'usage_changed') this.usageChanged(line.usage);
    else if (line.type === 'models_changed') this.provider.refresh(line.reason === 'limits');
  }

  /** @param {import('./lines').Line} usage */
  usageChanged(usage) {
    this.status.update(usage);
    if (usage.last?.outcome === 'completed') this.walkthrough.completed('connect', 'model');
  }

  /** Offers the installation once per window. @param {Error} error */
  async offerInstall(error) {
    if (this.hasOfferedInstall) return;
    this.hasOfferedInstall = true;
    if (await this.wantsInstall(error)) await vscode.commands.executeCommand('penstock.install');
  }

  /** @param {Error} error @returns {Promise<boolean>} */
  async wantsInstall(error) {
    const [install, log] = ['Install', 'Show the Log'];
    const answer = await vscode.window.showWarningMessage(error.message, install, log);
    if (answer === log) this.log.show();
    return answer === install;
  }

  /** Offers the Penstock that comes with this version of the extension, once per window. @param {string} version the installed one */
  async offerUpdate(version) {
    if (this.hasOfferedInstall) return;
    this.hasOfferedInstall = true;
    const update = 'Update';
    const message = `Penstock: the Python backend (${version}) was not installed by this version of the extension.`;
    if ((await vscode.window.showInformationMessage(message, update)) === update) await vscode.commands.executeCommand('penstock.install');
  }

  /** Creates a new private environment. The old one keeps running until then. */
  async replaceEnvironment() {
    await this.backend.starting?.catch(() => {}); // a start that begins after this waits for the installation
    try {
      await createEnvironment(this.storage, this.wheel, this.log);
    } catch (error) {
      // Who cancels does not want another offer.
      if (asPlain(error).reason !== 'cancelled') this.hasOfferedInstall = false;
      throw error;
    }
    if (this.backend.host?.isAlive) await this.backend.stop();
  }

  /** Concurrent callers share one installation. */
  async install() {
    this.installing ??= this.replaceEnvironment().finally(() => (this.installing = undefined));
    await this.installing;
    this.isSignedOut = false;
    this.backend.lookAgain();
    this.provider.reload();
    await this.backend.session();
    vscode.window.showInformationMessage('Penstock: the Python backend is installed and running.');
  }

  /** Signs in again and restarts. Only for commands: a changed setting must not sign in. */
  async signIn() {
    this.isSignedOut = false;
    await this.restart();
  }

  async restart() {
    await this.backend.stop();
    this.provider.reload();
  }

  async addEndpoint() {
    const group = await askEndpoint(this.gateway.endpoint, settings().get('gatewayPort', 8080));
    if (group !== undefined) await this.add(group);
  }

  /** @param {{ name: string, endpoint?: string, preset?: string, apiKey?: string }} group */
  async add(group) {
    this.isSignedOut = false; // first: the editor requests the models immediately
    await addGroup(this.context, group);
    this.walkthrough.completed('connect');
    this.provider.reload();
  }

  /** Returns the running process. If Python is missing, asks whether to install it; returns undefined if not. */
  async sessionOrInstall() {
    try {
      return await this.backend.session();
    } catch (error) {
      const plain = asPlain(error);
      if (plain.code !== MISSING) throw plain;
      if (!(await this.wantsInstall(plain))) return undefined;
    }
    await this.install();
    return this.backend.session();
  }

  async startGateway() {
    if (!vscode.workspace.isTrusted) throw plainError(UNTRUSTED, { code: 'untrusted_workspace' });
    const host = await this.sessionOrInstall();
    if (host === undefined) return;
    const endpoint = await this.gateway.start(host.command, folderOnDisk() ?? this.storage);
    this.walkthrough.completed('connect');
    this.provider.refresh(); // a group that uses it may have failed before
    const [add, log] = ['Add Its Models', 'Show Its Log'];
    const answer = await vscode.window.showInformationMessage(`Penstock: the gateway is ready at ${endpoint}`, add, log);
    if (answer === log) this.gateway.output?.show();
    if (answer !== add) return;
    await this.add({ name: 'Local gateway', endpoint });
  }

  async showUsage() {
    await showUsage(this.status.usage, this.pages);
    this.walkthrough.completed('usage');
  }

  async stopGateway() {
    await this.gateway.stop();
    vscode.window.showInformationMessage('Penstock: the gateway has stopped.');
  }

  async forgetLimits() {
    const { count, unreachable } = await this.provider.forgetLimits();
    const what = count === 1 ? 'one learned limit was' : `${count} learned limits were`;
    if (unreachable.length > 0) {
      vscode.window.showWarningMessage(`Penstock: ${what} forgotten, but these endpoints could not be asked: ${unreachable.join(', ')}.`);
    } else vscode.window.showInformationMessage(count === 0 ? 'Penstock: no limit was learned.' : `Penstock: ${what} forgotten.`);
  }

  /** Forgets what the extension can forget. Groups and their keys belong to VS Code; only the user can delete them. */
  async signOut() {
    this.isSignedOut = true;
    await this.backend.stop();
    await forgetOwn(this.context);
    this.provider.forget();
    const manage = 'Manage Language Models';
    const answer = await vscode.window.showInformationMessage(
      'Penstock has forgotten its keys and models for this window. VS Code still stores the groups with their keys: to sign out permanently, delete them there.',
      manage,
    );
    if (answer === manage) await openManagement();
  }

  /** @param {vscode.ConfigurationChangeEvent} event */
  async configurationChanged(event) {
    if (event.affectsConfiguration('penstock.statusBar')) this.status.update(this.status.usage);
    if (RESTARTING.some((name) => event.affectsConfiguration(name))) await this.restart();
  }

  async dispose() {
    this.gateway.dispose();
    await this.backend.stop();
    markUsed(this.storage, []);
  }
}

/** @type {Record<string, (shell: Shell) => unknown>} */
const COMMANDS = {
  'penstock.getStarted': (shell) => shell.walkthrough.open(),
  'penstock.addEndpoint': (shell) => shell.addEndpoint(),
  'penstock.restart': (shell) => shell.signIn(),
  'penstock.install': (shell) => shell.install(),
  'penstock.startGateway': (shell) => shell.startGateway(),
  'penstock.stopGateway': (shell) => shell.stopGateway(),
  'penstock.showUsage': (shell) => shell.showUsage(),
  'penstock.showRecent': (shell) => showRecent(shell.journal, shell.pages),
  'penstock.forgetLimits': (shell) => shell.forgetLimits(),
  'penstock.showLog': (shell) => shell.log.show(),
  'penstock.signOut': (shell) => shell.signOut(),
};

/** Runs a command and shows its error as a notification. @param {Shell} shell @param {(shell: Shell) => unknown} run */
const guarded = (shell, run) => async () => {
  try {
    await run(shell);
  } catch (error) {
    shell.log.error(asPlain(error).message);
    vscode.window.showErrorMessage(`Penstock: ${asPlain(error).message}`);
  }
};

/** @type {Shell | undefined} */
let current;

/** @param {vscode.ExtensionContext} context @param {{ wait?: import('./walkthrough').Wait }} [needs] for tests */
function activate(context, needs = {}) {
  const shell = (current = new Shell(context, needs));
  context.subscriptions.push(
    shell.log,
    shell.status,
    shell.pages,
    shell.walkthrough,
    vscode.workspace.onDidChangeConfiguration((event) => shell.configurationChanged(event)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => shell.trustGranted()),
    vscode.lm.registerLanguageModelChatProvider('penstock', shell.provider),
    ...Object.entries(COMMANDS).map(([name, run]) => vscode.commands.registerCommand(name, guarded(shell, run))),
  );
}

const deactivate = () => current?.dispose();

module.exports = { activate, deactivate };
