// The status bar: an estimate while a turn runs, real tokens afterwards, and the whole session in the hover.
// The host computes the figures; this file only formats them.
'use strict';
const vscode = require('vscode');

/** @typedef {import('./lines').Line} Line */

/** 999, 1.2k, 45k, 1.2M. @param {unknown} count */
function short(count) {
  const number = Number(count) || 0;
  for (const [size, letter] of /** @type {Array<[number, string]>} */ ([[1e6, 'M'], [1e3, 'k']])) {
    // 999.6k would be shown as 1000k: show 1.0M instead.
    if (number >= size * 0.9995) return `${(number / size).toFixed(number < size * 9.95 ? 1 : 0)}${letter}`;
  }
  return String(Math.round(number));
}

/** @param {unknown} cost */
function dollars(cost) {
  if (typeof cost !== 'number') return '–';
  return cost > 0 && cost < 0.01 ? '<$0.01' : `$${cost.toFixed(2)}`;
}

/** @param {unknown} share */
const percent = (share) => `${Math.round((Number(share) || 0) * 100)}%`;

/** @param {Line} turn */
const about = (turn) => (turn.is_estimate ? '~' : '');

/** @param {Line} usage */
function statusText(usage) {
  const running = usage.running ?? [];
  if (running.length > 0) {
    const turn = running.at(-1);
    const more = running.length > 1 ? ` +${running.length - 1}` : '';
    return `$(loading~spin) ~${short(turn.estimated_input)} of ${short(turn.max_input)} (${percent(turn.share)})${more}`;
  }
  if (!usage.last) return '$(dashboard) Penstock';
  const { last, total } = usage;
  const all = `Σ ${short(total.input + total.output)}`;
  if (last.outcome === 'failed') return `$(warning) failed · ${all}`;
  return `$(dashboard) ${about(last)}${short(last.input)} in, ${short(last.output)} out · ${all}`;
}

/** Escapes Markdown: the name of a model can be any text. @param {unknown} text */
const escape = (text) => String(text ?? '').replace(/[\\`*_{}[\]()#+\-.!|<>~$]/g, '\\$&').replace(/\s+/g, ' ');

/** @param {string} name @param {Line} row */
const tableRow = (name, row) =>
  `| ${[name, row.requests, short(row.input), short(row.cached), short(row.reasoning), short(row.output), dollars(row.cost)].join(' | ')} |`;

/** @param {Line} usage */
function usageMarkdown(usage) {
  const rows = usage.by_model ?? [];
  if (rows.length === 0) return 'No turns yet.';
  const names = rows.map((/** @type {Line} */ row) => row.model);
  const isDuplicate = (/** @type {string} */ name) => names.indexOf(name) !== names.lastIndexOf(name);
  const shown = (/** @type {Line} */ row) => escape(row.model) + (isDuplicate(row.model) ? ` (${escape(row.group)})` : '');
  const lines = [
    '| model | turns | input | cached | reasoning | output | cost |',
    '|---|--:|--:|--:|--:|--:|--:|',
    ...rows.map((/** @type {Line} */ row) => tableRow(shown(row), row)),
    ...(rows.length > 1 ? [tableRow('**all**', usage.total)] : []),
  ];
  return [lines.join('\n'), ...notesOn(usage.total)].join('\n\n');
}

/** Returns notes on the figures. @param {Line} total */
function notesOn(total) {
  const notes = ['Input includes cached tokens, output includes reasoning tokens.'];
  if (total.is_estimate) notes.push('Some figures are estimates: the endpoint sent none.');
  if (total.unpriced > 0) notes.push(`Turns without a known price: ${total.unpriced}.`);
  return notes;
}

class Status {
  constructor() {
    /** @type {Line} */
    this.usage = {};
    this.item = vscode.window.createStatusBarItem('penstock.usage', vscode.StatusBarAlignment.Right, 90);
    this.item.name = 'Penstock';
    this.item.command = 'penstock.showRecent';
    this.update({});
  }

  /** @param {Line} usage */
  update(usage) {
    this.usage = usage;
    this.item.text = statusText(usage);
    const hover = new vscode.MarkdownString(`**Penstock**, since it was started\n\n${usageMarkdown(usage)}\n\n[Recent turns](command:penstock.showRecent) · [Log](command:penstock.showLog)`);
    hover.isTrusted = { enabledCommands: ['penstock.showRecent', 'penstock.showLog'] };
    this.item.tooltip = hover;
    this.item.accessibilityInformation = { label: `Penstock: ${this.item.text.replace(/\$\([^)]*\) ?/g, '')}` };
    const isEnabled = vscode.workspace.getConfiguration('penstock').get('statusBar', true);
    // Hide it in windows that never use one of our models.
    if (isEnabled && (usage.last || usage.running?.length > 0)) this.item.show();
    else this.item.hide();
  }

  dispose() {
    this.item.dispose();
  }
}

module.exports = { Status, statusText, usageMarkdown, short, dollars, percent, escape };
