// Live updates: the page's own URL, requested as an event stream, sends the parts that changed.

import { morph } from "./morph.js";

const MEDIA = "text/event-stream";
const FIRST_DELAY = 2000; // milliseconds before the first reconnect; the delay doubles each time
const MAX_DELAY = 60_000;
const ATTENTION = 30_000; // milliseconds after the last input during which rows must not move

let controller = null; // aborts the open stream
let timer = 0; // timer of the next reconnect
let delay = FIRST_DELAY;

const waiting = new Map(); // received parts that are not shown yet, because they would move a row in use
const misfits = new WeakMap(); // parts that moved a row in use when they were shown, with that row
const hint = document.createElement("span"); // not in the status element, because screen readers read that on each change
let lastInput = performance.now(); // time of the last input
let retryTimer = 0;

async function open() {
  close();
  controller = new AbortController();
  const { signal } = controller;
  try {
    const answer = await fetch(location.href, { headers: { accept: MEDIA }, redirect: "manual", cache: "no-store", signal });
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) return setStatus("off", "Signed out");
    if (answer.status === 404 || answer.status === 406) return setStatus("off", "Not live");
    if (answer.ok && answer.headers.get("content-type")?.startsWith(MEDIA)) await read(answer.body);
  } catch {
    // The server is not reachable: try again below.
  }
  if (!signal.aborted) reconnect();
}

async function read(body) {
  let rest = "";
  for await (const text of chunks(body.pipeThrough(new TextDecoderStream()))) {
    delay = FIRST_DELAY;
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
  hint.textContent = waiting.size ? "Update paused" : "";
  clearTimeout(retryTimer);
  if (waiting.size && attentionLeft() > 0) retryTimer = setTimeout(settle, attentionLeft());
}

function put(part, made) {
  const before = lastInput;
  morph(part, made);
  lastInput = before; // `morph` restores the focus, which must not count as input
  part.dispatchEvent(new CustomEvent("morphed", { bubbles: true }));
}

// ── a row must not move while the viewer points at it, has the focus in it or has selected it: a click would hit another row ──

const HOVERED = matchMedia("(hover: hover)").matches ? ["tr[data-key]:hover"] : []; // on a touch screen, the last touched element stays hovered
const POINTED = [...HOVERED, "tr[data-key]:focus-within"];
const TICKED = "tr[data-key] [data-pick]:checked";

// Milliseconds for which a row with the pointer or the focus must not move. Without input, the viewer may be away.
const attentionLeft = () => lastInput + ATTENTION - performance.now();

function pointed() {
  return attentionLeft() > 0 ? POINTED.map((query) => document.querySelector(query)).filter((row) => row) : [];
}

function reorders(part, made) {
  const there = (row) => made.querySelector(`tr[data-key="${CSS.escape(row.dataset.key)}"]`);
  const ticked = [...part.querySelectorAll(TICKED)].map((box) => box.closest("tr"));
  const used = [...pointed().filter((row) => part.contains(row)), ...ticked];
  return used.some((row) => there(row)?.sectionRowIndex !== row.sectionRowIndex);
}

// Shows a part. If this moves the row in use on the screen and scrolling cannot correct it, restores the old part.
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

function noteInput() {
  lastInput = performance.now();
}

function settleSoon() {
  if (waiting.size) setTimeout(settle); // after this event, when the focus has moved
}

function close() {
  clearTimeout(timer);
  controller?.abort();
  controller = null;
}

// The server ends each stream after a while. So the first reconnect does not change the status.
function reconnect() {
  if (delay > FIRST_DELAY) setStatus("off", "Reconnecting");
  timer = setTimeout(open, delay);
  delay = Math.min(2 * delay, MAX_DELAY);
}

function alive() {
  setStatus("on", "Live");
}

function setStatus(state, words) {
  const node = document.querySelector("[data-alive]");
  if (!node || node.textContent === words) return;
  node.dataset.alive = state;
  node.textContent = words;
}

if ("live" in document.body.dataset) {
  hint.className = "alive scripted";
  hint.setAttribute("aria-hidden", "true");
  document.querySelector("[data-alive]")?.after(hint);
  // A hidden page needs no updates.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  for (const kind of ["pointermove", "pointerdown", "keydown", "focusin", "change"]) document.addEventListener(kind, noteInput);
  for (const kind of ["pointerover", "focusin", "focusout", "change"]) document.addEventListener(kind, settleSoon);
  document.documentElement.addEventListener("pointerleave", settleSoon);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  if (!document.hidden) open();
}
