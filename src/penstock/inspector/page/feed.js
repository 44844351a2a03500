/** Follows `inspector/api/feed` until it is stopped: connects again when the connection breaks. */

import { api } from "./api.js";
import { session } from "./session.js";

const LONGEST_WAIT = 15_000;
/** A page that nobody sees for this long gives its connection back: a browser has only six to one gateway. */
const HIDDEN = 20_000;

/** `onTurn(record)`: it started, changed or ended. `onReload()`: load again, because the feed begins here, or too much
 * has changed. `onState("live" | "waiting" | "paused" | "off")`: paused while nobody sees the page. */
export function follow({ signal, onTurn, onReload, onState }) {
  let wait = 1000;
  const run = async () => {
    while (!signal.aborted) {
      await visible(signal);
      if (signal.aborted) return;
      const hidden = whenHidden(signal);
      try {
        await api.stream("inspector/api/feed", { signal: hidden.signal }, ({ event, data }) => {
          if (hidden.signal.aborted) return;
          wait = 1000;
          if (event === "hello") {
            session.skew = JSON.parse(data).now - Date.now() / 1000;
            onState("live");
          }
          if (event === "hello" || event === "reload") onReload();
          else if (event === "turn") onTurn(JSON.parse(data));
        });
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 404 || error.status === 401 || error.status === 403) {
          onState("off");
          return;
        }
      } finally {
        hidden.stop();
      }
      if (signal.aborted) return;
      onState(hidden.signal.aborted ? "paused" : "waiting");
      if (hidden.signal.aborted) continue;
      await pause(wait, signal);
      wait = Math.min(LONGEST_WAIT, wait * 2);
    }
  };
  run();
}

/** Return a signal that is aborted when the page has been hidden for some time, or with the other signal. */
function whenHidden(signal) {
  const abort = new AbortController();
  let timer = 0;
  const check = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => abort.abort(), HIDDEN);
  };
  const leave = () => abort.abort();
  document.addEventListener("visibilitychange", check);
  signal.addEventListener("abort", leave);
  check();
  return {
    signal: abort.signal,
    stop: () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", leave);
    },
  };
}

/** Wait until the page is visible. */
function visible(signal) {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
    check();
  });
}

/** Wait, or until one of the signals is aborted. One that is aborted already does not count. */
export function pause(milliseconds, ...signals) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    for (const signal of signals) signal.addEventListener("abort", done);
  });
}
