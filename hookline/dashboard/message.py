"""One message's whole life as HTML. Pure; the drawings are SVG, because the policy of these pages allows no inline style."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from hookline import story
from hookline.dashboard.view import count, document, marked, table, when
from hookline.html import Child, Safe, join, tag
from hookline.model import Attempt, LaneEvent
from hookline.story import Part, Phase, Story, Way
from hookline.tracecontext import trace_id

WIDE, TALL = 1000, 12  # of a drawing, in its own units
LEAST = 3  # of an attempt in it, so that it is seen

_SECOND = timedelta(seconds=1)


def message_page(told: Story) -> Safe:
    return document(
        f"{told.message.id} · Hookline",
        None,
        tag(
            "header", tag("h1", tag("a", "Hookline", href="/"), " · message"), tag("span", told.message.id, class_="id")
        ),
        _head(told),
        *(_way(way, told.now) for way in told.ways),
        None if told.ways else tag("p", "No endpoint matched: nothing was to be delivered.", class_="quiet"),
        _untold(told),
        tag("p", f"As of {told.now:%Y-%m-%d %H:%M:%S} UTC; the same in a terminal:", class_="quiet"),
        tag("pre", tag("code", f"hookline trace {told.message.id}")),
    )


def _untold(told: Story) -> Safe | None:
    if not told.untold:
        return None
    number = count(sum(told.untold.values()), "endpoint")
    return tag("p", f"and {number} more: {story.counted(told.untold)}", class_="quiet")


def missing_page() -> Safe:
    return document(
        "No such message · Hookline",
        None,
        tag("header", tag("h1", tag("a", "Hookline", href="/"))),
        tag("p", "There is no such message here; retention may have taken it.", class_="verdict"),
    )


# ── the message ───────────────────────────────────────────────────────────────────────────────────────────────────


def _head(told: Story) -> Safe:
    message = told.message
    pairs: list[tuple[str, Child]] = [("Event type", message.event_type), ("Application", _id(message.app_id))]
    if told.published_at is not None:
        pairs.append(("Published", f"{_span(message.created_at - told.published_at)} before, to an outbox"))
    pairs.append(("Accepted", f"{_instant(message.created_at)} ({when(message.created_at, told.now)})"))
    pairs.append(("Payload", "expunged" if message.payload is None else f"{len(message.payload):,} bytes"))
    if message.event_id is not None:
        pairs.append(("Event id", _id(message.event_id)))
    if message.ordering_key is not None:
        pairs.append(("Ordering key", _id(message.ordering_key)))
    if message.trace is not None:
        pairs.append(("Trace id", _id(trace_id(message.trace))))
    states = Counter(story.standing(way, told.now) for way in told.ways)
    states.update(told.untold)
    fan_out = join(*(tag("span", marked(state, f"{number:,} {state} ")) for state, number in states.items() if number))
    return _fields([*pairs, ("Fan-out", fan_out or "none")])


def _fields(pairs: list[tuple[str, Child]]) -> Safe:
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in pairs))


# ── one delivery ──────────────────────────────────────────────────────────────────────────────────────────────────


def _way(way: Way, now: datetime) -> Safe:
    state = story.standing(way, now)
    return tag(
        "section",
        tag("h2", marked(state, state), " · ", tag("span", way.url or way.delivery.endpoint_id, class_="id")),
        tag("p", tag("span", way.delivery.endpoint_id, class_="id quiet")),
        _life(way, now),
        _happenings(way),
        _legend(way),
        *(tag("p", line) for line in story.prospects(way, now, lambda at: when(at, now))),
        _advice(way, now),
    )


def _life(way: Way, now: datetime) -> Safe:
    found = story.stretches(way, now)
    if not found:
        return join()
    start, length = found[0].since, max(found[-1].until - found[0].since, timedelta(microseconds=1))
    # Attempts come last, so that nothing hides them.
    ordered = sorted(found, key=lambda stretch: stretch.part in (Part.FAILED, Part.DELIVERED))
    drawn = [
        _rect(stretch.part.value, (stretch.since - start) / length, (stretch.until - stretch.since) / length)
        for stretch in ordered
    ]
    words = ", ".join(f"{stretch.part.value} {_span(stretch.until - stretch.since)}" for stretch in found[:50])
    seen = dict.fromkeys(stretch.part for stretch in found)
    legend = (tag("span", f" · {part.value}", class_=_SHADES[part]) for part in seen)
    return join(
        _drawing(drawn, f"Its time: {words}"),
        tag("p", f"{_span(length)} in all", *legend, class_="quiet"),
    )


_SHADES = {Part.WAITING: "quiet", Part.HELD: "held", Part.FAILED: "dead", Part.DELIVERED: "delivered"}


def _drawing(parts: list[Safe], label: str) -> Safe:
    return tag(
        "svg",
        tag("title", label),
        *parts,
        viewBox=f"0 0 {WIDE} {TALL}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        class_="life",
    )


def _rect(kind: str, start: float, part: float) -> Safe:
    width = max(LEAST, round(part * WIDE))
    left = min(round(start * WIDE), WIDE - width)
    return tag("rect", x=str(left), y="0", width=str(width), height=str(TALL), class_=f"part-{kind}")


# ── what happened ─────────────────────────────────────────────────────────────────────────────────────────────────


def _happenings(way: Way) -> Safe | None:
    found = story.happenings(way)
    if not found:
        return None
    longest = max((attempt.timing.total for attempt in way.attempts), default=0) or 1
    columns = ("At", "What", "Waited", "Took", "Phases", "Detail")
    rows = [
        _event(each.what) if isinstance(each.what, LaneEvent) else _attempt(each.what, each.waited, longest)
        for each in found
    ]
    return table(columns, rows)


def _attempt(attempt: Attempt, waited: timedelta, longest: int) -> list[Child]:
    result = str(attempt.status_code) if attempt.status_code is not None else str(attempt.error or "-")
    state = {"delivered": "delivered", "dead": "dead"}.get(attempt.outcome, "scheduled")
    kind = " (probe)" if attempt.probe else (" (by hand)" if attempt.trigger else "")
    return [
        _instant(attempt.started_at),
        marked(state, f"#{attempt.number} {result} {attempt.outcome}{kind}"),
        _span(waited),
        _span(timedelta(microseconds=attempt.timing.total)),
        _phases(attempt, longest),
        attempt.detail or attempt.response_body[:200].decode(errors="replace").strip(),
    ]


def _phases(attempt: Attempt, longest: int) -> Safe:
    """As long as its part of the longest attempt's time."""
    drawn: list[Safe] = []
    reached = 0
    found = story.phases(attempt)
    for phase, micros in found:
        drawn.append(_rect(f"phase-{phase.name.lower()}", reached / longest, micros / longest))
        reached += micros
    return _drawing(drawn, ", ".join(f"{phase.value} {micros / 1000:g} ms" for phase, micros in found))


def _legend(way: Way) -> Safe | None:
    """What the colours of the phases mean, of those that there are."""
    seen = {phase for attempt in way.attempts for phase, _ in story.phases(attempt)}
    shades = [
        join(" ", tag("span", "■", class_=f"shade-{each.name.lower()}"), f" {each.value}")
        for each in Phase
        if each in seen
    ]
    return tag("p", "Phases:", *shades, class_="quiet") if shades else None


def _event(event: LaneEvent) -> list[Child]:
    return [_instant(event.at), tag("span", event.kind.value.replace("_", " "), class_="held"), "", "", "", event.cause]


def _advice(way: Way, now: datetime) -> Safe | None:
    found = story.advice(way, now)
    words = [line for line in found if not line.startswith("hookline ")]
    commands = [line for line in found if line.startswith("hookline ")]
    if not commands:
        return None
    return join(*(tag("p", line, class_="quiet") for line in words), tag("pre", tag("code", "\n".join(commands))))


# ── small parts ───────────────────────────────────────────────────────────────────────────────────────────────────


def _id(text: str) -> Safe:
    return tag("span", text, class_="id")


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _span(length: timedelta) -> str:
    seconds = max(0.0, length.total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return str(timedelta(seconds=round(seconds))) if length >= 60 * _SECOND else f"{seconds:.1f} s"
