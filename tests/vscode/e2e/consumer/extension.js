// Uses language models like any extension, controlled by tests: each order is a file in a folder, and its answer is written
// next to it. The folder is in the environment.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vscode = require('vscode');

const FOLDER = process.env.PENSTOCK_E2E_ORDERS ?? '';
const VENDOR = 'penstock';

/** What kind of part it is, in JSON. */
function partToJson(part) {
  if (part instanceof vscode.LanguageModelTextPart) return { type: 'text', value: part.value };
  if (part instanceof vscode.LanguageModelToolCallPart) {
    return { type: 'tool_call', callId: part.callId, name: part.name, input: part.input };
  }
  if (part instanceof vscode.LanguageModelDataPart) {
    return { type: 'data', mime: part.mimeType, base64: Buffer.from(part.data).toString('base64') };
  }
  if (vscode.LanguageModelThinkingPart && part instanceof vscode.LanguageModelThinkingPart) {
    return { type: 'thinking', value: part.value, id: part.id, metadata: part.metadata };
  }
  return { type: 'unknown' };
}

const PARTS = {
  text: ({ value }) => new vscode.LanguageModelTextPart(value),
  tool_call: ({ callId, name, input }) => new vscode.LanguageModelToolCallPart(callId, name, input),
  tool_result: ({ callId, value }) => new vscode.LanguageModelToolResultPart(callId, [new vscode.LanguageModelTextPart(value)]),
  data: ({ mime, base64 }) => new vscode.LanguageModelDataPart(Buffer.from(base64, 'base64'), mime),
};

function messageOf({ role, content }) {
  const parts = typeof content === 'string' ? [PARTS.text({ value: content })] : content.map((part) => PARTS[part.type](part));
  return role === 2 ? vscode.LanguageModelChatMessage.Assistant(parts) : vscode.LanguageModelChatMessage.User(parts);
}

/** The model with this id: groups put their name before it. */
async function modelOf(id) {
  const models = await vscode.lm.selectChatModels({ vendor: VENDOR });
  const found = models.find((model) => model.id === id || model.id.endsWith(`/${id}`));
  if (!found) throw new Error(`there is no model ${id} among ${models.map((model) => model.id)}`);
  return found;
}

const errorToJson = (error) => ({ name: error.name, code: error.code, message: error.message, stack: error.stack });

const ORDERS = {
  async models() {
    const models = await vscode.lm.selectChatModels({ vendor: VENDOR });
    return models.map(({ id, name, family, version, maxInputTokens }) => ({ id, name, family, version, maxInputTokens }));
  },
  async count_tokens({ model, text }) {
    return (await modelOf(model)).countTokens(text);
  },
  /** Begins a command. Nothing waits for it: many ask a person something, in the page. */
  async command({ command, words }) {
    void vscode.commands.executeCommand(command, ...(words ?? []));
  },
  async commands() {
    return vscode.commands.getCommands(true);
  },
  async install({ file }) {
    await vscode.commands.executeCommand('workbench.extensions.installExtension', vscode.Uri.file(file));
  },
  async configure({ name, value }) {
    await vscode.workspace.getConfiguration().update(name, value, vscode.ConfigurationTarget.Global);
  },
  /** One request to its end. With `cancelAt`, it is cancelled after so many parts; `begun` is a file to make at the first. */
  async respond({ model, messages, options, cancelAt, begun }) {
    const source = new vscode.CancellationTokenSource();
    const chat = await modelOf(model);
    const parts = [];
    let error;
    let seenAtCancel;
    try {
      const answer = await chat.sendRequest(messages.map(messageOf), options ?? {}, source.token);
      for await (const part of answer.stream) {
        parts.push({ ...partToJson(part), at: Date.now() });
        if (begun) fs.writeFileSync(begun, '');
        if (parts.length === cancelAt) {
          seenAtCancel = parts.length;
          source.cancel();
        }
      }
    } catch (thrown) {
      error = errorToJson(thrown);
    }
    return { parts, error, seenAtCancel };
  },
};

async function carryOut(name) {
  const order = JSON.parse(fs.readFileSync(path.join(FOLDER, name), 'utf8'));
  let reply;
  try {
    reply = { result: await ORDERS[order.method](order) };
  } catch (error) {
    reply = { error: errorToJson(error) };
  }
  const target = path.join(FOLDER, name.replace('.order', '.answer'));
  fs.writeFileSync(`${target}.part`, JSON.stringify(reply));
  fs.renameSync(`${target}.part`, target); // so that a reader sees the complete file or none
}

exports.activate = (context) => {
  if (FOLDER === '') return;
  const taken = new Set();
  const look = setInterval(() => {
    for (const name of fs.readdirSync(FOLDER)) {
      if (!name.endsWith('.order') || taken.has(name)) continue;
      taken.add(name);
      void carryOut(name);
    }
  }, 50);
  context.subscriptions.push({ dispose: () => clearInterval(look) });
};
