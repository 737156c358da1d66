// Light, dark, or as the system has it. `early.js` applies what was kept before the page is drawn.

import { say } from "./say.js";

const KEPT = "hookline-theme";
const THEMES = ["light", "dark"];
const root = document.documentElement;

// From the system's to the other one, so that the first click is seen.
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
    if (theme === "system") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, theme);
  } catch {
    // It holds for this page, then.
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
// Other tabs follow.
addEventListener("storage", (event) => {
  if (event.key !== KEPT) return;
  if (THEMES.includes(event.newValue)) root.dataset.theme = event.newValue;
  else delete root.dataset.theme;
  name();
});
name();
