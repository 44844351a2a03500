/** Rules of a lawful stream: links to their pages, and their texts. */

import { h } from "./dom.js";
import { to } from "./route.js";

/** A link to the page of a rule. */
export function ruleLink(rule, ...content) {
  return h("a", { href: to("rules", rule), class: "rule-link" }, content.length ? content : h("code", null, rule));
}

/** Return the parts of a text of the table of rules, in which code is between backticks. */
export function ticked(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}
