// The walkthrough of package.json: offers it, opens it and completes its steps. VS Code remembers which steps are complete.
'use strict';
const vscode = require('vscode');

const WALKTHROUGH = 'penstock.penstock#start';

/** The context key that completes each step. */
const KEYS = { connect: 'penstock.hasConnected', model: 'penstock.hasUsedModel', usage: 'penstock.hasShownUsage' };

/** The key of the stored fact that the walkthrough was offered or opened. */
const OFFERED = 'penstock.hasOfferedWalkthrough';

const QUIET = 5_000; // the editor asks for its groups within a second, but a machine may be busy

/** @typedef {(run: () => void) => () => void} Wait runs something later; returns a function that cancels that */

/** @type {Wait} */
function whenQuiet(run) {
  const timer = setTimeout(run, QUIET);
  return () => clearTimeout(timer);
}

class Walkthrough {
  /** @param {vscode.Memento} state @param {Wait} [wait] */
  constructor(state, wait = whenQuiet) {
    this.state = state;
    this.wait = wait;
    this.hasEndpoint = false;
    /** Cancels the offer that is waiting, if any. */
    this.cancel = () => {};
    /** @type {Set<string>} */
    this.complete = new Set();
  }

  async open() {
    await this.state.update(OFFERED, true);
    await vscode.commands.executeCommand('workbench.action.openWalkthrough', WALKTHROUGH, false);
  }

  /**
   * Offers the walkthrough, once per installation, unless an endpoint is found in a while: the editor asks without a group first.
   * VS Code itself only lists it on its Welcome page.
   */
  offerUnlessConnected() {
    this.cancel();
    if (this.mayOffer()) this.cancel = this.wait(() => void (this.mayOffer() && this.offer()));
  }

  /** The editor has asked for the models of an endpoint, so this is not a new user. */
  endpointFound() {
    this.hasEndpoint = true;
    this.cancel();
  }

  mayOffer() {
    return !this.hasEndpoint && !this.complete.has('connect') && !this.state.get(OFFERED);
  }

  async offer() {
    await this.state.update(OFFERED, true);
    const start = 'Get Started';
    const answer = await vscode.window.showInformationMessage('Penstock has no endpoint yet, so it offers no models.', start);
    if (answer === start) await this.open();
  }

  /** Completes steps, each only once: usage changes often. @param {Array<keyof typeof KEYS>} steps */
  completed(...steps) {
    for (const step of steps) {
      if (this.complete.has(step)) continue;
      this.complete.add(step);
      void vscode.commands.executeCommand('setContext', KEYS[step], true);
    }
  }

  dispose() {
    this.cancel();
  }
}

module.exports = { Walkthrough };
