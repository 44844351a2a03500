// One door to the models: the Python process where there is one, else the gateway itself over HTTP.
// It starts the process when it is first needed and again after it has died, and tells it the configurations.
'use strict';
const { GroupNames, accountOf } = require('./groups');
const { RemoteGateway } = require('./remote');

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {import('./remote').Configuration} Configuration
 * @typedef {import('./host').HostProcess} HostProcess
 */

/** Errors of python.js for "there is nothing to start". */
const MISSING = 'python_not_found';
const AGAIN = 60_000; // looking means starting programs: not for every count of tokens

class Backend {
  /**
   * @param {{ start: () => Promise<HostProcess>, thinking: () => string, log: import('./host').Log,
   *   onMissing?: (error: Error) => void, onRemoteUsage?: (usage: Line) => void, now?: () => number }} needs
   */
  constructor({ start, thinking, log, onMissing, onRemoteUsage, now = Date.now }) {
    this.start = start;
    this.now = now;
    this.thinking = thinking;
    this.log = log;
    this.onMissing = onMissing;
    this.onRemoteUsage = onRemoteUsage;
    this.names = new GroupNames();
    /** @type {Promise<HostProcess> | undefined} */
    this.starting = undefined;
    /** @type {HostProcess | undefined} */
    this.host = undefined;
    /** @type {{ error: Error, at: number } | undefined} */
    this.missing = undefined;
  }

  /** The living process; many who ask at once share one start. @returns {Promise<HostProcess>} */
  session() {
    if (this.host?.isAlive) return Promise.resolve(this.host);
    if (this.missing && this.now() - this.missing.at < AGAIN) return Promise.reject(this.missing.error);
    this.starting ??= this.start()
      .then((host) => (this.host = host))
      .finally(() => (this.starting = undefined));
    return this.starting;
  }

  /**
   * @param {Configuration} configuration @param {string} method @param {Line} fields
   * @param {import('./host').Listening} [listening] @returns {Promise<Line>}
   */
  async request(configuration, method, fields, listening) {
    const group = this.names.nameOf(configuration);
    const host = await this.session().catch((error) => this.without(configuration, error));
    if (host === undefined) return this.askGateway(configuration, method, fields, listening);
    await this.configure(host, group, configuration);
    return host.request(method, { group, ...fields }, listening);
  }

  /** Without Python an endpoint may still be a gateway. @param {Configuration} configuration @param {any} error */
  without(configuration, error) {
    if (error.code !== MISSING) throw error;
    if (this.missing?.error !== error) this.missing = { error, at: this.now() };
    this.onMissing?.(error);
    if (configuration.endpoint === '') throw error;
    return undefined;
  }

  /**
   * @param {Configuration} configuration @param {string} method @param {Line} fields
   * @param {import('./host').Listening} [listening]
   */
  async askGateway(configuration, method, fields, listening) {
    const gateway = new RemoteGateway(configuration);
    // There is no `configure` over HTTP: how thinking is shown goes along with each turn (docs/host.md).
    const asked = method === 'respond' ? { thinking: this.thinking(), ...fields } : fields;
    const done = await gateway.request(method, asked, listening);
    if (done.usage) this.onRemoteUsage?.(done.usage); // over HTTP there is no news: it is told at the end
    return done;
  }

  /** Tells a process of a group, once, and again when thinking is to be shown otherwise. @param {HostProcess} host @param {string} group @param {Configuration} configuration */
  async configure(host, group, configuration) {
    const thinking = this.thinking();
    let known = host.groups.get(group);
    if (known?.thinking !== thinking) {
      known = { thinking, done: host.request('configure', { group, account: accountOf(configuration), thinking, ...configuration }) };
      host.groups.set(group, known);
      const told = known;
      told.done.catch(() => host.groups.get(group) === told && host.groups.delete(group));
    }
    await known.done;
  }

  /** Something has changed: what was not found may be found now. */
  lookAgain() {
    this.missing = undefined;
  }

  /** Ends the process; the next request starts another. */
  async stop() {
    // After a crash the dead one is still here while another starts: that one is meant.
    const host = this.host?.isAlive ? this.host : await this.starting?.catch(() => undefined);
    this.host = undefined;
    this.missing = undefined;
    await host?.dispose();
  }
}

module.exports = { Backend, MISSING };
