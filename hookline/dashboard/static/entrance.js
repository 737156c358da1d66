// Links sign in by themselves: what opens the door is behind the #, which no server and no log ever sees.
// It is taken out of the address bar and the history before anything else happens.

const fragment = new URLSearchParams(location.hash.slice(1));
const key = fragment.get("key");
const token = fragment.get("token");
const inside = document.querySelector("a[data-inside]");
const asks = document.querySelector("[data-asks]"); // another site has led here

function sendWith(name, value) {
  const field = document.querySelector(`input[name="${name}"]`);
  if (field === null) return;
  field.value = value;
  if (asks !== null) {
    asks.hidden = false;
    field.form.querySelector("button").focus();
    return;
  }
  field.form.elements.pressed.value = "";
  field.form.closest("main").setAttribute("aria-busy", "true");
  field.form.submit();
}

if (key !== null || token !== null) history.replaceState(null, "", location.pathname + location.search);

if (key !== null && location.pathname === "/login") {
  // A customer's: its form is on the portal's own page.
  location.replace(`/portal/login#key=${encodeURIComponent(key)}`);
} else if (key !== null) {
  sendWith("key", key);
} else if (token !== null && inside !== null) {
  location.replace(inside.href); // nobody's link changes who is signed in
} else if (token !== null) {
  sendWith("token", token);
}
