// The walkthrough of package.json: offers it, opens it and completes its steps. VS Code remembers which steps are complete.
'use strict';
const vscode = require('vscode');

const WALKTHROUGH = 'penstock.penstock#start';

/** The context key that completes each step. */
const KEYS = { connect: 'penstock.hasConnected', model: 'penstock.hasUsedModel', usage: 'penstock.hasShownUsage' };

/** The key of the stored fact that the walkthrough was offered or opened. */
const OFFERED = 'penstock.hasOfferedWalkthrough';

class Walkthrough {
  /** @param {vscode.Memento} state */
  constructor(state) {
    this.state = state;
    this.unanswered = 0;
    /** @type {Set<string>} */
    this.complete = new Set();
  }

  async open() {
    await this.state.update(OFFERED, true);
    await vscode.commands.executeCommand('workbench.action.openWalkthrough', WALKTHROUGH, false);
  }

  /** Offers the walkthrough when this was called twice, once per installation. VS Code itself only lists it on its Welcome page. */
  async noEndpoint() {
    this.unanswered += 1;
    if (this.unanswered < 2 || this.complete.has('connect') || this.state.get(OFFERED)) return;
    await this.state.update(OFFERED, true);
    void this.offer();
  }

  async offer() {
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
}

module.exports = { Walkthrough };
