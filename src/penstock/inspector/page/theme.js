/* Loaded before anything is drawn, so that a chosen theme does not flash. The choice is the only thing that this page
 * keeps in the browser. */
"use strict";

{
  let chosen = null;
  try {
    chosen = localStorage.getItem("penstock-theme");
  } catch {
    // Storage may be forbidden: then the theme is that of the system.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
