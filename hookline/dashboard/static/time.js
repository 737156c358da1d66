// Shows times in the viewer's time zone and updates ages. The server writes UTC, which is also correct without scripts.

const EVERY = 1000;
const UNITS = [["d", 86_400], ["h", 3_600], ["min", 60]];
const SHORT_MONTH = new Intl.DateTimeFormat("en", { month: "short" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "local time";
const zoneShort = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts().find(({ type }) => type === "timeZoneName").value;
const two = (number) => String(number).padStart(2, "0");

// Difference to the server's clock. Ages are computed with the server's clock, because the viewer's may be wrong.
const skew = Date.now() - servedAt();

function servedAt() {
  const at = Date.parse(document.body.dataset.now ?? "");
  const age = performance.now(); // milliseconds since this page was requested
  return Number.isNaN(at) ? Date.now() : at + age;
}

export function date(at) {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

export function clock(at, seconds = true) {
  return `${date(at)} ${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}

export function age(at) {
  const gap = (at - (Date.now() - skew)) / 1000;
  const size = Math.abs(gap);
  const unit = UNITS.find(([, length]) => size >= length);
  const text = unit ? `${Math.floor(size / unit[1])} ${unit[0]}` : `${Math.min(59, Math.round(size))} s`;
  return gap > 0 ? `in ${text}` : `${text} ago`;
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// ── times in the page ──

export function localize(root) {
  for (const node of root.querySelectorAll("time[datetime]")) {
    const at = new Date(node.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    if ("clock" in node.dataset) write(node, clock(at, node.dataset.clock !== "minute"));
    if ("ago" in node.dataset) write(node, age(at));
    if (!node.dataset.local) {
      node.dataset.local = "1";
      node.title = `${clock(at)} ${zone} · ${node.title || `${at.toISOString().replace("T", " ").slice(0, 19)} UTC`}`;
    }
  }
  root.querySelectorAll("[data-tick]").forEach(tick);
  for (const node of root.querySelectorAll("[data-zone]")) write(node, zoneShort);
}

// Updates a label of a time axis. Labels of full hours or days move to the full hour or day of the viewer's time zone.
function tick(node) {
  const step = Number(node.dataset.step);
  const at = new Date(Number(node.dataset.tick) * 1000);
  const full = step >= 3600 ? moved(node, at, step) : at;
  const hours = `${two(full.getHours())}:${two(full.getMinutes())}`;
  const day = `${SHORT_MONTH.format(full)} ${full.getDate()}`;
  write(node, step >= 86_400 ? day : step >= 60 ? hours : `${hours}:${two(full.getSeconds())}`);
}

function moved(node, at, step) {
  const { since, until } = node.closest(".plot").dataset;
  let gap = (at.getTimezoneOffset() * 60) % step;
  if (gap > step / 2) gap -= step;
  if (gap < -step / 2) gap += step;
  const full = new Date(at.valueOf() + gap * 1000);
  const part = (full / 1000 - since) / (until - since);
  node.setAttribute("visibility", part < 0 || part > 1 ? "hidden" : "visible");
  node.setAttribute("x", `${100 * part}%`);
  return full;
}

// ── date fields: shown in the viewer's time zone, sent in UTC ──

function intoZone(field) {
  if (field.dataset.local || !field.value) return;
  const at = new Date(`${field.defaultValue}Z`);
  if (!Number.isNaN(at.valueOf())) field.value = clock(at, false).replace(" ", "T");
}

function fields(root) {
  for (const field of root.querySelectorAll("input[type=datetime-local]")) {
    intoZone(field);
    field.dataset.local = "1";
  }
}

document.addEventListener("formdata", (event) => {
  for (const field of event.target.elements) {
    if (field.type !== "datetime-local" || !field.name || !field.value) continue;
    const at = new Date(field.value);
    if (!Number.isNaN(at.valueOf())) event.formData.set(field.name, `${at.toISOString().slice(0, 16)}Z`);
  }
});

function all() {
  localize(document);
  fields(document);
}

document.addEventListener("morphed", (event) => {
  localize(event.target);
  fields(event.target);
});
addEventListener("pageshow", all);
all();
setInterval(() => {
  if (!document.hidden) localize(document);
}, EVERY);
