/** Addresses of the page: what is after `#`. */

/** `#/turns/ID/editor?thinking=part` -> the view, its section of the navigation, the id and the query. */
export function route(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [name = "", id = "", sub = ""] = path.split("/").map(decoded);
  const query = Object.fromEntries(new URLSearchParams(search));
  if (!name) return { view: "turns", section: "turns", id: "", query };
  if (name === "turns" && id) return { view: sub === "editor" ? "editor" : "turn", section: "turns", id, query };
  if (name === "rules") return { view: "rules", section: "check", id, query };
  return { view: name, section: name, id, query };
}

/** The address of a view: `to("turns", id)`, `to("turns", id, "editor")`, `to("turns", "", "", {model: "demo"})`. */
export function to(name, id = "", sub = "", query = {}) {
  const path = [name, id, sub].filter(Boolean).map(encodeURIComponent).join("/");
  return `#/${path}${searchOf(query)}`;
}

/** Change the query of the address without a new entry in the history, and without showing the view again. */
export function setQuery(query) {
  const [path] = location.hash.split("?", 1);
  history.replaceState(null, "", `${path || "#/turns"}${searchOf(query)}`);
}

function searchOf(query) {
  const filled = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return filled.length ? `?${new URLSearchParams(filled)}` : "";
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
