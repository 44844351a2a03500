/** Follows `inspector/api/feed` until it is stopped: connects again when the connection breaks. */

import { api } from "./api.js";

const LONGEST_WAIT = 15_000;

/** `onTurn(record)`, `onReload()`: too much has changed, load again; `onState("live" | "waiting" | "off")`. */
export function follow({ signal, onTurn, onReload, onState }) {
  let wait = 1000;
  let since = null;
  const run = async () => {
    while (!signal.aborted) {
      try {
        await api.stream("inspector/api/feed", { signal, query: { since } }, ({ event, data }) => {
          if (signal.aborted) return;
          wait = 1000;
          const value = JSON.parse(data);
          if (event === "hello") {
            since ??= value.now;
            onState("live");
          } else if (event === "reload") onReload();
          else if (event === "turn") onTurn(value);
        });
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 404 || error.status === 401 || error.status === 403) {
          onState("off");
          return;
        }
      }
      if (signal.aborted) return;
      onState("waiting");
      await pause(wait, signal);
      wait = Math.min(LONGEST_WAIT, wait * 2);
      if (since !== null) onReload(); // turns that ran through the break may have changed
    }
  };
  run();
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
