// Keyboard shortcuts: `g` and a letter open a page, `j` and `k` move through rows, `/` searches, `?` shows the list.

import { nextTheme } from "./theme.js";

const CHORD = 1500; // milliseconds between the two keys of a chord
const OFF = "hookline-keys-off";

let chord = 0; // time until which the second key of a chord is accepted

const KEYS = {
  "?": ["Keyboard shortcuts", help],
  "/": ["Search", search],
  j: ["Next row", () => row(1)],
  k: ["Previous row", () => row(-1)],
  x: ["Select the row", pick],
  "[": ["Shorter time range", () => range(-1)],
  "]": ["Longer time range", () => range(1)],
  t: ["Light or dark", nextTheme],
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || off() || typing(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const chorded = performance.now() < chord;
  chord = event.key === "g" && !chorded ? performance.now() + CHORD : 0;
  const act = chorded ? place(event.key) : KEYS[event.key]?.[1];
  if (!act) return;
  event.preventDefault();
  act();
});

document.addEventListener("click", ({ target }) => {
  if (target.closest?.("[data-help]")) help();
});

function typing(node) {
  return node.matches?.("textarea, select, [contenteditable]") || (node.matches?.("input") && !node.matches("[type=checkbox], [type=radio]"));
}

const places = () => [...document.querySelectorAll("[data-go]")];

function place(key) {
  const link = places().find((each) => each.dataset.go === key);
  return link && (() => link.click());
}

function search() {
  const field = document.querySelector("main input[type=search], main [role=search] input:not([type=hidden])");
  field?.focus();
  field?.select?.();
}

// ── rows ──

const rows = () => [...document.querySelectorAll("main .table tbody tr")].filter((each) => entry(each));
const entry = (tr) => tr.querySelector("a[href]") ?? tr.querySelector("button:not(.copy), input, summary");
const here = () => document.activeElement.closest?.("main .table tbody tr");

function row(by) {
  const all = rows();
  const at = all.indexOf(here());
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
  if (next) entry(next).focus();
}

function pick() {
  here()?.querySelector("[data-pick]")?.click();
}

function range(by) {
  const links = [...document.querySelectorAll(".range a")];
  links[links.findIndex((link) => link.ariaCurrent) + by]?.click();
}

// ── help ──

function off() {
  try {
    return localStorage.getItem(OFF) !== null;
  } catch {
    return false;
  }
}

function turn(on) {
  try {
    if (on) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  } catch {
    // Local storage is blocked, so the shortcuts stay on.
  }
}

function help() {
  const dialog = made("dialog", { ariaLabel: "Keyboard shortcuts" });
  const shortcuts = Object.entries(KEYS).map(([key, [words]]) => item(words, key));
  const going = places().map((link) => item(link.textContent, "g", link.dataset.go));
  const close = made("button", { className: "button", autofocus: true, textContent: "Close" });
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  const title = made("div", { className: "title" }, made("h2", { textContent: "Keyboard shortcuts" }), close);
  dialog.append(title, made("ul", { className: "keys" }, ...shortcuts, ...going), toggle());
  document.body.append(dialog);
  dialog.showModal();
}

function item(words, ...keys) {
  const pressed = made("span", {}, ...keys.map((key) => made("kbd", { textContent: key })));
  return made("li", {}, made("span", { textContent: words }), pressed);
}

function toggle() {
  const box = made("input", { type: "checkbox", className: "pick", checked: !off() });
  box.addEventListener("change", () => turn(box.checked));
  return made("p", {}, made("label", {}, box, " Enable keyboard shortcuts"));
}

function made(name, properties, ...inside) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...inside);
  return node;
}
