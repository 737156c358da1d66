// Signs in with the token of a link. The token is in the fragment (after #), which browsers never send to a server.
// The script first removes the token from the address bar and the history.

const inside = document.querySelector("a[data-inside]");
const asks = document.querySelector("[data-asks]"); // present if another site linked here

function signIn(automatically) {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const key = fragment.get("key");
  const token = fragment.get("token");
  if (key === null && token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  if (key !== null && location.pathname === "/login") {
    // A customer's link: the form for it is on the sign-in page of the portal.
    location.replace(`/portal/login#key=${encodeURIComponent(key)}`);
  } else if (key !== null) {
    sendWith("key", key, automatically);
  } else if (inside !== null) {
    location.replace(inside.href); // a link must not sign in somebody else instead
  } else {
    sendWith("token", token, automatically);
  }
}

function sendWith(name, value, automatically) {
  const field = document.querySelector(`input[name="${name}"]`);
  if (field === null) return;
  field.value = value;
  field.form.elements.pressed.value = ""; // so that the server asks before a link switches to another portal
  if (asks !== null || !automatically) {
    asks?.removeAttribute("hidden");
    field.form.querySelector("button").focus();
    return;
  }
  field.form.closest("main").setAttribute("aria-busy", "true");
  field.form.submit();
}

// A prerendered page must not use the link, because the link works only once.
if (document.prerendering) document.addEventListener("prerenderingchange", () => signIn(true), { once: true });
else signIn(true);
// A change of the fragment does not load the page again. Another window can cause this, so a person must press the button.
addEventListener("hashchange", () => signIn(false));
