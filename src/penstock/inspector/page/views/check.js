/** Check a file: draw a recorded stream, and mark what breaks a rule. */

import { api } from "../api.js";
import { announce, download, errorNotice, externalLink, h, notice, replace, skeleton } from "../dom.js";
import { bytes, counted, number } from "../format.js";
import { StreamPanel } from "../stream_panel.js";
import { line, marked } from "../text.js";
import { itemList } from "../turn/output.js";
import { breaksOf, framesOf, positional } from "./check_recording.js";

const MOST_BYTES = 32 * 1024 * 1024;
const MOST = "32 MB";

export async function show(main, { signal }) {
  const view = new CheckView(signal);
  replace(main, view.element);
  return () => view.destroy();
}

class CheckView {
  #panel = null;
  #loading = null;

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
      if (!signal.aborted) this.#report(report, text, { name: file.name, size: file.size, file });
    } catch (error) {
      if (!signal.aborted && !this.signal.aborted) this.#show(errorNotice(error, () => this.check(file)));
    }
  }

  #show(...content) {
    this.#panel?.destroy();
    this.#panel = null;
    replace(this.result, content);
  }

  /** `source`: `{name, size, file}`; `translated`: what a translation of it has changed. */
  #report(report, text, source, translated = null) {
    announce(report.sentence);
    if (!report.turn) {
      this.#show(this.#head(report, source), this.#foreign(report, source));
      return;
    }
    const { turn, frames, breaks, isShort } = this.#prepared(report, text);
    this.#show();
    this.#panel = new StreamPanel({ turn, frames, breaks, label: `Timeline of ${source.name}` });
    replace(this.result, this.#head(report, source), translated,
      isShort ? h("p", { class: "hint" }, `The first ${counted(turn.events.type.length, "event")} are drawn.`) : null,
      h("div", { class: "check-columns" },
        h("div", { class: "check-side" }, this.#violations(report, turn, breaks, translated ? null : source),
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
    const [mark, tone, label] = !turn ? ["?", "warn", "not a Responses stream"] : violations.length
      ? ["✕", "bad", counted(violations.length, "broken rule")] : ["✓", "good", "no rule is broken"];
    return h("div", { class: "check-head panel" }, h("div", { class: "check-file" },
      h("span", { class: `badge is-${tone}` }, h("span", { "aria-hidden": "true" }, mark), label),
      h("strong", null, marked(line(name, 100))), h("span", { class: "muted" }, bytes(size)),
      turn ? h("span", { class: "muted" }, counted(turn.events.type.length, "event"), accent && `, named as in ${accent}`) : null),
    turn ? null : h("p", null, marked(sentence)));
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
    const { signal } = this.#loading;
    try {
      const result = await api.bytes("inspector/api/translate", source.file, { dialect }, signal);
      if (signal.aborted) return;
      const name = `${source.name.replace(/\.[^.]{1,8}$/, "")}.openresponses.sse`;
      this.#report({ ...result, format: "sse" }, result.sse, { name, size: new Blob([result.sse]).size },
        this.#translated(dialect, result, name));
    } catch (error) {
      if (!signal.aborted && !this.signal.aborted) this.#show(errorNotice(error, () => this.check(source.file)));
    }
  }

  #translated(dialect, { repairs, sse }, name) {
    return h("section", { class: "panel translated" }, h("div", { class: "body" },
      h("p", null, dialect === "responses" ? "Repaired as the gateway repairs a vendor's stream. "
        : "Translated to the stream that clients of this gateway receive. ",
        repairs.length ? "It reported:" : "Nothing was dropped or degraded."),
      repairs.length ? h("ul", null, repairs.map((repair) => h("li", null, marked(repairText(repair))))) : null,
      h("p", { class: "actions" },
        h("button", { type: "button", onclick: () => download(name, sse, "text/event-stream") }, "Download the translation"))));
  }

  /* What was found */

  #repairButton(source) {
    const button = h("button",
      { type: "button", class: "small", onclick: () => this.#translate("responses", source, button) }, "Repair and download");
    return button;
  }

  #violations({ violations }, turn, breaks, source) {
    if (!violations.length) return null;
    const total = turn.events.type.length;
    return h("section", { class: "panel broken-rules", "aria-labelledby": "violations-title" },
      h("header", null, h("h2", { id: "violations-title" }, "Broken rules"),
        source ? h("div", { class: "actions" }, this.#repairButton(source)) : null),
      h("ol", null, turn.violations.slice(0, 500).map((violation) => h("li", null,
        h("button", { type: "button", class: "violation", disabled: !breaks.has(violation.sequence),
          onclick: () => this.#panel.select(violation.sequence) },
          h("span", { class: "violation-rule" }, h("span", { "aria-hidden": "true" }, "▲ "), violation.rule,
            h("span", { class: "muted" },
              violation.isWhole ? " at the end" : ` at event ${number(violation.sequence)} of ${number(total)}`)),
          h("span", null, marked(violation.message))),
        violation.title ? h("p", { class: "help" }, `Rule: ${violation.title} `, violation.clients.join(" ")) : null,
        /^https:/.test(violation.page ?? "") ? h("p", { class: "help" }, externalLink(violation.page, "About this rule"))
          : null))),
      violations.length > 500 ? h("p", { class: "help" }, `And ${number(violations.length - 500)} more.`) : null);
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
