// Optional features of the page: the search box, the copy buttons, and the highlighting of the current section.

const box = document.getElementById("find");
const found = document.getElementById("found");
const nav = document.querySelector("nav");
const contents = document.getElementById("contents");
const operations = [...document.querySelectorAll(".operation")];
const groups = [...document.querySelectorAll("nav .group")];
const links = new Map([...document.querySelectorAll("nav li a")].map((link) => [link.hash.slice(1), link]));

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const operation of operations) {
    const fits = words.every((word) => operation.dataset.text.includes(word));
    operation.hidden = !fits;
    links.get(operation.id).parentElement.hidden = !fits;
    count += fits;
  }
  for (const section of document.querySelectorAll("main > section")) {
    const own = section.querySelectorAll(".operation");
    section.hidden = words.length > 0 && ![...own].some((operation) => !operation.hidden);
  }
  for (const group of groups) group.hidden = !group.querySelector("li:not([hidden])");
  for (const list of document.querySelectorAll("nav .plain")) list.hidden = words.length > 0;
  if (words.length > 0) contents.open = true;
  found.textContent = words.length === 0 ? "" : `${count} of ${operations.length} operations`;
}

function showAll() {
  if (box.value === "") return;
  box.value = "";
  search();
}

function onKey(event) {
  const typing = event.target.closest("input, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    box.focus();
  } else if (event.key === "Escape" && typing === box) {
    showAll();
  }
}

// A link to an element that the search has hidden shows all elements again.
function onHash() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.closest("[hidden]")) {
    showAll();
    target.scrollIntoView();
  }
}

function addCopyButtons() {
  if (!navigator.clipboard) return;
  for (const sample of document.querySelectorAll(".sample")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(sample.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    sample.append(button);
  }
}

// Does not use scrollIntoView, because that may scroll the page too.
function keepInView(link) {
  const above = link.offsetTop - nav.scrollTop - box.offsetHeight * 3;
  const below = link.offsetTop + link.offsetHeight - nav.scrollTop - nav.clientHeight;
  if (above < 0) nav.scrollTop += above;
  else if (below > 0) nav.scrollTop += below;
}

function followReader() {
  let current;
  const watcher = new IntersectionObserver(
    (entries) => {
      const entry = entries.find((each) => each.isIntersecting);
      const link = entry && links.get(entry.target.id);
      if (!link || link === current) return;
      current?.removeAttribute("aria-current");
      link.setAttribute("aria-current", "location");
      current = link;
      keepInView(link);
    },
    { rootMargin: "-60px 0px -75% 0px" },
  );
  for (const id of links.keys()) watcher.observe(document.getElementById(id));
}

document.getElementById("search").hidden = false;
if (matchMedia("(max-width: 760px)").matches) contents.open = false;
box.addEventListener("input", search);
document.addEventListener("keydown", onKey);
addEventListener("hashchange", onHash);
addCopyButtons();
followReader();
