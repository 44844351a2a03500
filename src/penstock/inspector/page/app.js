/** The shell: finds the view of an address, asks for a key, and switches the theme. */

import { api } from "./api.js";
import { announce, errorNotice, h, notice, replace, skeleton, svg } from "./dom.js";
import { route, to } from "./route.js";
import { loadSession, session } from "./session.js";
import { line } from "./text.js";

/** What is in an address after `#/` -> the module of the view, and its title. */
const VIEWS = {
  turns: ["./views/turns.js", "Turns"],
  turn: ["./views/turn.js", "Turn"],
  editor: ["./views/editor.js", "Editor view"],
  threads: ["./views/threads.js", "Conversations"],
  playground: ["./views/playground.js", "Playground"],
  check: ["./views/check.js", "Check a file"],
  rules: ["./views/rules.js", "Rules"],
  dashboard: ["./views/dashboard.js", "Dashboard"],
  setup: ["./views/setup.js", "Set up"],
};

const main = document.getElementById("main");
let leaving = null;
let shown = null;
/** Where the list of turns was left, to be there again on the way back. */
let place = { hash: "", top: 0 };
let scrolled = 0;

async function show() {
  const { view, section, id, query } = route(location.hash);
  leaving?.();
  const isFirst = shown === null;
  const abort = new AbortController();
  let cleanUp = null;
  leaving = () => {
    abort.abort();
    if (typeof cleanUp === "function") cleanUp();
    cleanUp = null;
  };
  const [module, title] = Object.hasOwn(VIEWS, view) ? VIEWS[view] : [null, "Not found"];
  markCurrent(section);
  document.title = `${id ? `${line(id, 100)} · ` : ""}${title} · Penstock`;
  const isAnother = shown !== `${view}/${id}`;
  shown = `${view}/${id}`;
  if (isAnother) {
    replace(main, skeleton());
    if (!isFirst) main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  main.dataset.view = view;
  if (session.isLocked) {
    replace(main, locked());
    return;
  }
  if (!module) {
    replace(main, notice("There is no such page",
      h("p", null, "The address ", h("code", null, line(location.hash, 100)), " does not belong to this gateway’s page. It may come from another version."),
      h("p", null, h("a", { class: "button", href: to("turns") }, "All turns"))));
    main.dataset.ready = view;
    announce("There is no such page");
    return;
  }
  try {
    const loaded = await import(module);
    if (abort.signal.aborted) return;
    const result = await loaded.show(main, { id, query, signal: abort.signal });
    if (abort.signal.aborted) result?.();
    else cleanUp = result;
  } catch (error) {
    if (abort.signal.aborted) return;
    replace(main, h("h1", { class: "visually-hidden" }, title), errorNotice(error, show));
  }
  if (isAnother && !abort.signal.aborted) {
    if (view === "turns" && place.hash === location.hash) scrollTo(0, place.top);
    main.dataset.ready = view;
    announce(`${title} is shown`);
  }
}

function locked() {
  return h("div", { class: "notice", role: "alert" },
    h("h1", null, "This gateway needs a key"),
    h("p", null, "Everything on this page belongs to one of the keys in the gateway’s configuration. ",
      h("code", null, "penstock keys create NAME"), " makes one."),
    h("p", null, h("button", { type: "button", class: "primary", onclick: changeKey }, "Enter a key")));
}

function markCurrent(section) {
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.dataset.view === section) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
}

/* The theme */

const THEMES = { "": "system", light: "light", dark: "dark" };

function icon(...paths) {
  return svg("svg", { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": "true" },
    paths.map((d) => svg("path", { d })));
}

const ICONS = {
  "": ["M12 3a9 9 0 1 0 0 18z", "M12 3a9 9 0 0 1 0 18"],
  light: ["M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z", "M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5"],
  dark: ["M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z"],
};

function theme() {
  return document.documentElement.dataset.theme ?? "";
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  try {
    if (name) localStorage.setItem("penstock-theme", name);
    else localStorage.removeItem("penstock-theme");
  } catch {
    // The choice lasts until the page is closed.
  }
  drawTheme();
  document.dispatchEvent(new Event("themechange"));
}

function drawTheme() {
  const button = document.getElementById("theme");
  const label = `Theme: ${THEMES[theme()]}`;
  button.setAttribute("aria-label", label);
  button.title = label;
  replace(button, icon(...ICONS[theme()]));
}

function nextTheme() {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(theme()) + 1) % names.length]);
  announce(`Theme: ${THEMES[theme()]}`);
}

/* The key */

function askForKey(message) {
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password", id: "key-input", autocomplete: "off", spellcheck: "false", autocapitalize: "off",
      required: true, "aria-describedby": "key-help",
    });
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "key-title" },
      h("form", { onsubmit: (event) => {
        event.preventDefault();
        if (input.value.trim()) dialog.close(input.value.trim());
      } },
        h("h2", { id: "key-title" }, "This gateway needs a key"),
        message && h("p", { class: "problem", role: "alert" }, message),
        h("label", { for: "key-input" }, "Client key"),
        input,
        h("p", { id: "key-help", class: "help" },
          "One of the keys in the gateway’s configuration. It is kept in memory until you close or reload this page, ",
          "and is sent to this gateway only. You see the turns of this key; an administrator’s key sees everybody’s."),
        h("div", { class: "actions" },
          h("button", { type: "submit", class: "primary" }, "Use this key"),
          h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      input.value = "";
      const key = dialog.returnValue;
      if (key) api.key = key;
      drawKey();
      resolve(Boolean(key));
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}

function drawKey() {
  const button = document.getElementById("keys");
  button.hidden = !api.key;
  if (!api.key) return;
  button.setAttribute("aria-label", "Use another key");
  button.title = "Use another key";
  replace(button, icon("M15 3a6 6 0 1 0 0 12 6 6 0 0 0 0-12z", "M10.8 13.2 3 21M6 18l2.5 2.5"));
}

async function changeKey() {
  if (!(await askForKey(""))) return;
  await drawSession();
  shown = null;
  show();
}

async function drawSession() {
  const found = await loadSession();
  const who = document.getElementById("who");
  replace(who, found?.is_administrator && found.needs_key ? `${found.tenant} · all keys` : found?.needs_key ? found.tenant : "");
  who.title = found ? `Penstock ${found.version}` : "";
}

api.askForKey = askForKey;
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("keys").addEventListener("click", changeKey);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address after # is that of the view
  main.focus();
});
addEventListener("hashchange", (event) => {
  if (shown === "turns/") place = { hash: new URL(event.oldURL).hash, top: scrolled };
  show();
});
addEventListener("scroll", () => {
  scrolled = scrollY;
}, { passive: true });
drawTheme();
await drawSession();
show();
