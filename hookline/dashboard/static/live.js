// Parts of the page that update in place: the page's own address, asked for as a stream, tells what changed.

import { morph } from "./morph.js";

const MEDIA = "text/event-stream";
const FIRST = 2000; // milliseconds until it asks again; then twice as long each time
const LONGEST = 60_000;

let asked = null; // what ends the stream that is open
let later = 0;
let delay = FIRST;

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
    tell("on", "Live");
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
    const part = document.getElementById(id);
    if (!part) continue;
    const made = document.createElement("template");
    made.innerHTML = html;
    morph(part, made.content.firstElementChild);
    part.dispatchEvent(new CustomEvent("morphed", { bubbles: true }));
  }
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

function tell(state, words) {
  const node = document.querySelector("[data-alive]");
  if (!node || node.textContent === words) return;
  node.dataset.alive = state;
  node.textContent = words;
}

if ("live" in document.body.dataset) {
  // Nobody looks at a hidden page: it need not be read again and again.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  if (!document.hidden) open();
}
