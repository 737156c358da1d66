"""The buttons of the endpoint page. `actions.py` and `replay.py` handle their requests."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.dashboard import components
from hookline.dashboard.endpoint_health import Condition
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoints import fix_button
from hookline.dashboard.pages.event_type_edit import NEW
from hookline.model.catalogue import EventType
from hookline.model.dead import DeadSummary
from hookline.model.endpoints import Endpoint
from hookline.model.states import EndpointStatus
from hookline.web.html import Child, Safe, join, tag

MAX_TYPES = 250  # event types offered for a test event

OPENINGS = {
    "": "the default time",
    "300": "5 minutes",
    "3600": "1 hour",
    "21600": "6 hours",
    "86400": "1 day",
}


def path(found: Endpoint, subpath: str = "") -> str:
    return f"/endpoints/{found.id}{subpath}"


def bar(
    context: PageContext, found: Endpoint, health: Condition, event_types: Sequence[EventType], dead: DeadSummary
) -> Safe | None:
    """Return the buttons for frequent actions. `pause_or_disable` has the buttons for rare actions."""
    if not context.may_change:
        return None
    pause = components.button(context, context.link(path(found, "/pause")), "Pause")
    return components.actions(
        fix_button(context, found.id, health),
        _replay(context, found, health, dead) if dead.dead and health.name != "disabled" else None,
        components.link_button(context.link(path(found, "/recover")), "Recover since…"),
        components.link_button(context.link(path(found, "/replay-missing")), "Replay missing…"),
        pause if health.name not in ("paused", "disabled") else None,
        _test(context, found, event_types),
    )


def _replay(context: PageContext, found: Endpoint, health: Condition, dead: DeadSummary) -> Safe:
    """Link to the page that counts the dead letters and asks before it replays them."""
    href = context.link("/dead-letters/replay", endpoint=found.id, all="1")
    words = f"Replay {components.count(dead.dead, 'dead letter', dead.more)}…"
    return components.link_button(href, words, kind="main" if health.well else "")


def _test(context: PageContext, found: Endpoint, event_types: Sequence[EventType]) -> Safe | None:
    if found.status == EndpointStatus.DISABLED:
        return None
    if not event_types:
        add = tag("a", "add an event type", href=context.link(NEW))
        return None if context.viewer.portal else tag("span", "To send a test event, ", add, " first.", class_="quiet")
    return components.form(
        context,
        context.link(path(found, "/test")),
        tag("label", "Event type of the test event", for_="field-event_type", class_="unseen"),
        _test_types([each.name for each in event_types]),
        tag("button", "Send test event", class_="button"),
        class_="inline",
    )


def _test_types(names: Sequence[str]) -> Safe:
    if len(names) <= MAX_TYPES:
        return components.select("event_type", ((name, name) for name in names))
    words = f"Type any event type. The list has the first {MAX_TYPES}."
    entry = tag(
        "input",
        name="event_type",
        id="field-event_type",
        list="types-offered",
        required=True,
        placeholder=words,
        title=words,
        size="40",
    )
    return join(entry, components.offered("types-offered", ((name, "") for name in names[:MAX_TYPES])))


def pause_or_disable(context: PageContext, found: Endpoint) -> Safe | None:
    """Return the section with the rare actions: pause with a reason, open or reset the circuit, disable, delete."""
    if not context.may_change:
        return None
    delete = components.link_button(context.link(path(found, "/delete")), "Delete…", kind="danger")
    return components.section(
        "Pause or disable",
        *(_pause_and_circuit(context, found) if found.status == EndpointStatus.ACTIVE else ()),
        _disable(context, found) if found.status != EndpointStatus.DISABLED else None,
        tag("p", delete, " Its open deliveries become dead letters. You cannot undo this."),
    )


def _pause_and_circuit(context: PageContext, found: Endpoint) -> list[Child]:
    pausing = " Deliveries are created, and held until the endpoint is resumed."
    opening = " Nothing is sent until the time ends. Then a probe tests the endpoint."
    length = tag("label", "For how long", for_="field-seconds", class_="unseen")
    seconds = components.select("seconds", OPENINGS.items())
    reset = components.button(context, context.link(path(found, "/circuit/reset")), "Reset circuit")
    return [
        _step(context, found, "/pause", "Pause", pausing),
        _step(context, found, "/circuit/open", "Open circuit", opening, length, seconds),
        tag("p", reset, " Closes the circuit, and resets failure counts and holds."),
    ]


def _step(context: PageContext, found: Endpoint, subpath: str, press: str, words: str, *more: Child) -> Safe:
    """Return a button with a field for the reason."""
    cause = f"field-{press.partition(' ')[0].lower()}-cause"
    form = components.form(
        context,
        context.link(path(found, subpath)),
        tag("button", press, class_="button"),
        *more,
        tag("label", f"Reason: {press}", for_=cause, class_="unseen"),
        tag("input", name="cause", id=cause, maxlength="500", placeholder="reason"),
        class_="inline",
    )
    return tag("p", form, words)


def _disable(context: PageContext, found: Endpoint) -> Safe:
    button = components.button(context, context.link(path(found, "/disable")), "Disable", kind="danger")
    words = " No deliveries are created from now on. Missed messages can be replayed when the endpoint is enabled."
    return tag("p", button, words)
