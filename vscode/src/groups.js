// A configuration as the settings have it, and the name that it goes by in the host.
'use strict';
const { createHash } = require('node:crypto');

/** @typedef {import('./remote').Configuration} Configuration */

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value.trim() : '');

/**
 * What a group of `chatLanguageModels.json` says, or nothing where it names no endpoint: then there are no models,
 * and no error either (the editor also asks without any configuration, once).
 * @param {any} given @returns {Configuration | undefined}
 */
function readConfiguration(given) {
  const configuration = {
    endpoint: text(given?.endpoint),
    preset: text(given?.preset),
    key: text(given?.apiKey),
    headers: readHeaders(given?.headers),
  };
  return configuration.endpoint || configuration.preset ? configuration : undefined;
}

/** @param {any} given @returns {Record<string, string>} */
function readHeaders(given) {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) return {};
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, String(value)]));
}

/** @param {Configuration} configuration */
function digestOf({ endpoint, preset, key, headers }) {
  const sorted = Object.entries(headers).sort(([one], [other]) => (one < other ? -1 : 1));
  return createHash('sha256').update(JSON.stringify([endpoint, preset, key, sorted])).digest('hex');
}

/**
 * Whose responses an endpoint keeps: the same every day, whatever else is configured. The name of a group is for people
 * and is not; a marker that hung on it could name a response of another account (decision 28).
 * @param {Configuration} configuration
 */
const accountOf = (configuration) => digestOf(configuration).slice(0, 16);

/** Where it leads, in short. @param {Configuration} configuration */
function placeOf({ endpoint, preset }) {
  try {
    return endpoint ? new URL(endpoint).host || endpoint : preset;
  } catch {
    return endpoint;
  }
}

/**
 * The editor does not tell the name of a group, only its configuration. So groups go by where they lead, which people
 * can read in an error; two that lead to one place are told apart by a few letters. Who asks first has none, so a name is for people only.
 */
class GroupNames {
  constructor() {
    /** @type {Map<string, string>} */
    this.owners = new Map();
  }

  /** @param {Configuration} configuration */
  nameOf(configuration) {
    const digest = digestOf(configuration);
    const place = placeOf(configuration);
    const names = [place, `${place} (${digest.slice(0, 4)})`, `${place} (${digest.slice(0, 16)})`];
    const name = names.find((each) => (this.owners.get(each) ?? digest) === digest) ?? digest;
    this.owners.set(name, digest);
    return name;
  }
}

module.exports = { readConfiguration, accountOf, digestOf, GroupNames };
