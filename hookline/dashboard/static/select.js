// Rows of a table that are selected: all of them, a run of them with shift, and how many there are.

let last = null; // the box that was ticked before

const scope = (node) => node.closest("form") ?? document;
const boxes = (node) => [...scope(node).querySelectorAll("[data-pick]")];

function tell(root) {
  const all = [...root.querySelectorAll("[data-pick]")];
  const ticked = all.filter((box) => box.checked).length;
  for (const bar of root.querySelectorAll("[data-picked-bar]")) {
    bar.toggleAttribute("data-some", ticked > 0);
    for (const words of bar.querySelectorAll("[data-picked]")) {
      const text = ticked ? `${ticked.toLocaleString("en")} selected` : "None selected";
      if (words.textContent !== text) words.textContent = text;
    }
    for (const button of bar.querySelectorAll("button:not([data-always])")) button.disabled = ticked === 0;
  }
  for (const box of root.querySelectorAll("[data-pick-all]")) {
    box.checked = ticked > 0 && ticked === all.length;
    box.indeterminate = ticked > 0 && ticked < all.length;
  }
}

function tick(box, shift) {
  const all = boxes(box);
  const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((one, other) => one - other);
  if (shift && from >= 0) for (const each of all.slice(from, to + 1)) each.checked = box.checked;
  last = box;
  tell(scope(box));
}

document.addEventListener("click", ({ target, shiftKey }) => {
  if (target.matches?.("[data-pick]")) tick(target, shiftKey);
  if (target.matches?.("[data-pick-all]")) {
    for (const box of boxes(target)) box.checked = target.checked;
    tell(scope(target));
  }
});

function all() {
  for (const bar of document.querySelectorAll("[data-picked-bar]")) tell(scope(bar));
}

document.addEventListener("morphed", all);
addEventListener("pageshow", all);
all();
