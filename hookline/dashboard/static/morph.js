// Updates one element to match another and changes only the differences. It keeps focus, selection, open details, checked
// boxes and typed text. Children are matched by id or data-key, or else by position.

// Attributes that a script or the viewer sets. Updates from the server do not change them.
const OURS = new Set(["open", "data-local", "data-done", "data-some", "data-sent", "aria-busy"]);

export function morph(from, to) {
  const focused = document.activeElement;
  update(from, to);
  // A row loses the focus when it is moved.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function update(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
  } else if (!from.isEqualNode(to) && !settled(from, to)) {
    attributes(from, to);
    children(from, to);
  }
}

// Whether a script rewrote the element and would write the same text again.
function settled(from, to) {
  if (from.localName === "time" && from.dataset.local) {
    if (from.dateTime === to.dateTime) return true;
    delete from.dataset.local;
  }
  return "done" in from.dataset;
}

function attributes(from, to) {
  for (const { name, value } of to.attributes) if (!OURS.has(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
  for (const { name } of [...from.attributes]) if (!OURS.has(name) && !to.hasAttribute(name)) from.removeAttribute(name);
}

function children(from, to) {
  const known = new Map([...from.children].reverse().map((child) => [key(child), child])); // of children with the same key, the first
  const wanted = new Set([...to.children].map(key));
  let at = from.firstChild;
  const skip = () => {
    while (at && (isOurs(at) || (key(at) && !wanted.has(key(at))))) {
      const left = at;
      at = at.nextSibling;
      if (!isOurs(left)) left.remove();
    }
  };
  for (const next of [...to.childNodes].filter((each) => !isOurs(each))) {
    skip();
    const same = key(next) ? known.get(key(next)) : at && alike(at, next) ? at : null;
    known.delete(key(next));
    if (!same) {
      from.insertBefore(document.importNode(next, true), at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else from.insertBefore(same, at);
    if (alike(same, next)) update(same, next);
    else same.replaceWith(document.importNode(next, true));
  }
  while (at) {
    const left = at;
    at = at.nextSibling;
    if (!isOurs(left)) left.remove();
  }
}

function key(node) {
  return node.id || node.dataset?.key || null;
}

function isOurs(node) {
  return node.nodeType === Node.ELEMENT_NODE && "ours" in node.dataset;
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && key(one) === key(other);
}
