// Links sign in by themselves: what opens the door is behind the #, which no server and no log ever sees.
// It is taken out of the address bar and the history before anything else happens.

const inside = document.querySelector("a[data-inside]");
const asks = document.querySelector("[data-asks]"); // another site has led here

function enter(alone) {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const key = fragment.get("key");
  const token = fragment.get("token");
  if (key === null && token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  if (key !== null && location.pathname === "/login") {
    // A customer's: its form is on the portal's own page.
    location.replace(`/portal/login#key=${encodeURIComponent(key)}`);
  } else if (key !== null) {
    sendWith("key", key, alone);
  } else if (inside !== null) {
    location.replace(inside.href); // nobody's link changes who is signed in
  } else {
    sendWith("token", token, alone);
  }
}

function sendWith(name, value, alone) {
  const field = document.querySelector(`input[name="${name}"]`);
  if (field === null) return;
  field.value = value;
  field.form.elements.pressed.value = ""; // whoever presses for a link is asked all the same where it leads out of a portal
  if (asks !== null || !alone) {
    asks?.removeAttribute("hidden");
    field.form.querySelector("button").focus();
    return;
  }
  field.form.closest("main").setAttribute("aria-busy", "true");
  field.form.submit();
}

// A page that is only being prepared uses up no link.
if (document.prerendering) document.addEventListener("prerenderingchange", () => enter(true), { once: true });
else enter(true);
// A link over the address of this page loads nothing. Whoever put it there, reader or another window, it waits to be pressed.
addEventListener("hashchange", () => enter(false));
