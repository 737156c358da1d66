"""One endpoint: how it is, since when and why, what waits behind it, what was tried lately, and how it is set up."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hookline.dashboard import charts, circuit, contract, health, parts, series
from hookline.dashboard.health import condition
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.pages import endpoint_controls as controls
from hookline.dashboard.pages import endpoint_settings
from hookline.dashboard.pages.endpoints import state
from hookline.dashboard.series import Series
from hookline.errors import InvalidInput, NotFound
from hookline.flow.lane import next_start
from hookline.html import Child, Safe, join, tag
from hookline.model import (
    Application,
    Attempt,
    AttemptFilter,
    DeadFilter,
    DeadSummary,
    Endpoint,
    EventType,
    LaneEvent,
    LaneView,
)
from hookline.states import EndpointStatus
from hookline.store.base import Page as Rows
from hookline.store.base import Walk
from hookline.texts import lasting

ATTEMPTS = 25  # on one page
EVENTS = 100  # of the timeline that are read for its band ...
PROBED = 100  # failed attempts among which probes are looked for
EVENTS_SHOWN = 12  # ... and listed

_OUTCOMES = {"delivered": "delivered", "retry": "scheduled", "dead": "dead"}


class Facts(Struct, frozen=True, kw_only=True):
    """Everything that the page shows."""

    endpoint: Endpoint
    app: Application
    view: LaneView
    in_flight: int
    did: Series
    events: list[LaneEvent]  # newest first
    attempts: Walk[Attempt]
    probes: list[Attempt]  # that are known, whatever page of the attempts is shown
    dead: DeadSummary
    event_types: list[EventType]


async def show(look: Look) -> Page:
    facts = await _read(look)
    found, how = facts.endpoint, condition(facts.view.lane, look.now)
    body: list[Child] = [
        _who(look, facts),
        look.live("health", _verdict(look, facts), _numbers(look, facts)),
        look.live("controls", controls.bar(look, found, how, facts.event_types, facts.dead)),
        parts.columns(look.live("activity", _activity(look, facts)), look.live("circuit", _circuit(look, facts))),
        parts.columns(look.live("lane", _lane(look, facts)), look.live("timeline", _timeline(look, facts.events))),
        look.live("attempts", _attempts(look, facts)),
        endpoint_settings.section(look, found, facts.app),
        endpoint_settings.secret_section(look, found),
        contract.section(look, found),
        controls.stop(look, found),
    ]
    edit = parts.link_button(look.link(controls.path(found, "/edit")), "Edit") if look.may_change else None
    return Page(title=found.description[:80] or "Endpoint", rail="endpoints", body=body, aside=edit)


def _who(look: Look, facts: Facts) -> Safe:
    app = None
    if not look.viewer.portal:
        app = join(" of ", tag("a", facts.app.name, href=look.link(f"/applications/{facts.app.id}")))
    return tag("p", parts.ident(facts.endpoint.url, most=90), app)


async def _read(look: Look) -> Facts:
    found = await look.endpoint(look.path("endpoint_id"))
    store = look.store
    view = await store.lane_view(found.no)
    if view is None:
        raise NotFound(f"no endpoint {found.id!r}")
    did = await store.activity(
        series.begins(look.span, look.now),
        org_id=look.org_id,
        app_no=found.app_no,
        endpoint_no=found.no,
        grain=look.span.grain,
    )
    page = Rows(limit=ATTEMPTS, iterator=look.param("after"))
    attempts = await store.endpoint_attempts(found.no, _asked(look), page, content=False)
    return Facts(
        endpoint=found,
        app=await look.application(found.app_id),
        view=view,
        in_flight=await store.in_flight(found.no),
        did=series.laid_out(did, series.steps(look.span, look.now)),
        events=await store.lane_events(found.no, EVENTS),
        attempts=attempts,
        probes=[each for each in [*await _failed(look, found), *attempts.rows] if each.probe],
        dead=await store.dead_summary(DeadFilter(org_id=look.org_id, app_no=found.app_no, endpoint_no=found.no)),
        event_types=await store.event_types(look.org_id, Rows(limit=controls.MOST_TYPES + 1), archived=False),
    )


async def _failed(look: Look, found: Endpoint) -> list[Attempt]:
    """Lately, without what was answered: most probes of a circuit that was open are among them."""
    where = AttemptFilter(delivered=False, after=look.since)
    return (await look.store.endpoint_attempts(found.no, where, Rows(limit=PROBED), content=False)).rows


def _asked(look: Look) -> AttemptFilter:
    match look.param("attempts"):
        case None:
            return AttemptFilter()
        case "failed":
            return AttemptFilter(delivered=False)
        case "delivered":
            return AttemptFilter(delivered=True)
        case _:
            raise InvalidInput("takes failed or delivered", field="attempts")


# ── how it is ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(look: Look, facts: Facts) -> Safe:
    lane, found = facts.view.lane, condition(facts.view.lane, look.now)
    waiting = _waiting(facts.view)
    match found.name:
        case "well" if facts.dead.dead:
            letters = parts.count(facts.dead.dead, "dead letter", facts.dead.more)
            return parts.verdict("dead", f"The endpoint is well; {letters} can be replayed.")
        case "well":
            return parts.verdict("delivered", "The endpoint is well.", *([" ", waiting] if facts.view.depth else []))
        case "open" | "half_open":
            words: Sequence[Child] = [
                "The circuit is ",
                "open" if found.name == "open" else "half-open, a probe is under way",
                *([": failing for ", health.ages(found.since, look.now)] if found.since else []),
                *([f" ({facts.view.last_error})"] if facts.view.last_error else []),
                f". {waiting}",
                *(
                    [" Next probe ", parts.ago(lane.probe_at, look.now), "."]
                    if found.name == "open" and lane.probe_at
                    else []
                ),
            ]
        case "disabled":
            words = ["Disabled", _reason(facts), ": nothing is created for it, and nothing is sent. ", waiting]
        case "paused":
            words = ["Paused", _reason(facts), ": deliveries are created and held. ", waiting]
        case "held":
            assert lane.held_until is not None
            words = [
                "It asked to be left alone (Retry-After): sent again ",
                parts.ago(lane.held_until, look.now),
                ". ",
                waiting,
            ]
        case "failing":
            words = [found.words, f" ({facts.view.last_error})" if facts.view.last_error else "", ". ", waiting]
        case "recovering":
            words = ["It recovers: sent at a low rate that doubles with successes. ", waiting]
        case _:
            words = [f"It answered 429: slowed to {lane.pace or 0:.3g} a second. ", waiting]
    return parts.verdict(found.shade, *words)


def _reason(facts: Facts) -> str:
    return f" ({facts.endpoint.status_reason})" if facts.endpoint.status_reason else ""


def _waiting(view: LaneView) -> str:
    if not view.depth:
        return "Nothing waits for it."
    many = parts.count(view.depth, "delivery", view.more)
    return f"{many[0].upper()}{many[1:]} {'waits' if view.depth == 1 else 'wait'} for it."


def _numbers(look: Look, facts: Facts) -> Safe:
    found = condition(facts.view.lane, look.now)
    dead = f"{facts.dead.dead:,}{'+' if facts.dead.more else ''}"
    one = facts.endpoint.id
    return parts.numbers(
        parts.number(
            "scheduled" if facts.did.failed else "delivered",
            series.percent(facts.did.success),
            f"of attempts delivered, {look.span.words.lower()}",
        ),
        parts.number(
            "scheduled", f"{facts.did.failed:,}", "attempts failed", href=look.here(attempts="failed", after=None)
        ),
        parts.number(
            "held" if found.held else "pending", health.depth(facts.view), "held" if found.held else "waiting"
        ),
        parts.number("delivering", f"{facts.in_flight:,}", "in flight"),
        parts.number("dead", dead, "dead letters", href=look.link("/dead-letters", endpoint=one)),
    )


def _activity(look: Look, facts: Facts) -> Safe:
    label = f"Attempts {series.rate_words(look.span)}, {look.span.words.lower()}"
    return parts.section("Attempts over time", charts.areas(label, facts.did.curves(), facts.did.times))


# ── its lane ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _circuit(look: Look, facts: Facts) -> Safe:
    # The newest events may not reach back as far as the range: the band begins with the oldest that is known.
    since = look.since if len(facts.events) < EVENTS else max(look.since, facts.events[-1].at)
    lane = facts.view.lane
    probes = circuit.probes(facts.probes, lane, look.services.lease, look.now)
    band = circuit.stretches(facts.events, lane, since, look.now, probes)
    return parts.section(
        "Circuit and status",
        charts.band(f"Circuit, {look.span.words.lower()}", band, look.since, look.now),
    )


def _timeline(look: Look, events: Sequence[LaneEvent]) -> Safe:
    if not events:
        return parts.section("Timeline", tag("p", "Nothing has happened to it yet.", class_="quiet"))
    named = not look.viewer.portal
    rows = parts.table(
        ("When", "What", "Why", "Who"),
        [
            [
                parts.ago(event.at, look.now),
                parts.state(circuit.EVENT_SHADES[event.kind], circuit.EVENTS[event.kind]),
                event.cause,
                circuit.by(event.actor, named=named) or tag("span", "by itself", class_="quiet"),
            ]
            for event in events[:EVENTS_SHOWN]
        ],
        caption="What happened to the endpoint, newest first",
    )
    return parts.section("Timeline", rows)


def _lane(look: Look, facts: Facts) -> Safe:
    lane, view = facts.view.lane, facts.view
    starts = next_start(lane, now=look.now, policy=look.services.circuit)
    idle = not view.depth
    return parts.section(
        "Lane",
        parts.fields(
            [
                ("State", state(look, condition(lane, look.now))),
                ("Waiting", health.depth(view)),
                ("Oldest due", None if view.oldest_due is None else parts.ago(view.oldest_due, look.now)),
                ("In flight", f"{facts.in_flight:,}"),
                ("Limits", ", ".join(health.limits(lane)) or "none"),
                ("Next start", None if idle or starts is None or starts <= look.now else parts.ago(starts, look.now)),
                ("Failures in a row", f"{lane.failures:,}" if lane.failures else None),
                ("Failing since", None if lane.failing_since is None else parts.clock(lane.failing_since)),
                ("Last error", view.last_error),
            ]
        ),
    )


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _attempts(look: Look, facts: Facts) -> Safe:
    walk = facts.attempts
    chosen = look.param("attempts")
    ways = ((None, "All"), ("failed", "Failed"), ("delivered", "Delivered"))
    links = parts.tabs(
        "Which attempts", [(words, look.here(attempts=key, after=None), key == chosen) for key, words in ways]
    )
    following = walk.end or (walk.rows[-1].id if len(walk.rows) == ATTEMPTS else None)
    return parts.section(
        "Attempts",
        _attempt_table(look, walk.rows) if walk.rows else _no_attempts(facts.endpoint, chosen),
        parts.more(look, following),
        aside=links,
        id_="attempts",
    )


def _no_attempts(found: Endpoint, chosen: str | None) -> Safe:
    if chosen is not None:
        return parts.empty(f"No {chosen} attempts among those that are kept.")
    idle = found.status == EndpointStatus.ACTIVE
    return parts.empty("Nothing was sent to it yet." + (" Send a test event with the button above." if idle else ""))


def _attempt_table(look: Look, found: Sequence[Attempt]) -> Safe:
    return parts.table(
        ("When", "Outcome", "Answer", "Took", "Event type", "Message"),
        [_attempt(look, each) for each in found],
        caption="Attempts, newest first",
        keys=[each.id for each in found],
        numeric=(3,),
    )


def _attempt(look: Look, found: Attempt) -> list[Child]:
    notes = [word for word, told in (("probe", found.probe), ("by hand", bool(found.trigger))) if told]
    message = look.link(f"/messages/{found.message_id}")
    return [
        parts.ago(found.started_at, look.now),
        join(
            parts.state(_OUTCOMES[found.outcome], "failed" if found.outcome == "retry" else found.outcome),
            tag("span", f" {', '.join(notes)}", class_="quiet") if notes else None,
        ),
        _answer(found),
        lasting(found.timing.total / 1_000_000),
        found.event_type,
        parts.ident(found.message_id, href=message),
    ]


def _answer(found: Attempt) -> Safe:
    kind = str(found.status_code) if found.status_code is not None else (found.error or "")
    detail = found.detail if found.detail and found.detail != kind else ""
    short = detail if len(detail) <= 80 else f"{detail[:79]}…"
    return join(tag("b", kind), " ", tag("span", short, title=detail, class_="quiet") if short else None)


VIEWS = (View(path="/endpoints/{endpoint_id}", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
