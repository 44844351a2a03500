/** Check a file: draw a recorded stream, and mark what breaks a rule. */

import { api } from "../api.js";
import { announce, download, errorNotice, h, notice, replace, skeleton } from "../dom.js";
import { bytes, counted, number } from "../format.js";
import { ruleLink, ticked } from "../rules.js";
import { StreamPanel } from "../stream_panel.js";
import { line, marked } from "../text.js";
import { itemList } from "../turn/output.js";
import { breaksOf, framesOf, positional } from "./check_recording.js";

const MOST_BYTES = 32 * 1024 * 1024;
const MOST = "32 MB";

const FORMATS = { sse: "server-sent events", ndjson: "JSON lines", json: "JSON" };
const ACCENTS = { openresponses: "in the naming of the OpenResponses specification", openai: "in OpenAI’s naming",
  copilot: "in Copilot’s naming" };
/** How a translation ends if it is not complete. */
const ENDS = { failed: "It ends as failed, because the file has no proper end, or an event that cannot be read. ",
  incomplete: "It ends as incomplete, as the file does. " };
/** What a translation says about every tool call of a file, because a file has no request. */
const UNDECLARED = "undeclared_tool";
/** The file that was checked last: it is still there after a look at one of its rules. */
let kept = null;

export async function show(main, { signal }) {
  const view = new CheckView(signal);
  replace(main, view.element);
  if (kept) {
    view.drop.classList.add("is-small");
    view.report(...kept);
  }
  return () => view.destroy();
}

class CheckView {
  #panel = null;
  #loading = null;
  #withTolerated = true;

  constructor(signal) {
    this.signal = signal;
    this.input = h("input", { type: "file", id: "check-file", class: "visually-hidden",
      accept: ".sse,.txt,.log,.ndjson,.jsonl,.json,text/*,application/json",
      onchange: () => {
        if (this.input.files[0]) this.check(this.input.files[0]);
        this.input.value = "";
      } });
    this.drop = h("div", { class: "drop" },
      h("p", { class: "drop-title" }, "Drop a recorded stream here"),
      h("p", null, this.input, h("label", { for: "check-file", class: "button" }, "Choose a file")),
      h("p", { class: "help" }, `Server-sent events, JSON lines or JSON; of this gateway or of any vendor; up to ${MOST}. `,
        "The file is sent to this gateway only, which checks it in memory and stores nothing."));
    this.result = h("div", { class: "check-result" });
    this.element = h("div", { class: "check-view" }, h("div", { class: "page-head" }, h("h1", null, "Check a file")), this.drop, this.result);
    // Anywhere on the page: a file that is dropped next to the box must not be opened by the browser in place of the page.
    document.addEventListener("dragover", (event) => this.#over(event), { signal });
    document.addEventListener("dragleave", (event) => this.#leave(event), { signal });
    document.addEventListener("drop", (event) => this.#dropped(event), { signal });
  }

  destroy() {
    this.#loading?.abort();
    this.#panel?.destroy();
  }

  #over(event) {
    event.preventDefault();
    this.drop.classList.add("is-over");
  }

  #leave(event) {
    if (event.relatedTarget === null) this.drop.classList.remove("is-over");
  }

  #dropped(event) {
    event.preventDefault();
    this.drop.classList.remove("is-over");
    const [file, ...more] = event.dataTransfer?.files ?? [];
    if (more.length) announce("Only the first file is checked");
    if (file) this.check(file);
  }

  async check(file) {
    this.#loading?.abort();
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    this.drop.classList.add("is-small");
    if (file.size > MOST_BYTES) {
      this.#show(notice("This file is too large",
        h("p", null, `${line(file.name, 80)} has ${bytes(file.size)}. Cut it to at most ${MOST}, or run `,
        h("code", null, "penstock check"), ", which has no limit.")));
      return;
    }
    this.#show(skeleton(6));
    try {
      const [report, text] = await Promise.all([api.bytes("inspector/api/check", file, {}, signal), file.text()]);
      if (!signal.aborted) this.report(report, text, { name: file.name, size: file.size, file });
    } catch (error) {
      if (!signal.aborted && !this.signal.aborted) this.#show(errorNotice(error, () => this.check(file)));
    }
  }

  #show(...content) {
    this.#panel?.destroy();
    this.#panel = null;
    replace(this.result, content);
  }

  /** `source`: `{name, size, file}`; `translation`: how it was made of another file. */
  report(report, text, source, translation = null) {
    kept = [report, text, source, translation];
    announce(report.sentence);
    if (!report.turn) {
      this.#show(this.#head(report, source), this.#foreign(report, source));
      return;
    }
    const shown = report.violations.filter((each) => this.#withTolerated || !each.is_tolerated);
    const { turn, frames, breaks, isShort } = this.#prepared({ ...report, violations: shown }, text);
    this.#show();
    this.#panel = new StreamPanel({ turn, frames, breaks, label: `Timeline of ${source.name}` });
    replace(this.result, this.#head(report, source), translation ? this.#translated(translation) : null,
      isShort ? h("p", { class: "hint" }, `The first ${counted(turn.events.type.length, "event")} are drawn.`) : null,
      h("div", { class: "check-columns" },
        h("div", { class: "check-side" }, this.#violations(report, turn, breaks, translation ? null : source),
          this.#output(report)),
        this.#panel.element));
    const first = breaks.keys().next();
    if (!first.done) this.#panel.select(first.value);
  }

  #prepared(report, text) {
    const frames = new Map(framesOf(text, report.format).entries());
    const turn = positional(report.turn, report.violations);
    return { frames, turn, breaks: breaksOf(turn.violations), isShort: frames.size > turn.events.type.length };
  }

  #head({ sentence, violations, turn, accent }, { name, size }) {
    const tolerated = violations.filter((each) => each.is_tolerated).length;
    const [mark, tone, label] = !turn ? ["?", "warn", "not a Responses stream"] : !violations.length
      ? ["✓", "good", "no rule is broken"] : tolerated === violations.length
      ? ["!", "warn", `${counted(tolerated, "violation")}, all tolerated by the tested clients`]
      : ["✕", "bad", `${counted(violations.length, "violation")}${tolerated ? `, ${number(tolerated)} of them tolerated` : ""}`];
    return h("div", { class: "check-head panel" }, h("div", { class: "check-file" },
      h("span", { class: `badge is-${tone}` }, h("span", { "aria-hidden": "true" }, mark), label),
      h("strong", null, marked(line(name, 100))), h("span", { class: "muted" }, bytes(size)),
      turn ? h("span", { class: "muted" }, counted(turn.events.type.length, "event"), ACCENTS[accent] && ` ${ACCENTS[accent]}`) : null),
    turn ? null : h("p", null, marked(sentence.replace(/, read as (\w+)/, (_, format) => `, read as ${FORMATS[format] ?? format}`))));
  }

  /* A recording of another API */

  #foreign({ dialect, kind }, source) {
    if (dialect) return this.#offer(dialect, source);
    if (kind !== "unknown") return null;
    return notice("Nothing to draw", h("p", null, "Record a stream with ", h("code", null, "curl -N … > stream.sse"),
      ", or take one from the page of a turn: ", h("a", { href: "#/turns" }, "Turns"), "."));
  }

  #offer(dialect, source) {
    const button = h("button",
      { type: "button", class: "primary", onclick: () => this.#translate(dialect, source, button) }, "Translate and check");
    return notice("Translate it?",
      h("p", null, "The gateway translates it to the stream that its clients would receive, and checks that."),
      h("p", null, button));
  }

  async #translate(dialect, source, button) {
    button.disabled = true;
    const before = kept;
    const isRepair = dialect === "responses";
    this.#loading ??= new AbortController();
    const { signal } = this.#loading;
    try {
      const result = await api.bytes("inspector/api/translate", source.file, { dialect }, signal);
      if (signal.aborted) return;
      const name = `${source.name.replace(/\.[^.]{1,8}$/, "")}.${isRepair ? "repaired" : "openresponses"}.sse`;
      this.report({ ...result, format: "sse" }, result.sse, { name, size: new Blob([result.sse]).size },
        { isRepair, result, name, before });
      if (isRepair) download(name, result.sse, "text/event-stream");
    } catch (error) {
      if (!signal.aborted && !this.signal.aborted) this.#show(errorNotice(error, () => this.check(source.file)));
    }
  }

  /** `before`: the report of the file itself. */
  #translated({ isRepair, result: { repairs, sse, status }, name, before }) {
    const reported = repairs.filter((repair) => repair.code !== UNDECLARED);
    return h("section", { class: "panel translated" }, h("div", { class: "body" },
      h("p", null, isRepair ? ["Repaired as the gateway repairs a vendor’s stream, and downloaded as ", h("code", null, marked(name)), ". "]
        : "Translated to the stream that clients of this gateway receive. ",
        ENDS[status] ?? "",
        reported.length ? "It reported:" : "Nothing was dropped or degraded."),
      reported.length ? h("ul", null, reported.map((repair) => h("li", null, marked(repairText(repair))))) : null,
      reported.length < repairs.length
        ? h("p", { class: "help" }, "The file does not say which tools the request offered, so that was not checked.") : null,
      h("p", { class: "actions" },
        h("button", { type: "button", onclick: () => download(name, sse, "text/event-stream") },
          isRepair ? "Download it again" : "Download the translation"),
        h("button", { type: "button", onclick: () => this.report(...before) }, isRepair ? "Back to the broken rules" : "Back"))));
  }

  /* What was found */

  #repairButton(source) {
    const button = h("button",
      { type: "button", class: "small", onclick: () => this.#translate("responses", source, button) }, "Repair and download");
    return button;
  }

  #switch(tolerated) {
    const box = h("input", { type: "checkbox", id: "with-tolerated", checked: this.#withTolerated, onchange: () => {
      this.#withTolerated = box.checked;
      this.report(...kept);
      document.getElementById("with-tolerated").focus();
    } });
    return h("p", { class: "tolerated-switch" }, h("label", { class: "check", for: "with-tolerated" }, box,
      `with ${counted(tolerated, "violation")} that the tested clients tolerate`));
  }

  #violations({ violations }, turn, breaks, source) {
    if (!violations.length) return null;
    const total = turn.events.type.length;
    const tolerated = violations.filter((each) => each.is_tolerated).length;
    const shown = turn.violations;
    return h("section", { class: "panel broken-rules", "aria-labelledby": "violations-title" },
      h("header", null, h("h2", { id: "violations-title" }, "Broken rules"),
        source ? h("div", { class: "actions" }, this.#repairButton(source)) : null),
      tolerated ? this.#switch(tolerated) : null,
      shown.length ? null : h("p", { class: "help" }, "No other rule is broken."),
      h("ol", null, shown.slice(0, 500).map((violation) => h("li", null,
        h("button", { type: "button", class: "violation", disabled: !breaks.has(violation.sequence),
          onclick: () => this.#panel.select(violation.sequence) },
          h("span", { class: "violation-rule" }, h("span", { "aria-hidden": "true" }, "▲ "), violation.rule,
            h("span", { class: "muted" },
              violation.isWhole ? " at the end" : ` at event ${number(violation.sequence)} of ${number(total)}`,
              violation.is_tolerated ? ", tolerated" : "")),
          h("span", null, marked(violation.message))),
        h("p", { class: "help" }, ticked(violation.title), " ", ticked(violation.clients.join(" ")), " ",
          ruleLink(violation.rule, "About this rule"))))),
      shown.length > 500 ? h("p", { class: "help" }, `And ${number(shown.length - 500)} more.`) : null);
  }

  #output({ output, status, usage }) {
    const items = Array.isArray(output) ? output : [];
    return h("section", { class: "panel", "aria-labelledby": "check-output" },
      h("header", null, h("h2", { id: "check-output" }, "Output"),
        h("span", { class: "muted" }, [status, tokensOf(usage)].filter(Boolean).join(" · "))),
      h("div", { class: "body" }, itemList(items, { empty: "The stream has no output." })));
  }
}

function tokensOf(usage) {
  return usage ? `${number(usage.input_tokens)} tokens in, ${number(usage.output_tokens)} out` : "";
}

function repairText(repair) {
  if (typeof repair === "string") return repair;
  return [repair.code, repair.message].filter(Boolean).join(": ");
}
