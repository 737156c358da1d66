// Parts of the page that update in place: the page's own address, asked for as a stream, tells what changed.

import { morph } from "./morph.js";

const MEDIA = "text/event-stream";
const FIRST = 2000; // milliseconds until it asks again; then twice as long each time
const LONGEST = 60_000;

let asked = null; // what ends the stream that is open
let later = 0;
let delay = FIRST;
const waiting = new Map(); // parts that have come, and would move a row that somebody is about to use

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
    if (part && moves(part, made)) continue;
    waiting.delete(id);
    if (!part) continue;
    morph(part, made);
    part.dispatchEvent(new CustomEvent("morphed", { bubbles: true }));
  }
}

// ── rows stand still while somebody points at one, has the focus in it or has selected it: a click would act on another one ──

const HOVERS = matchMedia("(hover: hover)").matches ? "tr[data-key]:hover, " : ""; // what a finger has touched stays hovered
const USED = `${HOVERS}tr[data-key]:focus-within, tr[data-key]:has([data-pick]:checked)`;

function moves(part, made) {
  const there = (row) => made.querySelector(`tr[data-key="${CSS.escape(row.dataset.key)}"]`);
  return [...part.querySelectorAll(USED)].some((row) => there(row)?.sectionRowIndex !== row.sectionRowIndex);
}

function soon() {
  if (waiting.size) setTimeout(release); // once the focus is where it goes, and not on its way
}

function release() {
  settle();
  if (document.querySelector("[data-alive=on]")) alive(); // a stream that has ended meanwhile stays ended
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
  tell("on", waiting.size ? "Live, the list waits" : "Live");
}

function tell(state, words) {
  const node = document.querySelector("[data-alive]");
  if (!node || node.textContent === words) return;
  node.dataset.alive = state;
  node.textContent = words;
}

if ("live" in document.body.dataset) {
  // Nobody looks at a hidden page: it need not be read again and again.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  for (const kind of ["pointerover", "focusin", "focusout", "change"]) document.addEventListener(kind, soon);
  document.documentElement.addEventListener("pointerleave", soon);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  if (!document.hidden) open();
}
