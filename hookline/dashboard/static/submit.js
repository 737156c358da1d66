// Forms: lists that submit on change, URLs without empty parameters, and no double submission.

const WAIT = 10_000; // milliseconds after which a form may be sent again

document.addEventListener("change", ({ target }) => {
  if (target.matches?.("[data-submit]")) target.form.requestSubmit();
});

document.addEventListener("formdata", ({ target, formData }) => {
  if (target.method !== "get") return;
  for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if ("sent" in form.dataset) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "";
  event.submitter?.setAttribute("aria-busy", "true");
  setTimeout(() => ready(form), WAIT);
});

function ready(form) {
  delete form.dataset.sent;
  for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
}

// The browser may restore the page from its cache with the last selection. Reset the fields to what the server sent.
addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach(ready);
  document.querySelectorAll("[data-submit]").forEach(asServed);
});

function asServed(field) {
  if (!field.options) return (field.value = field.defaultValue);
  const options = [...field.options];
  (options.find((option) => option.defaultSelected) ?? options[0]).selected = true;
}
