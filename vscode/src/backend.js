// Access to the models: through the Python process if there is one, else directly through the gateway over HTTP.
// Starts the process when it is first needed and restarts it after a crash, and sends it the configurations.
'use strict';
const { briefly } = require('./errors');
const { GroupNames, accountOf } = require('./groups');
const { RemoteGateway } = require('./remote');

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {import('./remote').Configuration} Configuration
 * @typedef {import('./host').HostProcess} HostProcess
 */

/** The error code of python.js if there is nothing to start. */
const MISSING = 'python_not_found';
const OVERFLOW = 'context_length_exceeded';
const RETRY_AFTER = 60_000; // a search starts programs, so do not repeat it for every token count

class Backend {
  /**
   * @param {{ start: () => Promise<HostProcess>, settings: () => Line, log: import('./host').Log,
   *   onMissing?: (error: Error) => void, onRemoteUsage?: (usage: Line) => void, onRemoteOverflow?: () => void,
   *   now?: () => number }} needs
   */
  constructor({ start, settings, log, onMissing, onRemoteUsage, onRemoteOverflow, now = Date.now }) {
    this.start = start;
    this.now = now;
    this.settings = settings;
    this.log = log;
    this.onMissing = onMissing;
    this.onRemoteUsage = onRemoteUsage;
    this.onRemoteOverflow = onRemoteOverflow;
    this.names = new GroupNames();
    /** @type {Promise<HostProcess> | undefined} */
    this.starting = undefined;
    /** @type {HostProcess | undefined} */
    this.host = undefined;
    /** @type {{ error: Error, at: number } | undefined} */
    this.missing = undefined;
  }

  /** Returns the running process. Concurrent callers share one start. @returns {Promise<HostProcess>} */
  session() {
    if (this.host?.isAlive) return Promise.resolve(this.host);
    if (this.missing && this.now() - this.missing.at < RETRY_AFTER) return Promise.reject(this.missing.error);
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
    const host = await this.session().catch((error) => this.handleMissingPython(configuration, error));
    if (host === undefined) return this.askGateway(configuration, method, fields, listening);
    await this.configure(host, group, configuration);
    return host.request(method, { group, ...fields }, listening);
  }

  /** Returns undefined if the endpoint may be a gateway, which needs no Python; throws otherwise. @param {Configuration} configuration @param {any} error */
  handleMissingPython(configuration, error) {
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
    // There is no `configure` over HTTP, so each turn has the settings (docs/host.md).
    const request = method === 'respond' ? { ...this.settings(), ...fields } : fields;
    const done = await gateway.request(method, request, listening).catch((error) => {
      // The gateway may have learned the limit, and cannot notify.
      if (error.reason === OVERFLOW) this.onRemoteOverflow?.();
      throw error;
    });
    if (done.usage) this.onRemoteUsage?.(done.usage); // over HTTP usage is sent only at the end
    return done;
  }

  /**
   * Forgets learned limits: all of the process; without Python, those of each gateway, one after the other.
   * @param {Configuration[]} configurations @returns {Promise<{ count: number, unreachable: string[] }>} how many, and the groups
   *   that could not be asked
   */
  async forgetLimits(configurations) {
    const host = await this.session().catch((error) => {
      if (error.code !== MISSING || configurations.length === 0) throw error;
    });
    const countOf = (/** @type {Line} */ done) => (done.forgotten ?? []).length;
    // Without a group: also of endpoints that this window does not know (yet).
    if (host) return { count: countOf(await host.request('forget_limits', {})), unreachable: [] };
    const forgotten = { count: 0, unreachable: /** @type {string[]} */ ([]) };
    for (const configuration of configurations) {
      try {
        forgotten.count += countOf(await this.request(configuration, 'forget_limits', {}));
      } catch (error) {
        this.log.warn(`learned limits: ${briefly(error)}`); // an older gateway does not know this request
        forgotten.unreachable.push(this.names.nameOf(configuration));
      }
    }
    return forgotten;
  }

  /** Configures a group in the process once, and again if a setting has changed. @param {HostProcess} host @param {string} group @param {Configuration} configuration */
  async configure(host, group, configuration) {
    const settings = this.settings();
    const digest = JSON.stringify(settings);
    let known = host.groups.get(group);
    if (known?.settings !== digest) {
      const account = accountOf(configuration);
      known = { settings: digest, done: host.request('configure', { group, account, ...settings, ...configuration }) };
      host.groups.set(group, known);
      const sent = known;
      sent.done.catch(() => host.groups.get(group) === sent && host.groups.delete(group));
    }
    await known.done;
  }

  /** Allows a new search for Python, after something has changed. */
  lookAgain() {
    this.missing = undefined;
  }

  /** Stops the process; the next request starts a new one. */
  async stop() {
    // After a crash, `host` is the old process while a new one starts: stop the new one.
    const host = this.host?.isAlive ? this.host : await this.starting?.catch(() => undefined);
    this.host = undefined;
    this.missing = undefined;
    await host?.dispose();
  }
}

module.exports = { Backend, MISSING };
