// Says something to those who listen to the page instead of seeing it.

const voice = document.createElement("p");
voice.className = "unseen";
voice.setAttribute("role", "status");
document.body.append(voice);

export function say(words) {
  voice.textContent = "";
  // A change is read out; the same words twice would not be one.
  setTimeout(() => (voice.textContent = words), 50);
}
