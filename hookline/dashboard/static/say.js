// Announces a message to screen readers.

const voice = document.createElement("p");
voice.className = "unseen";
voice.setAttribute("role", "status");
document.body.append(voice);

export function say(words) {
  voice.textContent = "";
  // Screen readers read only changes, so the text is cleared first.
  setTimeout(() => (voice.textContent = words), 50);
}
