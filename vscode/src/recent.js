// Show recent turns as a list, and the details of one turn.
'use strict';
const vscode = require('vscode');
const { oneLine } = require('./errors');
const { dollars, escape, short, usageMarkdown } = require('./status');

const SCHEME = 'penstock';

/** @typedef {import('./journal').Journal['turns'][number]} Turn */

/** @type {Record<string, string>} */
const ICONS = { running: '$(loading~spin)', error: '$(error)', cancelled: '$(circle-slash)', length: '$(warning)', content_filter: '$(warning)' };

/** Returns a text for a list, where VS Code shows `$(name)` as an icon. @param {string} text */
const withoutIcons = (text) => text.replaceAll('$(', '$ (');

/** @param {Turn} turn */
function turnItem(turn) {
  const figures = turn.figures;
  const tokens = figures ? [`${short(figures.input)} in`, `${short(figures.output)} out`, dollars(figures.cost)] : [];
  return {
    label: `${ICONS[turn.outcome] ?? '$(check)'} ${withoutIcons(turn.model)}`,
    description: [withoutIcons(turn.outcome), `${turn.seconds.toFixed(1)} s`, ...tokens].join(' · '),
    detail: withoutIcons(turn.error || (turn.calls.length > 0 ? `called ${turn.calls.join(', ')}` : '')) || undefined,
    turn,
  };
}

/** @param {string} name @param {unknown} value */
const row = (name, value) => `| ${name} | ${escape(value)} |`;

/** Describes a turn in Markdown. @param {Turn} turn */
function turnMarkdown(turn) {
  const { figures } = turn;
  const counts = Object.entries(turn.counts).map(([type, count]) => `${count} ${type}`);
  const known = [
    row('started', new Date(turn.began).toISOString()),
    row('duration', `${turn.seconds.toFixed(1)} s`),
    row('outcome', turn.outcome),
    ...(turn.error ? [row('error', turn.error)] : []),
    row('parts', counts.join(', ') || 'none'),
    ...(turn.calls.length > 0 ? [row('tools called', turn.calls.join(', '))] : []),
    ...(figures ? figureRows(figures) : []),
    ...(turn.responseId ? [row('response', oneLine(turn.responseId, 80))] : []),
  ];
  const repairs = turn.diagnostics.map((each) => `- ${escape(each.code)}: ${escape(each.message)}`);
  return [
    `# ${escape(turn.model)}`,
    ['| | |', '|---|---|', ...known].join('\n'),
    ...(repairs.length > 0 ? ['Omitted or repaired:', repairs.join('\n')] : []),
    ...(turn.responseId ? [`If the endpoint is a Penstock gateway, run this where its store is: \`penstock explain ${turn.responseId.replace(/[^\w.:-]/g, '').slice(0, 80)}\``] : []),
  ].join('\n\n');
}

/** @param {import('./lines').Line} figures */
function figureRows(figures) {
  const estimated = figures.is_estimate ? ' (estimate)' : '';
  return [
    row('input', `${figures.input}, including ${figures.cached} cached${estimated}`),
    row('output', `${figures.output}, including ${figures.reasoning} reasoning${estimated}`),
    row('cost', dollars(figures.cost)),
  ];
}

/** Read-only pages in memory. @implements {vscode.TextDocumentContentProvider} */
class Pages {
  constructor() {
    /** @type {Map<string, string>} */
    this.texts = new Map();
    this.registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  }

  /** @param {vscode.Uri} uri */
  provideTextDocumentContent(uri) {
    return this.texts.get(uri.path) ?? 'This page is no longer available: run the command again.';
  }

  /** @param {string} name @param {string} text */
  async show(name, text) {
    const path = `/${name.replace(/[^\w.-]+/g, '-')}-${this.texts.size + 1}.md`;
    this.texts.set(path, text);
    const uri = vscode.Uri.from({ scheme: SCHEME, path });
    try {
      await vscode.commands.executeCommand('markdown.showPreview', uri);
    } catch {
      await vscode.window.showTextDocument(uri); // the Markdown extension is disabled
    }
  }

  dispose() {
    this.registration.dispose();
  }
}

/** @param {import('./journal').Journal} journal @param {Pages} pages */
async function showRecent(journal, pages) {
  if (journal.turns.length === 0) {
    await vscode.window.showInformationMessage('Penstock: no turns in this window yet.');
    return;
  }
  const picked = await vscode.window.showQuickPick(journal.turns.map(turnItem), {
    title: 'Penstock: recent turns',
    placeHolder: 'Show what happened in a turn',
    matchOnDescription: true,
    matchOnDetail: true,
  });
  if (picked !== undefined) await pages.show(picked.turn.model, turnMarkdown(picked.turn));
}

/** @param {import('./lines').Line} usage @param {Pages} pages */
const showUsage = (usage, pages) => pages.show('usage', `# Usage\n\n${usageMarkdown(usage)}`);

module.exports = { Pages, showRecent, showUsage, turnItem, turnMarkdown };
