// Before anything is drawn, so that no page flashes in the wrong colours. Not a module: those come after the page.
document.documentElement.dataset.scripted = "";
try {
  const theme = localStorage.getItem("hookline-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A frame that may keep nothing follows the system.
}
