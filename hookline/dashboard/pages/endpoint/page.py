"""The page of one endpoint: health, waiting deliveries, recent attempts, timeline and settings."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hookline.dashboard import components, endpoint_health
from hookline.dashboard.charts import circuit_band, figures, series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.endpoint_health import condition
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import delivery_contract, endpoints
from hookline.dashboard.pages.endpoint import controls
from hookline.dashboard.pages.endpoint import settings as endpoint_settings
from hookline.dashboard.pages.message.delivery import OUTCOMES
from hookline.errors import NoSuch
from hookline.model.attempts import Attempt, AttemptFilter
from hookline.model.catalogue import Application, EventType
from hookline.model.dead import DeadFilter, DeadSummary
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEvent, LaneView
from hookline.model.states import EndpointStatus
from hookline.rules.checks.text import lasting
from hookline.rules.lane.admission import next_start
from hookline.store import Page as Rows
from hookline.store import Walk
from hookline.web.html import Child, Safe, join, tag

ATTEMPTS = 25  # attempts on one page
EVENTS = 100  # timeline events read for the circuit band, the chart of the circuit's states over time
PROBED = 100  # failed attempts that are read to find the probes that the circuit band shows
EVENTS_SHOWN = 12  # timeline events listed in the table

# Values of the URL parameter `attempts`, and the value of `AttemptFilter.delivered` for each.
_CHOICES = {"failed": False, "delivered": True}
_TABS = {"": "All", "failed": "Failed", "delivered": "Delivered"}


class EndpointData(Struct, frozen=True, kw_only=True):
    """All data that the page shows."""

    endpoint: Endpoint
    app: Application
    view: LaneView
    in_flight: int
    activity: Series
    events: list[LaneEvent]  # newest first
    attempts: Walk[Attempt]
    probes: list[Attempt]  # recent probes, which the circuit band shows
    dead: DeadSummary
    event_types: list[EventType]


@get("/endpoints/{endpoint_id}", portal=True)
async def show(context: PageContext) -> Page:
    data = await _read(context)
    found, health = data.endpoint, condition(data.view.lane, context.now)
    body: list[Child] = [
        _heading(context, data),
        context.live("health", _verdict(context, data), _numbers(context, data)),
        context.live("controls", controls.bar(context, found, health, data.event_types, data.dead)),
        components.columns(
            context.live("activity", endpoints.activity(context, data.activity)),
            context.live("circuit", _circuit(context, data)),
        ),
        components.columns(
            context.live("lane", _lane(context, data)), context.live("timeline", _timeline(context, data.events))
        ),
        context.live("attempts", _attempts(context, data)),
        endpoint_settings.section(context, found, data.app),
        endpoint_settings.secret_section(context, found),
        delivery_contract.section(context, found),
        controls.pause_or_disable(context, found),
    ]
    edit = components.link_button(context.link(controls.path(found, "/edit")), "Edit") if context.may_change else None
    return Page(title=found.description[:80] or "Endpoint", body=body, aside=edit)


def _heading(context: PageContext, data: EndpointData) -> Safe:
    app = None
    if not context.viewer.portal:
        app = join(" of ", tag("a", data.app.name, href=context.link(f"/applications/{data.app.id}")))
    return tag("p", components.ident(data.endpoint.url, most=90), app)


async def _read(context: PageContext) -> EndpointData:
    found = await context.endpoint(context.path("endpoint_id"))
    store = context.store
    view = await store.history.lane_view(found.no)
    if view is None:
        raise NoSuch("endpoint", found.id)
    page = Rows(limit=ATTEMPTS, iterator=context.param("after"))
    where = DeadFilter(org_id=context.org_id, app_no=found.app_no, endpoint_no=found.no)
    types = Rows(limit=controls.MAX_TYPES + 1)
    attempts = await store.history.endpoint_attempts(found.no, _attempt_filter(context), page, content=False)
    return EndpointData(
        endpoint=found,
        app=await context.application(found.app_id),
        view=view,
        in_flight=await store.monitoring.in_flight(found.no),
        activity=await series.read(context, found.app_no, found.no),
        events=await store.history.lane_events(found.no, EVENTS),
        attempts=attempts,
        probes=[each for each in [*await _failed(context, found), *attempts.rows] if each.probe],
        dead=await store.repair.dead_summary(where),
        event_types=await store.catalogue.event_types(context.org_id, types, archived=False),
    )


async def _failed(context: PageContext, found: Endpoint) -> list[Attempt]:
    """Return recent failed attempts without their bodies. The page looks for probes among them, because most probes of
    an open circuit fail."""
    where = AttemptFilter(delivered=False, after=context.since)
    return (await context.store.history.endpoint_attempts(found.no, where, Rows(limit=PROBED), content=False)).rows


def _attempt_filter(context: PageContext) -> AttemptFilter:
    chosen = context.choice("attempts", _CHOICES)
    return AttemptFilter(delivered=None if chosen is None else _CHOICES[chosen])


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(context: PageContext, data: EndpointData) -> Safe:
    lane, found = data.view.lane, condition(data.view.lane, context.now)
    waiting = _waiting(data.view)
    error = f" ({data.view.last_error})" if data.view.last_error else None
    reason = f" ({data.endpoint.status_reason})" if data.endpoint.status_reason else None
    words: list[Child]
    match found.name:
        case "well" if data.dead.dead:
            letters = components.count(data.dead.dead, "dead letter", data.dead.more)
            return components.verdict("dead", f"The endpoint is healthy; {letters} can be replayed.")
        case "well":
            words = ["The endpoint is healthy.", f" {waiting}" if data.view.depth else None]
        case "open" | "half_open":
            since = join(": failing for ", endpoint_health.ages(found.since, context.now)) if found.since else None
            state_words = "open" if found.name == "open" else "half-open, a probe is running"
            words = ["The circuit is ", state_words, since, error, f". {waiting}"]
            if found.name == "open" and lane.probe_at:
                words += [" Next probe ", components.ago(lane.probe_at, context.now), "."]
        case "disabled":
            words = ["Disabled", reason, ": no deliveries are created, and nothing is sent. ", waiting]
        case "paused":
            words = ["Paused", reason, ": deliveries are created and held. ", waiting]
        case "held":
            assert lane.held_until is not None
            until = components.ago(lane.held_until, context.now)
            words = ["The endpoint asked to wait (Retry-After). Deliveries continue ", until, ". ", waiting]
        case "failing":
            words = [found.words, error, ". ", waiting]
        case "recovering":
            words = ["Recovering: deliveries are sent at a low rate, which doubles while they succeed. ", waiting]
        case _:
            words = [f"The endpoint answered 429: slowed to {lane.pace or 0:.3g} per second. ", waiting]
    return components.verdict(found.shade, *words)


def _waiting(view: LaneView) -> str:
    if not view.depth:
        return "No deliveries are waiting."
    many = components.count(view.depth, "delivery", view.more).capitalize()
    return f"{many} {'is' if view.depth == 1 else 'are'} waiting."


def _numbers(context: PageContext, data: EndpointData) -> Safe:
    found = condition(data.view.lane, context.now)
    shade, waiting = ("held", "held") if found.held else ("pending", "waiting")
    dead = components.at_least(data.dead.dead, data.dead.more)
    letters = context.link("/dead-letters", endpoint=data.endpoint.id)
    failed = context.here(attempts="failed", after=None)
    return components.numbers(
        endpoints.success(context, data.activity),
        components.number("scheduled", f"{data.activity.failed:,}", "attempts failed", href=failed),
        components.number(shade, endpoint_health.depth(data.view), waiting),
        components.number("delivering", f"{data.in_flight:,}", "in flight"),
        components.number("dead", dead, "dead letters", href=letters),
    )


# ── lane ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _circuit(context: PageContext, data: EndpointData) -> Safe:
    # The events that were read may not cover the whole time range. Then the band begins at the oldest of them.
    since = context.since if len(data.events) < EVENTS else max(context.since, data.events[-1].at)
    lane = data.view.lane
    probes = circuit_band.probes(data.probes, lane, context.services.lease, context.now)
    band = circuit_band.stretches(data.events, lane, since, context.now, probes)
    label = f"Circuit, {context.span.words.lower()}"
    return components.section("Circuit and status", figures.band(label, band, context.since, context.now))


def _timeline(context: PageContext, events: Sequence[LaneEvent]) -> Safe:
    if not events:
        return components.section("Timeline", tag("p", "No events yet.", class_="quiet"))
    named, automatic = not context.viewer.portal, tag("span", "automatic", class_="quiet")
    rows = components.table(
        events[:EVENTS_SHOWN],
        (
            ("When", lambda event: components.ago(event.at, context.now)),
            ("What", lambda event: components.state(*circuit_band.EVENTS[event.kind])),
            ("Why", lambda event: event.cause),
            ("Who", lambda event: circuit_band.by(event.actor, named=named) or automatic),
        ),
        caption="Timeline of the endpoint, newest first",
    )
    return components.section("Timeline", rows)


def _lane(context: PageContext, data: EndpointData) -> Safe:
    lane, view = data.view.lane, data.view
    starts = next_start(lane, now=context.now, policy=context.services.circuit)
    later = starts if view.depth and starts is not None and starts > context.now else None
    rows: list[tuple[str, Child]] = [
        ("State", endpoints.state(context, condition(lane, context.now))),
        ("Waiting", endpoint_health.depth(view)),
        ("Oldest due", None if view.oldest_due is None else components.ago(view.oldest_due, context.now)),
        ("In flight", f"{data.in_flight:,}"),
        ("Limits", ", ".join(endpoint_health.limits(lane)) or "none"),
        ("Next start", None if later is None else components.ago(later, context.now)),
        ("Failures in a row", f"{lane.failures:,}" if lane.failures else None),
        ("Failing since", None if lane.failing_since is None else components.clock(lane.failing_since)),
        ("Last error", view.last_error),
    ]
    return components.section("Lane", components.fields(rows))


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _attempts(context: PageContext, data: EndpointData) -> Safe:
    walk = data.attempts
    chosen = context.param("attempts")
    links = components.filter_tabs(context, "Which attempts", "attempts", _TABS, chosen)
    following = walk.end or (walk.rows[-1].id if len(walk.rows) == ATTEMPTS else None)
    return components.section(
        "Attempts",
        _attempt_table(context, walk.rows) if walk.rows else _no_attempts(data.endpoint, chosen),
        components.more(context, following),
        aside=links,
        id_="attempts",
    )


def _no_attempts(found: Endpoint, chosen: str | None) -> Safe:
    if chosen is not None:
        return components.empty(f"No {chosen} attempts in the stored history.")
    hint = " Send a test event with the button above." if found.status == EndpointStatus.ACTIVE else ""
    return components.empty(f"Nothing was sent to this endpoint yet.{hint}")


def _attempt_table(context: PageContext, found: Sequence[Attempt]) -> Safe:
    def message(each: Attempt) -> Safe:
        return components.ident(each.message_id, href=context.link(f"/messages/{each.message_id}"))

    return components.table(
        found,
        (
            ("When", lambda each: components.ago(each.started_at, context.now)),
            ("Outcome", _outcome),
            ("Response", _response),
            ("Duration", lambda each: lasting(each.timing.total / 1_000_000)),
            ("Event type", lambda each: each.event_type),
            ("Message", message),
        ),
        caption="Attempts, newest first",
        key=lambda each: each.id,
        numeric=("Duration",),
    )


def _outcome(found: Attempt) -> Safe:
    notes = [word for word, applies in (("probe", found.probe), ("manual", bool(found.trigger))) if applies]
    words = "failed" if found.outcome == "retry" else found.outcome
    how = tag("span", f" {', '.join(notes)}", class_="quiet") if notes else None
    return join(components.state(OUTCOMES[found.outcome], words), how)


def _response(found: Attempt) -> Safe:
    kind = str(found.status_code) if found.status_code is not None else (found.error or "")
    detail = found.detail if found.detail != kind else ""
    short = tag("span", components.clip(detail, 80), title=detail, class_="quiet") if detail else None
    return join(tag("b", kind), " ", short)
