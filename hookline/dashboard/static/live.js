// Parts of the page that update in place: the page's own address, asked for as a stream, tells what changed.

import { morph } from "./morph.js";

const MEDIA = "text/event-stream";
const FIRST = 2000; // milliseconds until it asks again; then twice as long each time
const LONGEST = 60_000;
const ATTENTION = 30_000; // milliseconds after the last move of a pointer or press of a key

let asked = null; // what ends the stream that is open
let later = 0;
let delay = FIRST;

const waiting = new Map(); // parts that have come, and would move a row that somebody is about to use
const misfits = new WeakMap(); // those that were tried, with the row that they moved
const hint = document.createElement("span"); // not in the status beside it, which is read out whenever it changes
let stirred = performance.now(); // when somebody was here last
let due = 0;

async function open() {
  close();
  asked = new AbortController();
  const { signal } = asked;
  try {
    const answer = await fetch(location.href, { headers: { accept: MEDIA }, redirect: "manual", cache: "no-store", signal });
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) return tell("off", "Signed out");
    if (answer.status === 404 || answer.status === 406) return tell("off", "Not live");
    if (answer.ok && answer.headers.get("content-type")?.startsWith(MEDIA)) await read(answer.body);
  } catch {
    // The server is away, and may come back.
  }
  if (!signal.aborted) again();
}

async function read(body) {
  let rest = "";
  for await (const text of chunks(body.pipeThrough(new TextDecoderStream()))) {
    delay = FIRST;
    alive();
    const events = (rest + text).split("\n\n");
    rest = events.pop();
    for (const event of events) take(event);
  }
}

async function* chunks(stream) {
  const reader = stream.getReader();
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) yield value;
}

function take(event) {
  const data = event.split("\n").find((line) => line.startsWith("data: "));
  if (data) show(JSON.parse(data.slice("data: ".length)));
}

function show(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const made = document.createElement("template");
    made.innerHTML = html;
    waiting.set(id, made.content.firstElementChild);
  }
  settle();
  alive();
}

function settle() {
  for (const [id, made] of waiting) {
    const part = document.getElementById(id);
    if (part && (reorders(part, made) || !fits(part, made))) continue;
    waiting.delete(id);
  }
  hint.textContent = waiting.size ? "The list waits" : "";
  clearTimeout(due);
  if (waiting.size && rest() > 0) due = setTimeout(settle, rest());
}

function put(part, made) {
  const before = stirred;
  morph(part, made);
  stirred = before; // it gives the focus back to a row that has moved, which is nobody's doing
  part.dispatchEvent(new CustomEvent("morphed", { bubbles: true }));
}

// ── rows stand still while somebody points at one, has the focus in it or has ticked it: a click would act on another one ──

const HOVERED = matchMedia("(hover: hover)").matches ? ["tr[data-key]:hover"] : []; // what a finger has touched stays hovered
const POINTED = [...HOVERED, "tr[data-key]:focus-within"];
const TICKED = "tr[data-key] [data-pick]:checked";

// A pointer or a focus that was left there is nobody's after a while.
const rest = () => stirred + ATTENTION - performance.now();

function pointed() {
  return rest() > 0 ? POINTED.map((query) => document.querySelector(query)).filter((row) => row) : [];
}

function reorders(part, made) {
  const there = (row) => made.querySelector(`tr[data-key="${CSS.escape(row.dataset.key)}"]`);
  const ticked = [...part.querySelectorAll(TICKED)].map((box) => box.closest("tr"));
  const used = [...pointed().filter((row) => part.contains(row)), ...ticked];
  return used.some((row) => there(row)?.sectionRowIndex !== row.sectionRowIndex);
}

// Shows a part, unless that moves the row from its place on the screen and the page cannot be scrolled as far.
function fits(part, made) {
  const [row] = pointed();
  if (row && misfits.get(made) === row) return false;
  const top = row?.getBoundingClientRect().top;
  const before = row && part.cloneNode(true);
  put(part, made);
  if (!row || scrolled(row, top)) return true;
  put(part, before);
  scrolled(row, top);
  misfits.set(made, row);
  return false;
}

function scrolled(row, top) {
  const moved = () => row.getBoundingClientRect().top - top;
  if (moved()) scrollBy({ top: moved(), behavior: "instant" });
  return Math.abs(moved()) < 1;
}

function stir() {
  stirred = performance.now();
}

function soon() {
  if (waiting.size) setTimeout(settle); // once the focus is where it goes, and not on its way
}

function close() {
  clearTimeout(later);
  asked?.abort();
  asked = null;
}

// A stream ends by itself after a while: that alone is nothing to tell.
function again() {
  if (delay > FIRST) tell("off", "Reconnecting");
  later = setTimeout(open, delay);
  delay = Math.min(2 * delay, LONGEST);
}

function alive() {
  tell("on", "Live");
}

function tell(state, words) {
  const node = document.querySelector("[data-alive]");
  if (!node || node.textContent === words) return;
  node.dataset.alive = state;
  node.textContent = words;
}

if ("live" in document.body.dataset) {
  hint.className = "alive scripted";
  hint.setAttribute("aria-hidden", "true");
  document.querySelector("[data-alive]")?.after(hint);
  // Nobody looks at a hidden page: it need not be read again and again.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  for (const kind of ["pointermove", "pointerdown", "keydown", "focusin", "change"]) document.addEventListener(kind, stir);
  for (const kind of ["pointerover", "focusin", "focusout", "change"]) document.addEventListener(kind, soon);
  document.documentElement.addEventListener("pointerleave", soon);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  if (!document.hidden) open();
}
