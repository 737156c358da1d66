"""One endpoint: how it is, since when and why, what waits behind it, what was tried lately, and how it is set up."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hookline.dashboard import components, delivery_contract, endpoint_health
from hookline.dashboard.charts import circuit_band, figures, series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.endpoint_health import condition
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint import controls
from hookline.dashboard.pages.endpoint import settings as endpoint_settings
from hookline.dashboard.pages.endpoints import state
from hookline.errors import InvalidInput, NoSuch
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
from hookline.model.states import EndpointStatus
from hookline.rules.checks.text import lasting
from hookline.rules.lane.admission import next_start
from hookline.store.protocols import Page as Rows
from hookline.store.protocols import Walk
from hookline.web.html import Child, Safe, join, tag

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


async def show(context: PageContext) -> Page:
    facts = await _read(context)
    found, how = facts.endpoint, condition(facts.view.lane, context.now)
    body: list[Child] = [
        _who(context, facts),
        context.live("health", _verdict(context, facts), _numbers(context, facts)),
        context.live("controls", controls.bar(context, found, how, facts.event_types, facts.dead)),
        components.columns(
            context.live("activity", _activity(context, facts)), context.live("circuit", _circuit(context, facts))
        ),
        components.columns(
            context.live("lane", _lane(context, facts)), context.live("timeline", _timeline(context, facts.events))
        ),
        context.live("attempts", _attempts(context, facts)),
        endpoint_settings.section(context, found, facts.app),
        endpoint_settings.secret_section(context, found),
        delivery_contract.section(context, found),
        controls.stop(context, found),
    ]
    edit = components.link_button(context.link(controls.path(found, "/edit")), "Edit") if context.may_change else None
    return Page(title=found.description[:80] or "Endpoint", rail="endpoints", body=body, aside=edit)


def _who(context: PageContext, facts: Facts) -> Safe:
    app = None
    if not context.viewer.portal:
        app = join(" of ", tag("a", facts.app.name, href=context.link(f"/applications/{facts.app.id}")))
    return tag("p", components.ident(facts.endpoint.url, most=90), app)


async def _read(context: PageContext) -> Facts:
    found = await context.endpoint(context.path("endpoint_id"))
    store = context.store
    view = await store.lane_view(found.no)
    if view is None:
        raise NoSuch("endpoint", found.id)
    did = await store.activity(
        series.begins(context.span, context.now),
        org_id=context.org_id,
        app_no=found.app_no,
        endpoint_no=found.no,
        grain=context.span.grain,
    )
    page = Rows(limit=ATTEMPTS, iterator=context.param("after"))
    attempts = await store.endpoint_attempts(found.no, _asked(context), page, content=False)
    return Facts(
        endpoint=found,
        app=await context.application(found.app_id),
        view=view,
        in_flight=await store.in_flight(found.no),
        did=series.laid_out(did, series.steps(context.span, context.now)),
        events=await store.lane_events(found.no, EVENTS),
        attempts=attempts,
        probes=[each for each in [*await _failed(context, found), *attempts.rows] if each.probe],
        dead=await store.dead_summary(DeadFilter(org_id=context.org_id, app_no=found.app_no, endpoint_no=found.no)),
        event_types=await store.event_types(context.org_id, Rows(limit=controls.MAX_TYPES + 1), archived=False),
    )


async def _failed(context: PageContext, found: Endpoint) -> list[Attempt]:
    """Lately, without what was answered: most probes of a circuit that was open are among them."""
    where = AttemptFilter(delivered=False, after=context.since)
    return (await context.store.endpoint_attempts(found.no, where, Rows(limit=PROBED), content=False)).rows


def _asked(context: PageContext) -> AttemptFilter:
    match context.param("attempts"):
        case None:
            return AttemptFilter()
        case "failed":
            return AttemptFilter(delivered=False)
        case "delivered":
            return AttemptFilter(delivered=True)
        case _:
            raise InvalidInput("takes failed or delivered", field="attempts")


# ── how it is ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(context: PageContext, facts: Facts) -> Safe:
    lane, found = facts.view.lane, condition(facts.view.lane, context.now)
    waiting = _waiting(facts.view)
    match found.name:
        case "well" if facts.dead.dead:
            letters = components.count(facts.dead.dead, "dead letter", facts.dead.more)
            return components.verdict("dead", f"The endpoint is well; {letters} can be replayed.")
        case "well":
            return components.verdict(
                "delivered", "The endpoint is well.", *([" ", waiting] if facts.view.depth else [])
            )
        case "open" | "half_open":
            words: Sequence[Child] = [
                "The circuit is ",
                "open" if found.name == "open" else "half-open, a probe is under way",
                *([": failing for ", endpoint_health.ages(found.since, context.now)] if found.since else []),
                *([f" ({facts.view.last_error})"] if facts.view.last_error else []),
                f". {waiting}",
                *(
                    [" Next probe ", components.ago(lane.probe_at, context.now), "."]
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
                components.ago(lane.held_until, context.now),
                ". ",
                waiting,
            ]
        case "failing":
            words = [found.words, f" ({facts.view.last_error})" if facts.view.last_error else "", ". ", waiting]
        case "recovering":
            words = ["It recovers: sent at a low rate that doubles with successes. ", waiting]
        case _:
            words = [f"It answered 429: slowed to {lane.pace or 0:.3g} a second. ", waiting]
    return components.verdict(found.shade, *words)


def _reason(facts: Facts) -> str:
    return f" ({facts.endpoint.status_reason})" if facts.endpoint.status_reason else ""


def _waiting(view: LaneView) -> str:
    if not view.depth:
        return "Nothing waits for it."
    many = components.count(view.depth, "delivery", view.more)
    return f"{many[0].upper()}{many[1:]} {'waits' if view.depth == 1 else 'wait'} for it."


def _numbers(context: PageContext, facts: Facts) -> Safe:
    found = condition(facts.view.lane, context.now)
    dead = f"{facts.dead.dead:,}{'+' if facts.dead.more else ''}"
    one = facts.endpoint.id
    return components.numbers(
        components.number(
            "scheduled" if facts.did.failed else "delivered",
            series.percent(facts.did.success),
            f"of attempts delivered, {context.span.words.lower()}",
        ),
        components.number(
            "scheduled", f"{facts.did.failed:,}", "attempts failed", href=context.here(attempts="failed", after=None)
        ),
        components.number(
            "held" if found.held else "pending", endpoint_health.depth(facts.view), "held" if found.held else "waiting"
        ),
        components.number("delivering", f"{facts.in_flight:,}", "in flight"),
        components.number("dead", dead, "dead letters", href=context.link("/dead-letters", endpoint=one)),
    )


def _activity(context: PageContext, facts: Facts) -> Safe:
    label = f"Attempts {series.rate_words(context.span)}, {context.span.words.lower()}"
    return components.section("Attempts over time", figures.areas(label, facts.did.curves(), facts.did.times))


# ── its lane ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _circuit(context: PageContext, facts: Facts) -> Safe:
    # The newest events may not reach back as far as the range: the band begins with the oldest that is known.
    since = context.since if len(facts.events) < EVENTS else max(context.since, facts.events[-1].at)
    lane = facts.view.lane
    probes = circuit_band.probes(facts.probes, lane, context.services.lease, context.now)
    band = circuit_band.stretches(facts.events, lane, since, context.now, probes)
    return components.section(
        "Circuit and status",
        figures.band(f"Circuit, {context.span.words.lower()}", band, context.since, context.now),
    )


def _timeline(context: PageContext, events: Sequence[LaneEvent]) -> Safe:
    if not events:
        return components.section("Timeline", tag("p", "Nothing has happened to it yet.", class_="quiet"))
    named = not context.viewer.portal
    rows = components.table(
        ("When", "What", "Why", "Who"),
        [
            [
                components.ago(event.at, context.now),
                components.state(circuit_band.EVENT_SHADES[event.kind], circuit_band.EVENTS[event.kind]),
                event.cause,
                circuit_band.by(event.actor, named=named) or tag("span", "by itself", class_="quiet"),
            ]
            for event in events[:EVENTS_SHOWN]
        ],
        caption="What happened to the endpoint, newest first",
    )
    return components.section("Timeline", rows)


def _lane(context: PageContext, facts: Facts) -> Safe:
    lane, view = facts.view.lane, facts.view
    starts = next_start(lane, now=context.now, policy=context.services.circuit)
    idle = not view.depth
    return components.section(
        "Lane",
        components.fields(
            [
                ("State", state(context, condition(lane, context.now))),
                ("Waiting", endpoint_health.depth(view)),
                ("Oldest due", None if view.oldest_due is None else components.ago(view.oldest_due, context.now)),
                ("In flight", f"{facts.in_flight:,}"),
                ("Limits", ", ".join(endpoint_health.limits(lane)) or "none"),
                (
                    "Next start",
                    None if idle or starts is None or starts <= context.now else components.ago(starts, context.now),
                ),
                ("Failures in a row", f"{lane.failures:,}" if lane.failures else None),
                ("Failing since", None if lane.failing_since is None else components.clock(lane.failing_since)),
                ("Last error", view.last_error),
            ]
        ),
    )


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _attempts(context: PageContext, facts: Facts) -> Safe:
    walk = facts.attempts
    chosen = context.param("attempts")
    ways = ((None, "All"), ("failed", "Failed"), ("delivered", "Delivered"))
    links = components.tabs(
        "Which attempts", [(words, context.here(attempts=key, after=None), key == chosen) for key, words in ways]
    )
    following = walk.end or (walk.rows[-1].id if len(walk.rows) == ATTEMPTS else None)
    return components.section(
        "Attempts",
        _attempt_table(context, walk.rows) if walk.rows else _no_attempts(facts.endpoint, chosen),
        components.more(context, following),
        aside=links,
        id_="attempts",
    )


def _no_attempts(found: Endpoint, chosen: str | None) -> Safe:
    if chosen is not None:
        return components.empty(f"No {chosen} attempts among those that are kept.")
    idle = found.status == EndpointStatus.ACTIVE
    return components.empty(
        "Nothing was sent to it yet." + (" Send a test event with the button above." if idle else "")
    )


def _attempt_table(context: PageContext, found: Sequence[Attempt]) -> Safe:
    return components.table(
        ("When", "Outcome", "Answer", "Took", "Event type", "Message"),
        [_attempt(context, each) for each in found],
        caption="Attempts, newest first",
        keys=[each.id for each in found],
        numeric=(3,),
    )


def _attempt(context: PageContext, found: Attempt) -> list[Child]:
    notes = [word for word, told in (("probe", found.probe), ("by hand", bool(found.trigger))) if told]
    message = context.link(f"/messages/{found.message_id}")
    return [
        components.ago(found.started_at, context.now),
        join(
            components.state(_OUTCOMES[found.outcome], "failed" if found.outcome == "retry" else found.outcome),
            tag("span", f" {', '.join(notes)}", class_="quiet") if notes else None,
        ),
        _answer(found),
        lasting(found.timing.total / 1_000_000),
        found.event_type,
        components.ident(found.message_id, href=message),
    ]


def _answer(found: Attempt) -> Safe:
    kind = str(found.status_code) if found.status_code is not None else (found.error or "")
    detail = found.detail if found.detail and found.detail != kind else ""
    short = detail if len(detail) <= 80 else f"{detail[:79]}…"
    return join(tag("b", kind), " ", tag("span", short, title=detail, class_="quiet") if short else None)


VIEWS = (View(path="/endpoints/{endpoint_id}", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
