// Add and remove endpoints. VS Code stores named groups and their keys; for versions without groups, one configuration is
// stored here.
'use strict';
const vscode = require('vscode');

const ADD = 'lm.addLanguageModelsProviderGroup';
const MANAGE = ['workbench.action.chat.manage', 'workbench.action.openLanguageModelsJson'];
const VENDOR = 'penstock';
const STORED = 'penstock.configuration';

/** Vendors that support the Responses API (docs/presets.md). @type {Array<[string, string]>} */
const PRESETS = [
  ['vercel', 'Vercel AI Gateway'],
  ['openai', 'OpenAI'],
  ['openrouter', 'OpenRouter'],
  ['xai', 'xAI'],
  ['groq', 'Groq'],
  ['fireworks', 'Fireworks'],
  ['huggingface', 'Hugging Face'],
  ['ollama', 'Ollama on this machine'],
  ['lmstudio', 'LM Studio on this machine'],
];

/** @param {string} command */
const has = async (command) => (await vscode.commands.getCommands(true)).includes(command);

/** Opens the management of groups; the command depends on the version of VS Code. */
async function openManagement() {
  for (const command of MANAGE) {
    if (await has(command)) return vscode.commands.executeCommand(command);
  }
  return vscode.window.showInformationMessage('This VS Code cannot manage language models: use "Penstock: Add a Model Endpoint".');
}

/** @param {unknown} given */
function addressFault(given) {
  try {
    const { protocol } = new URL(String(given));
    return protocol === 'http:' || protocol === 'https:' ? undefined : 'The URL must begin with http:// or https://';
  } catch {
    return 'Enter a URL such as http://127.0.0.1:8080/v1';
  }
}

/** Asks for the endpoint. @param {string} gateway the endpoint of the local gateway, if it is running @param {number} port */
async function askPlace(gateway, port) {
  const local = gateway || `http://127.0.0.1:${port}/v1`;
  const items = [
    { label: '$(server) A gateway on this machine', description: local, endpoint: local },
    { label: '$(globe) Another URL…', description: 'any OpenResponses endpoint', endpoint: '' },
    ...PRESETS.map(([preset, title]) => ({ label: title, description: preset, preset })),
  ];
  const picked = /** @type {{ label: string, preset?: string, endpoint?: string } | undefined} */ (
    await vscode.window.showQuickPick(items, { title: 'Penstock: where are the models?', ignoreFocusOut: true })
  );
  if (picked === undefined || picked.preset || picked.endpoint) return picked && placeOf(picked);
  const endpoint = await vscode.window.showInputBox({
    title: 'Penstock: URL of the endpoint',
    placeHolder: 'https://llm.example/v1',
    ignoreFocusOut: true,
    validateInput: addressFault,
  });
  return endpoint ? { name: new URL(endpoint).host, endpoint } : undefined;
}

/** @param {{ label: string, preset?: string, endpoint?: string }} picked */
const placeOf = (picked) =>
  picked.preset ? { name: picked.label, preset: picked.preset } : { name: 'Local gateway', endpoint: picked.endpoint };

/**
 * Adds a group if VS Code supports groups, else stores the configuration.
 * @param {vscode.ExtensionContext} context @param {{ name: string, endpoint?: string, preset?: string, apiKey?: string }} group
 * @returns {Promise<void>}
 */
async function addGroup(context, group) {
  if (await has(ADD)) {
    await vscode.commands.executeCommand(ADD, { vendor: VENDOR, ...group });
    return;
  }
  const { apiKey, ...rest } = group;
  await context.globalState.update(STORED, rest);
  if (apiKey) await context.secrets.store(STORED, apiKey);
  else await context.secrets.delete(STORED);
}

/**
 * Asks for a group; returns undefined if the user cancels. @param {string} gateway @param {number} port
 * @returns {Promise<{ name: string, endpoint?: string, preset?: string, apiKey?: string } | undefined>}
 */
async function askEndpoint(gateway, port) {
  const place = await askPlace(gateway, port);
  if (place === undefined) return undefined;
  const apiKey = await vscode.window.showInputBox({
    title: `Penstock: API key for ${place.name}`,
    prompt: 'Leave it empty if no key is needed.',
    password: true,
    ignoreFocusOut: true,
  });
  if (apiKey === undefined) return undefined;
  const name = await vscode.window.showInputBox({ title: 'Penstock: name for this endpoint', value: place.name, ignoreFocusOut: true });
  return name ? { ...place, name, ...(apiKey.trim() ? { apiKey: apiKey.trim() } : {}) } : undefined;
}

/** Returns the configuration of an editor without groups. @param {vscode.ExtensionContext} context */
async function ownConfiguration(context) {
  const stored = context.globalState.get(STORED);
  if (stored === undefined) return undefined;
  return { .../** @type {object} */ (stored), apiKey: await context.secrets.get(STORED) };
}

/** @param {vscode.ExtensionContext} context */
async function forgetOwn(context) {
  await context.globalState.update(STORED, undefined);
  await context.secrets.delete(STORED);
}

module.exports = { askEndpoint, addGroup, forgetOwn, openManagement, ownConfiguration, addressFault };
