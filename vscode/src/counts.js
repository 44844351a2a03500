// A cache of the token counts of short texts. In every turn the agent counts each name, key and value in the schemas of its
// forty tools: over 1,300 requests for 350 different texts. Long texts change often and are not cached.
'use strict';

const MAX_ENTRIES = 5_000;
const MAX_LENGTH = 256;

class Counts {
  constructor() {
    /** Oldest first. @type {Map<string, Promise<number>>} */
    this.known = new Map();
  }

  /** @param {string} model @param {string} text @param {() => Promise<number>} count @returns {Promise<number>} */
  of(model, text, count) {
    if (text.length > MAX_LENGTH) return count();
    const name = `${model}\n${text}`;
    const known = this.known.get(name);
    if (known !== undefined) return known;
    const counted = count();
    this.known.set(name, counted);
    counted.catch(() => this.known.delete(name));
    if (this.known.size > MAX_ENTRIES) this.known.delete(/** @type {string} */ (this.known.keys().next().value));
    return counted;
  }

  clear() {
    this.known.clear();
  }
}

module.exports = { Counts };
