// The theme: light, dark, or the system's. `early.js` applies the stored theme before the page is drawn.

import { say } from "./say.js";

const STORAGE_KEY = "hookline-theme";
const THEMES = ["light", "dark"];
const root = document.documentElement;

// The theme after `system` is the opposite of the system's, so that the first click has a visible effect.
function order() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return ["system", ...(dark ? THEMES : [...THEMES].reverse())];
}

export function nextTheme() {
  const themes = order();
  const next = themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length];
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  keep(next);
  name();
  say(`Colours: ${next}`);
}

function keep(theme) {
  try {
    if (theme === "system") localStorage.removeItem(STORAGE_KEY);
    else localStorage.setItem(STORAGE_KEY, theme);
  } catch {
    // Local storage is blocked, so the theme applies only to this page.
  }
}

function name() {
  for (const button of document.querySelectorAll("[data-theme-next]")) {
    button.title = `Colours: ${root.dataset.theme ?? "system"}`;
    button.setAttribute("aria-label", `${button.title}. Change`);
  }
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-next]")) nextTheme();
});
// Change the theme of other tabs too.
addEventListener("storage", (event) => {
  if (event.key !== STORAGE_KEY) return;
  if (THEMES.includes(event.newValue)) root.dataset.theme = event.newValue;
  else delete root.dataset.theme;
  name();
});
name();
