"""The status page as HTML, from what the store says. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline import ids
from hookline.html import Child, Safe, join, page, tag
from hookline.model import DeadLetter, DeadStats, LaneView
from hookline.states import Circuit, EndpointStatus

MARKS = {
    "delivered": "●",
    "pending": "◐",
    "delivering": "◐",
    "queued": "◐",
    "scheduled": "◷",
    "held": "❚❚",
    "dead": "✕",
    "resolved": "✓",
}
REFRESH = 15  # seconds
MOST_ENDPOINTS = 200


class Status(Struct, frozen=True, kw_only=True):
    """What the page shows of one organization."""

    now: datetime
    lanes: list[LaneView]
    stats: DeadStats
    letters: list[DeadLetter]  # the newest


def status_page(status: Status) -> Safe:
    return document(
        "Hookline",
        tag("meta", http_equiv="refresh", content=str(REFRESH)),
        tag(
            "header",
            tag("h1", "Hookline"),
            tag("form", tag("button", "Sign out", class_="plain"), method="post", action="/logout", class_="inline"),
        ),
        _verdict(status),
        _numbers(status),
        _endpoints(status),
        _dead_letters(status),
        tag("p", f"As of {status.now:%Y-%m-%d %H:%M:%S} UTC; reloads every {REFRESH} s.", class_="quiet"),
    )


def login_page(problem: str | None = None) -> Safe:
    form = tag(
        "form",
        tag("h1", "Hookline"),
        tag("p", "The token that ", tag("code", "hookline token"), " prints opens this page.", class_="quiet"),
        tag("label", "Token", for_="token"),
        tag("input", type="password", name="token", id="token", autocomplete="off", required=True, autofocus=True),
        tag("p", f"{MARKS['dead']} {problem}", class_="dead", role="alert") if problem else None,
        tag("button", "Open"),
        method="post",
        action="/login",
        class_="login",
    )
    return document("Sign in · Hookline", None, form)


def document(title: str, head: Child, *body: Child) -> Safe:
    return page(
        tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                head,
                tag("title", title),
                tag("link", rel="stylesheet", href="/static/style.css"),
            ),
            tag("body", tag("main", *body)),
            lang="en",
        )
    )


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def is_held(view: LaneView, now: datetime) -> bool:
    lane = view.lane
    if lane.status != EndpointStatus.ACTIVE or lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN):
        return True
    return lane.held_until is not None and lane.held_until > now


def _verdict(status: Status) -> Safe:
    held = [view for view in status.lanes if is_held(view, status.now)]
    if not status.lanes:
        return join(
            tag("p", "No endpoints yet. Make one that prints what arrives:", class_="verdict"),
            tag("pre", tag("code", "hookline listen --register demo --ping")),
        )
    if not held and not status.stats.dead:
        return tag("p", tag("span", f"{MARKS['delivered']} All well.", class_="delivered"), class_="verdict")
    parts: list[Child] = []
    if held:
        parts.append(tag("span", f"{MARKS['held']} {count(len(held), 'endpoint')} held. ", class_="held"))
    if status.stats.dead:
        parts.append(tag("span", f"{MARKS['dead']} {count(status.stats.dead, 'dead letter')}.", class_="dead"))
    return tag("p", *parts, class_="verdict")


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _numbers(status: Status) -> Safe:
    waiting = sum(view.depth for view in status.lanes if not is_held(view, status.now))
    held = sum(view.depth for view in status.lanes if is_held(view, status.now))
    return tag(
        "section",
        _number("pending", waiting, "open deliveries"),
        _number("held", held, "held deliveries"),
        _number("dead", status.stats.dead, "dead letters"),
        _number("resolved", status.stats.resolved, "resolved"),
        class_="numbers",
    )


def _number(state: str, value: int, words: str) -> Safe:
    shade = state if value else "quiet"
    return tag("div", tag("b", f"{value:,}"), tag("span", f"{MARKS[state]} {words}", class_=shade), class_="number")


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _endpoints(status: Status) -> Safe | None:
    if not status.lanes:
        return None
    sickest = sorted(status.lanes, key=lambda view: (not is_held(view, status.now), -view.depth, view.endpoint_id))
    more = len(sickest) - MOST_ENDPOINTS
    return join(
        tag("h2", "Endpoints"),
        table(
            ("Endpoint", "State", "Backlog", "Oldest due", "Last error"),
            [_endpoint(view, status.now) for view in sickest[:MOST_ENDPOINTS]],
        ),
        tag("p", f"and {count(more, 'endpoint')} more: hookline endpoints list", class_="quiet") if more > 0 else None,
    )


def _endpoint(view: LaneView, now: datetime) -> list[Child]:
    return [
        join(tag("span", view.url, class_="id"), tag("br"), tag("span", view.endpoint_id, class_="id quiet")),
        _lane_state(view, now),
        f"{view.depth:,}",
        "" if view.oldest_due is None else when(view.oldest_due, now),
        view.last_error or "",
    ]


def _lane_state(view: LaneView, now: datetime) -> Safe:
    lane = view.lane
    if lane.status != EndpointStatus.ACTIVE:
        status = lane.status.name.lower()
        return marked("held", join(status, ": ", tag("code", f"hookline endpoints resume {view.endpoint_id}")))
    match lane.circuit:
        case Circuit.OPEN:
            probe = "" if lane.probe_at is None else f", next probe {when(lane.probe_at, now)}"
            return marked("held", f"circuit open{probe}")
        case Circuit.HALF_OPEN:
            return marked("held", "circuit half-open, probing")
        case _ if lane.held_until is not None and lane.held_until > now:
            return marked("held", f"asked to be left alone for {when(lane.held_until, now).removeprefix('in ')}")
        case Circuit.RECOVERING:
            return marked("scheduled", "recovering")
        case Circuit.CLOSED:
            return (
                marked("scheduled", f"{lane.failures} failures in a row")
                if lane.failures
                else marked("delivered", "well")
            )


def marked(state: str, words: Child) -> Safe:
    return tag("span", f"{MARKS[state]} ", words, class_=state)


# ── dead letters ──────────────────────────────────────────────────────────────────────────────────────────────────


def _dead_letters(status: Status) -> Safe | None:
    if not status.letters:
        return None
    return join(
        tag("h2", "Newest dead letters"),
        table(
            ("Dead letter", "Died", "Message", "Event type", "Endpoint", "Reason", "Detail"),
            [_letter(letter, status.now) for letter in status.letters],
        ),
        tag("p", "Look at one, send it again, or close it:", class_="quiet"),
        tag("pre", tag("code", _commands(status.letters[0]))),
    )


def _letter(letter: DeadLetter, now: datetime) -> list[Child]:
    return [
        tag("span", f"{ids.DEAD_LETTER}{letter.id}", class_="id"),
        when(letter.died_at, now),
        tag("a", letter.message_id, href=f"/messages/{letter.message_id}", class_="id"),
        letter.event_type,
        tag("span", letter.endpoint_url, class_="id"),
        marked("dead", letter.reason.value),
        letter.detail,
    ]


def _commands(letter: DeadLetter) -> str:
    name = f"{ids.DEAD_LETTER}{letter.id}"
    return (
        f"hookline dead show {name}\nhookline dead replay {name}\n"
        f"hookline dead replay --endpoint {letter.endpoint_id}\nhookline dead resolve {name} --note '...'"
    )


# ── small parts ───────────────────────────────────────────────────────────────────────────────────────────────────


def table(columns: tuple[str, ...], rows: list[list[Child]]) -> Safe:
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in columns)))
    lines = (
        tag("tr", *(tag("td", cell, data_label=name) for name, cell in zip(columns, row, strict=True))) for row in rows
    )
    return tag("table", head, tag("tbody", *lines))


def when(at: datetime, now: datetime) -> str:
    """`in 40 s`, `3 min ago`, `2 h ago`."""
    gap = (at - now).total_seconds()
    size = abs(gap)
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= seconds:
            text = f"{size // seconds:.0f} {unit}"
            break
    else:
        text = f"{size:.0f} s"
    return f"in {text}" if gap > 0 else f"{text} ago"
