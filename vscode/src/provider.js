// The Language Model provider for VS Code. Each method sends a request to the backend and converts the answer.
'use strict';
const vscode = require('vscode');
const { Counts } = require('./counts');
const { asPlain, briefly, plainError } = require('./errors');
const { digestOf, readConfiguration } = require('./groups');
const { modelInformation, optionsToJson } = require('./models');
const { messageToJson, partOfLine, toolToJson, tracedLine } = require('./parts');

const LIST_TTL = 5 * 60_000;
const FAILED_LIST_TTL = 5_000; // the editor asks up to eight times when it starts (editor 11)

/**
 * @typedef {import('./lines').Line} Line
 * @typedef {import('./remote').Configuration} Configuration
 * @typedef {import('vscode').LanguageModelChatInformation & { penstock?: string }} Information
 * @typedef {{ at: number, isFailed: boolean, isSettled: boolean, isRefresh: boolean, list: Promise<Information[]> }} Listing
 */

/** @implements {vscode.LanguageModelChatProvider<Information>} */
class Provider {
  /**
   * @param {{ backend: import('./backend').Backend, log: import('./host').Log, now?: () => number,
   *   journal: import('./journal').Journal, own?: () => Promise<unknown>, isSignedIn?: () => boolean }} needs
   */
  constructor({ backend, log, journal, own, isSignedIn = () => true, now = Date.now }) {
    this.backend = backend;
    this.log = log;
    this.journal = journal;
    this.own = own;
    this.isSignedIn = isSignedIn;
    this.now = now;
    /** @type {Map<string, Configuration>} */
    this.configurations = new Map();
    /** @type {Map<string, Listing>} */
    this.listings = new Map();
    /** @type {Map<string, Information[]>} */
    this.lastGood = new Map();
    this.counts = new Counts();
    this.changed = new vscode.EventEmitter();
    this.onDidChangeLanguageModelChatInformation = /** @type {vscode.Event<void>} */ (this.changed.event);
  }

  /**
   * The editor asks once without a configuration, and once per group with its configuration. Without one the list is empty, or
   * every model would be listed twice; only an editor without groups uses the stored configuration (endpoints.js).
   * @param {vscode.PrepareLanguageModelChatModelOptions & { configuration?: unknown }} options
   * @returns {Promise<Information[]>}
   */
  async provideLanguageModelChatInformation(options) {
    if (!this.isSignedIn()) return [];
    const configuration = readConfiguration(options.configuration ?? (await this.own?.()));
    // Not silent: the user opened "Manage Language Models" and wants a current list.
    return configuration === undefined ? [] : this.modelsOf(configuration, options.silent === false);
  }

  /** @param {Configuration} configuration @param {boolean} isRefresh @returns {Promise<Information[]>} */
  modelsOf(configuration, isRefresh) {
    const digest = digestOf(configuration);
    this.configurations.set(digest, configuration);
    const known = this.listings.get(digest);
    if (known && this.isReusable(known, isRefresh)) return known.list;
    const list = this.fetch(configuration, digest, isRefresh);
    /** @type {Listing} */
    const listing = { at: this.now(), isFailed: false, isSettled: false, isRefresh, list };
    listing.list = listing.list.catch((error) => {
      listing.isFailed = true;
      return this.orLastGood(digest, error);
    });
    const settle = () => (listing.isSettled = true);
    listing.list.then(settle, settle);
    this.listings.set(digest, listing);
    return listing.list;
  }

  /** Returns whether a list can be reused. @param {Listing} known @param {boolean} isRefresh */
  isReusable(known, isRefresh) {
    if (isRefresh) return known.isRefresh && !known.isSettled;
    return this.now() - known.at < (known.isFailed ? FAILED_LIST_TTL : LIST_TTL);
  }

  /** @param {Configuration} configuration @param {string} digest @param {boolean} isRefresh */
  async fetch(configuration, digest, isRefresh) {
    const done = await this.backend.request(configuration, 'models', isRefresh ? { refresh: true } : {});
    const models = (done.models ?? []).map((/** @type {Line} */ model) => modelInformation(model, digest));
    this.lastGood.set(digest, models);
    return /** @type {Information[]} */ (models);
  }

  /** Returns the last good list; without one, throws, and the editor shows the error at the group. @param {string} digest @param {unknown} error */
  orLastGood(digest, error) {
    const plain = asPlain(error);
    this.log.warn(`models: ${briefly(plain)}`);
    const models = this.lastGood.get(digest);
    if (models === undefined) throw plain;
    return models;
  }

  /**
   * Drops the lists, and makes the editor ask again.
   * @param {boolean} [isLearned] whether a limit has changed: a list that is being fetched may have the old one
   */
  refresh(isLearned = false) {
    const outdated = [...this.listings].filter(([, listing]) => listing.isSettled || isLearned);
    for (const [digest] of outdated) this.listings.delete(digest);
    // While a list is being fetched, another notification is caused by that fetch: asking again would only repeat it.
    if (outdated.length > 0) this.changed.fire(undefined);
  }

  /** Forgets the limits that were learned from errors; returns how many. */
  async forgetLimits() {
    let count = 0;
    for (const configuration of this.configurations.values()) {
      const done = await this.backend.request(configuration, 'forget_limits', {});
      count += (done.forgotten ?? []).length;
    }
    if (count > 0) this.refresh(true);
    return count;
  }

  /** Forgets keys and models, after a sign-out. */
  forget() {
    this.configurations.clear();
    this.reload();
  }

  /** Forgets the models and makes the editor ask again. Keeps the keys: a turn may start before the editor asks. */
  reload() {
    this.listings.clear();
    this.lastGood.clear();
    this.counts.clear();
    this.changed.fire(undefined);
  }

  /** @param {Information} model */
  configurationOf(model) {
    const configuration = this.configurations.get(model.penstock ?? '');
    if (configuration !== undefined) return configuration;
    throw plainError(`The endpoint of ${model.name} is no longer known: select the model again`, {
      code: 'group_not_configured',
      kind: 'NotFound',
    });
  }

  /**
   * @param {Information} model @param {readonly vscode.LanguageModelChatRequestMessage[]} messages
   * @param {vscode.ProvideLanguageModelChatResponseOptions} options
   * @param {vscode.Progress<vscode.LanguageModelResponsePart>} progress @param {vscode.CancellationToken} token
   */
  async provideLanguageModelChatResponse(model, messages, options, progress, token) {
    const aborter = new AbortController();
    const subscription = token.onCancellationRequested(() => aborter.abort());
    if (token.isCancellationRequested) aborter.abort();
    const turn = this.journal.begin(model.id);
    try {
      const done = await this.backend.request(this.configurationOf(model), 'respond', requestOf(model, messages, options), {
        signal: aborter.signal,
        onLine: (line) => {
          turn.note(line);
          const part = partOfLine(line);
          if (this.log.logLevel === vscode.LogLevel.Trace) {
            const tools = (options.tools ?? []).map((tool) => tool.name);
            this.log.trace(tracedLine(model.id, line, part !== undefined, tools));
          }
          if (part !== undefined) progress.report(/** @type {vscode.LanguageModelResponsePart} */ (part));
        },
      });
      turn.end(done);
    } catch (error) {
      const plain = asPlain(error);
      turn.fail(plain);
      this.log.error(`${model.id}: ${briefly(plain)}`);
      // VS Code drops text that is followed by an error immediately, so an error as text must not fail the turn.
      if (!aborter.signal.aborted && !plain.isText) throw plain;
    } finally {
      subscription.dispose();
    }
  }

  /**
   * Never throws: the agent counts every piece of its prompt, and one error would fail the turn.
   * @param {Information} model @param {string | vscode.LanguageModelChatRequestMessage} counted
   * @returns {Promise<number>}
   */
  async provideTokenCount(model, counted) {
    const count = async () => {
      const fields = typeof counted === 'string' ? { text: counted } : { message: messageToJson(counted) };
      const done = await this.backend.request(this.configurationOf(model), 'count_tokens', { model: model.id, ...fields });
      return Number(done.tokens);
    };
    try {
      return await (typeof counted === 'string' ? this.counts.of(`${model.penstock}/${model.id}`, counted, count) : count());
    } catch (error) {
      this.log.warn(`tokens are estimated: ${briefly(error)}`);
      return estimateOf(counted);
    }
  }
}

/** Estimates four bytes per token. Returns 0 for what cannot be encoded: the turn reports that error. @param {string | vscode.LanguageModelChatRequestMessage} counted */
function estimateOf(counted) {
  try {
    const encoded = typeof counted === 'string' ? counted : JSON.stringify(messageToJson(counted));
    return Math.ceil(Buffer.byteLength(encoded) / 4);
  } catch {
    return 0;
  }
}

/**
 * @param {Information} model @param {readonly vscode.LanguageModelChatRequestMessage[]} messages
 * @param {vscode.ProvideLanguageModelChatResponseOptions} options @returns {Line}
 */
function requestOf(model, messages, options) {
  return {
    model: model.id,
    messages: messages.map(messageToJson),
    tools: (options.tools ?? []).map(toolToJson),
    tool_mode: options.toolMode ?? 1,
    options: optionsToJson(options),
  };
}

module.exports = { Provider };
