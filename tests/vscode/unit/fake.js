// A fake `vscode` module with what the extension needs.
'use strict';
const Module = require('node:module');
const path = require('node:path');

class TextPart {
  constructor(value) {
    this.value = value;
  }
}
class ToolCallPart {
  constructor(callId, name, input) {
    Object.assign(this, { callId, name, input });
  }
}
class ToolResultPart {
  constructor(callId, content) {
    Object.assign(this, { callId, content });
  }
}
class PromptTsxPart {
  constructor(value) {
    this.value = value;
  }
}
class DataPart {
  constructor(data, mimeType) {
    Object.assign(this, { data, mimeType });
  }
}
class ThinkingPart {
  constructor(value, id, metadata) {
    Object.assign(this, { value, id, metadata });
  }
}
class MarkdownString {
  constructor(value) {
    this.value = value;
  }
}
class EventEmitter {
  constructor() {
    this.listeners = [];
    this.event = (listener) => {
      this.listeners.push(listener);
      return { dispose: () => this.listeners.splice(this.listeners.indexOf(listener), 1) };
    };
  }
  fire(value) {
    for (const listener of [...this.listeners]) listener(value);
  }
}

const settings = {};

const vscode = {
  LanguageModelTextPart: TextPart,
  LanguageModelToolCallPart: ToolCallPart,
  LanguageModelToolResultPart: ToolResultPart,
  LanguageModelPromptTsxPart: PromptTsxPart,
  LanguageModelDataPart: DataPart,
  LanguageModelThinkingPart: ThinkingPart,
  MarkdownString,
  EventEmitter,
  LogLevel: { Trace: 1, Debug: 2, Info: 3 },
  StatusBarAlignment: { Right: 2 },
  ProgressLocation: { Notification: 15 },
  extensions: { getExtension: () => undefined },
  commands: {
    calls: [],
    known: [],
    registered: {},
    getCommands: async () => vscode.commands.known,
    executeCommand: async (...words) => vscode.commands.calls.push(words),
    registerCommand: (name, run) => ((vscode.commands.registered[name] = run), { dispose() {} }),
  },
  lm: { provider: undefined, registerLanguageModelChatProvider: (_vendor, provider) => ((vscode.lm.provider = provider), { dispose() {} }) },
  window: {
    createStatusBarItem: () => ({ isShown: false, show() { this.isShown = true; }, hide() { this.isShown = false; }, dispose() {} }),
    createOutputChannel: () => ({ ...log(), lines: [], appendLine(line) { this.lines.push(line); }, show() {}, dispose() {} }),
    /** The messages shown to the user, who answers nothing unless a test changes that. */
    messages: [],
    showInformationMessage: async (text) => void vscode.window.messages.push(text),
    showWarningMessage: async (text) => void vscode.window.messages.push(text),
    showErrorMessage: async (text) => void vscode.window.messages.push(text),
    showQuickPick: async () => undefined,
    showInputBox: async () => undefined,
  },
  workspace: {
    isTrusted: true,
    workspaceFolders: [],
    trusted: new EventEmitter(),
    changed: new EventEmitter(),
    fs: { createDirectory: async () => {} },
    getConfiguration: () => ({ get: (name, otherwise) => settings[name] ?? otherwise }),
    registerTextDocumentContentProvider: () => ({ dispose() {} }),
    onDidGrantWorkspaceTrust: (listener) => vscode.workspace.trusted.event(listener),
    onDidChangeConfiguration: (listener) => vscode.workspace.changed.event(listener),
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));

/** Loads a file of the extension. */
const extension = (name) => require(path.join(__dirname, '..', '..', '..', 'vscode', 'src', name));

/** A log that records its entries. */
function log() {
  const entries = [];
  const write = (level) => (text) => entries.push([level, text]);
  return { entries, trace: write('trace'), debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

/** A cancellation token, and a function to fire it. */
function cancellation() {
  const emitter = new EventEmitter();
  const token = { isCancellationRequested: false, onCancellationRequested: emitter.event };
  return {
    token,
    emitter,
    cancel() {
      token.isCancellationRequested = true;
      emitter.fire();
    },
  };
}

/** The command that starts host_script.js in a mode. */
const scripted = (mode) => ({ file: process.execPath, arguments: [path.join(__dirname, 'host_script.js'), mode], label: mode });

module.exports = { vscode, settings, extension, log, cancellation, scripted };
