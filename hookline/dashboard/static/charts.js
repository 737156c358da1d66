// Shows the values of a chart at the pointer, or at the position that the arrow keys have reached.

import { say } from "./say.js";
import { clock } from "./time.js";

const GAP = 12; // pixels from the pointer to the readout

let shown = null; // { plot, at }: `at` is the index of a time step or of a coloured part

// ── values ──

const marks = (plot) => ("times" in plot.dataset ? plot.dataset.times.split(" ").filter(Boolean) : stretches(plot));
// The coloured parts, sorted by time: the server draws a band in another order. The rows of a waterfall are sorted already.
const stretches = (plot) => {
  const found = [...plot.querySelectorAll(".stretch")];
  return plot.dataset.stretches === "clock" ? found.sort((one, other) => one.dataset.since - other.dataset.since) : found;
};

function reading(plot, at) {
  if ("times" in plot.dataset) return curves(plot, at);
  const stretch = stretches(plot)[at];
  const { of, words, took, since } = stretch.dataset;
  const when = plot.dataset.stretches === "clock" ? clock(new Date(Number(since))) : of;
  return { title: when, lines: [{ name: words, shade: shadeOf(stretch), value: took }], x: middle(plot, stretch) };
}

function curves(plot, at) {
  const times = marks(plot).map(Number);
  const lines = [...plot.querySelectorAll("[data-name]")].map(({ dataset }) => ({
    name: dataset.name,
    shade: dataset.shade,
    value: dataset.words.split("|")[at],
  }));
  const span = times.at(-1) - times[0] || 1;
  return { title: clock(new Date(times[at] * 1000), false), lines, x: ((times[at] - times[0]) / span) * plot.clientWidth };
}

function shadeOf(node) {
  return [...node.classList].find((name) => name.startsWith("shade-"))?.slice("shade-".length) ?? "accent";
}

function middle(plot, node) {
  const box = node.getBoundingClientRect();
  return box.left + box.width / 2 - plot.getBoundingClientRect().left;
}

// ── readout ──

function show(plot, at, aloud = false) {
  if (shown && shown.plot !== plot) hide();
  const count = marks(plot).length;
  if (!count) return;
  shown = { plot, at: Math.max(0, Math.min(count - 1, at)) };
  const { title, lines, x } = reading(plot, shown.at);
  const box = part(plot, "readout");
  box.replaceChildren(text("b", title), ...lines.map(line));
  box.style.left = `${x + GAP + box.offsetWidth > plot.clientWidth ? Math.max(0, x - GAP - box.offsetWidth) : x + GAP}px`;
  if ("times" in plot.dataset) {
    const cursor = part(plot, "cursor");
    cursor.style.left = `${x}px`;
    cursor.style.height = `${plot.querySelector(".stretched").getBoundingClientRect().height}px`;
  }
  if (aloud) say([title, ...lines.map(({ name, value }) => `${name} ${value}`)].join(", "));
}

function hide() {
  shown?.plot.querySelectorAll("[data-ours]").forEach((node) => node.remove());
  shown = null;
}

function part(plot, name) {
  let node = plot.querySelector(`.${name}`);
  if (!node) {
    node = document.createElement("div");
    node.className = name;
    node.dataset.ours = "";
    node.setAttribute("aria-hidden", "true");
    plot.append(node);
  }
  return node;
}

function line({ name, shade, value }) {
  const made = document.createElement("span");
  const swatch = document.createElement("i");
  swatch.className = `swatch shade-${shade}`;
  made.append(swatch, name, text("b", value));
  return made;
}

function text(name, words) {
  const made = document.createElement(name);
  made.textContent = words;
  return made;
}

// ── pointer and keyboard ──

function nearest(plot, event) {
  if (!("times" in plot.dataset)) return stretches(plot).indexOf(event.target);
  const box = plot.getBoundingClientRect();
  const times = marks(plot).map(Number);
  const at = times[0] + ((event.clientX - box.left) / box.width) * (times.at(-1) - times[0]);
  return times.reduce((best, time, index) => (Math.abs(time - at) < Math.abs(times[best] - at) ? index : best), 0);
}

for (const name of ["pointermove", "pointerdown"]) {
  document.addEventListener(name, (event) => {
    const plot = event.target.closest?.(".plot");
    const at = plot ? nearest(plot, event) : -1;
    if (at >= 0) show(plot, at);
    else if (shown && document.activeElement !== shown.plot) hide();
  });
}

document.addEventListener("keydown", (event) => {
  const plot = event.target.closest?.(".plot");
  if (!plot) return;
  const here = shown?.plot === plot ? shown.at : -1;
  const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: Infinity }[event.key];
  if (event.key === "Escape") hide();
  if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  show(plot, to, true);
});

document.addEventListener("focusin", ({ target }) => {
  if (target.matches?.(".plot:focus-visible")) show(target, "times" in target.dataset ? Infinity : 0, true);
});
document.addEventListener("focusout", ({ target }) => {
  if (shown?.plot === target) hide();
});
document.addEventListener("morphed", () => {
  if (shown?.plot.isConnected) show(shown.plot, shown.at);
  else shown = null;
});
