/** What the gateway says about itself and about the key that the page uses. */

import { api } from "./api.js";

/** `current`: the answer of `inspector/api/session`, or null. `skew`: the gateway's clock minus ours, in seconds.
 * `isLocked`: the gateway needs a key, and the user did not enter one. */
export const session = { current: null, skew: 0, isLocked: false };

export async function loadSession() {
  try {
    session.current = await api.get("inspector/api/session");
    session.skew = session.current.now - Date.now() / 1000;
    session.isLocked = false;
  } catch (error) {
    session.current = null;
    session.isLocked = error.status === 401;
  }
  return session.current;
}

/** The gateway's time, in seconds since 1970. */
export function gatewayNow() {
  return Date.now() / 1000 + session.skew;
}
