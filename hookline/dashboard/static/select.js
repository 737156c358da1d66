// Selection of table rows: select all, select a range with shift, show the number of selected rows.

let last = null; // the last checkbox that was clicked

const scope = (node) => node.closest("form") ?? document;
const boxes = (node) => [...scope(node).querySelectorAll("[data-pick]")];

function update(root) {
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
  update(scope(box));
}

document.addEventListener("click", ({ target, shiftKey }) => {
  if (target.matches?.("[data-pick]")) tick(target, shiftKey);
  if (target.matches?.("[data-pick-all]")) {
    for (const box of boxes(target)) box.checked = target.checked;
    update(scope(target));
  }
});

function all() {
  for (const bar of document.querySelectorAll("[data-picked-bar]")) update(scope(bar));
}

document.addEventListener("morphed", all);
addEventListener("pageshow", all);
all();
