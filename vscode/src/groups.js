// Read the configuration of a group, and choose its name in the host.
'use strict';
const { createHash } = require('node:crypto');

/** @typedef {import('./remote').Configuration} Configuration */

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value.trim() : '');

/**
 * Reads a group of `chatLanguageModels.json`. Returns undefined without an endpoint: then there are no models, and no error
 * either (the editor also asks once without any configuration).
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
 * Returns an id of the account whose responses an endpoint stores. The same configuration always has the same id, but a
 * group's name may be reused: a marker with that name could reference a response of another account (decision 28).
 * @param {Configuration} configuration
 */
const accountOf = (configuration) => digestOf(configuration).slice(0, 16);

/** Returns a short name of the endpoint. @param {Configuration} configuration */
function placeOf({ endpoint, preset }) {
  try {
    return endpoint ? new URL(endpoint).host || endpoint : preset;
  } catch {
    return endpoint;
  }
}

/**
 * Names for groups. The editor passes only the configuration of a group, not its name. So a group is named after its
 * endpoint, which is readable in an error; further groups with the same endpoint get a suffix. The suffix depends on the order of
 * requests, so a name is only for display.
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
