// Sets the theme before the page is drawn, so that it does not flash in the wrong colours. Modules would run too late.
document.documentElement.dataset.scripted = "";
try {
  const theme = localStorage.getItem("hookline-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Local storage is blocked, as in some frames: use the theme of the system.
}
