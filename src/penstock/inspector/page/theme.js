/* Loaded before anything is drawn, so that no theme flashes. The choice (`data-theme`) is the only thing that this page
 * keeps in the browser; without one, the theme is that of the system. */
"use strict";

{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => root.classList.toggle("dark", root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  let chosen = null;
  try {
    chosen = localStorage.getItem("penstock-theme");
  } catch {
    // Storage may be forbidden.
  }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  apply();
  system.addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
  document.addEventListener("themechange", apply);
}
