// Counts of short texts, kept. The agent counts every name, key and value of its forty tools' schemas one after the other, in
// every turn: over 1,300 questions for 350 different texts. Long texts change, and are asked for.
'use strict';

const KEPT = 5_000;
const LONGEST = 256;

class Counts {
  constructor() {
    /** The oldest first. @type {Map<string, Promise<number>>} */
    this.known = new Map();
  }

  /** @param {string} model @param {string} text @param {() => Promise<number>} count @returns {Promise<number>} */
  of(model, text, count) {
    if (text.length > LONGEST) return count();
    const name = `${model}\n${text}`;
    const known = this.known.get(name);
    if (known !== undefined) return known;
    const counted = count();
    this.known.set(name, counted);
    counted.catch(() => this.known.delete(name));
    if (this.known.size > KEPT) this.known.delete(/** @type {string} */ (this.known.keys().next().value));
    return counted;
  }

  clear() {
    this.known.clear();
  }
}

module.exports = { Counts };
