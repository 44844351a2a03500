/** Follows `inspector/api/feed` until it is stopped: connects again when the connection breaks. */

import { api } from "./api.js";

const LONGEST_WAIT = 15_000;

/** `onTurn(record)`: it started, changed or ended. `onReload()`: load again, because the feed begins here, or too much
 * has changed. `onState("live" | "waiting" | "off")`. */
export function follow({ signal, onTurn, onReload, onState }) {
  let wait = 1000;
  const run = async () => {
    while (!signal.aborted) {
      try {
        await api.stream("inspector/api/feed", { signal }, ({ event, data }) => {
          if (signal.aborted) return;
          wait = 1000;
          if (event === "hello") onState("live");
          if (event === "hello" || event === "reload") onReload();
          else if (event === "turn") onTurn(JSON.parse(data));
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
