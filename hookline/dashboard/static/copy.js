// Copy buttons.

import { say } from "./say.js";

const SHOWN = 1500; // milliseconds for which a button shows that the text was copied

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const copied = await copy(button.dataset.copy);
  say(copied ? "Copied" : "Could not copy");
  if (copied) done(button);
});

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyWithSelection(text); // the clipboard is not available over plain HTTP and in some frames
  }
}

function copyWithSelection(text) {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  before?.focus({ preventScroll: true });
  return copied;
}

function done(button) {
  if ("done" in button.dataset) return;
  const words = button.textContent;
  button.dataset.done = "";
  button.textContent = words.length > 1 ? "Copied" : "✓";
  setTimeout(() => {
    delete button.dataset.done;
    button.textContent = words;
  }, SHOWN);
}
