/** The rules of a lawful stream: all of them, or the page of one. They are the checker's own table. */

import { api } from "../api.js";
import { h, notice, replace } from "../dom.js";
import { counted } from "../format.js";
import { ruleLink, ticked } from "../rules.js";
import { line, marked } from "../text.js";

export async function show(main, { id, signal }) {
  const { rules } = await api.get("inspector/api/rules", {}, signal);
  const rule = rules.find((each) => each.id === id);
  if (rule) showRule(main, rule, rules);
  else showAll(main, rules, id);
}

function showAll(main, rules, unknown) {
  const groups = Map.groupBy(rules, (rule) => rule.group);
  replace(main,
    h("div", { class: "page-head" }, h("h1", null, "Rules of a lawful stream"),
      h("p", { class: "lead" }, `${counted(rules.length, "rule")} that clients rely on. Every stream of this gateway obeys them. `,
        h("a", { href: "#/check" }, "Check a file"), " shows which of them a recorded stream breaks.")),
    unknown ? notice("There is no such rule", h("p", null, "No rule is called ", h("code", null, marked(line(unknown, 80))),
      ". These are all rules of this version.")) : null,
    h("div", { class: "rule-groups" }, [...groups].map(([group, members]) => h("section", { class: "panel" },
      h("header", null, h("h2", null, group)),
      h("ul", { class: "rule-list" }, members.map((rule) => h("li", null, ruleLink(rule.id), h("span", null, ticked(rule.title)))))))));
}

function showRule(main, rule, rules) {
  const near = rules.filter((each) => each.group === rule.group && each.id !== rule.id);
  replace(main,
    h("div", { class: "page-head" }, h("h1", null, "Rule ", h("code", null, rule.id)),
      h("div", { class: "actions" }, h("a", { class: "button", href: "#/rules" }, "All rules"))),
    h("div", { class: "rule" },
      h("article", { class: "panel" }, h("div", { class: "body" },
        h("p", { class: "rule-title" }, ticked(rule.title)),
        part("Why", h("p", null, ticked(rule.explanation)), h("p", { class: "help" },
          "Codes such as “spec N5”, “decision 2” and “quirk R1” are entries of docs/requirements.md and docs/decisions.md.")),
        part("What breaks", h("p", null, rule.breaks ? ticked(rule.breaks) : "No client is known to break."),
          h("p", { class: "help" }, rule.is_tolerated
            ? ["The tested clients cope with it, so ", h("code", null, "penstock check --tolerant"), " does not report it."]
            : ["It is reported also by ", h("code", null, "penstock check --tolerant"), "."])),
        part("How to mend it",
          h("p", null, "In the server that sends the stream: ", ticked(lower(rule.advice))),
          h("p", null, "Or leave the server as it is, and point the client at this gateway: what it sends obeys this rule, "
            + "whatever the upstream sends. See ", h("a", { href: "#/setup" }, "Set up"), ". A recording is mended with “Repair” in ",
          h("a", { href: "#/check" }, "Check a file"), ".")))),
      near.length ? h("nav", { class: "panel", "aria-label": rule.group },
        h("header", null, h("h2", null, rule.group)),
        h("ul", { class: "rule-list" }, near.map((each) => h("li", null, ruleLink(each.id))))) : null));
}

function part(title, ...content) {
  return h("section", null, h("h2", null, title), content);
}

function lower(text) {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
