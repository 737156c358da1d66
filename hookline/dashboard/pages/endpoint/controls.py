"""The buttons of one endpoint's page. What they do is in `endpoint_actions.py`, `endpoint_replay.py` and `endpoint_secret.py`."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.dashboard import components
from hookline.dashboard.endpoint_health import Condition
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoints import mend
from hookline.dashboard.pages.event_type_edit import NEW
from hookline.model import DeadSummary, Endpoint, EventType
from hookline.model.states import EndpointStatus
from hookline.web.html import Child, Safe, join, tag

MAX_TYPES = 250  # event types that are offered for a test event

OPENINGS = (
    ("", "the usual time"),
    ("300", "5 minutes"),
    ("3600", "1 hour"),
    ("21600", "6 hours"),
    ("86400", "1 day"),
)


def path(found: Endpoint, rest: str = "") -> str:
    return f"/endpoints/{found.id}{rest}"


def back(context: PageContext, found: Endpoint) -> Safe:
    return tag("a", "Back to the endpoint", href=context.link(path(found)))


def bar(
    context: PageContext, found: Endpoint, how: Condition, event_types: Sequence[EventType], dead: DeadSummary
) -> Safe | None:
    """What is done every day; the rest is below, in `hold` and `danger`."""
    if not context.may_change:
        return None
    return components.actions(
        mend(context, found.id, how),
        _replay(context, found, how, dead) if dead.dead and how.name != "disabled" else None,
        _link(context, found, "/recover", "Recover since…"),
        _link(context, found, "/replay-missing", "Replay missing…"),
        components.button(context, context.link(path(found, "/pause")), "Pause")
        if how.name not in ("paused", "disabled")
        else None,
        _test(context, found, event_types),
    )


def _replay(context: PageContext, found: Endpoint, how: Condition, dead: DeadSummary) -> Safe:
    """All of them, after they were counted."""
    href = context.link("/dead-letters/replay", endpoint=found.id, all="1")
    words = f"Replay {components.count(dead.dead, 'dead letter', dead.more)}…"
    return components.link_button(href, words, kind="main" if how.well else "")


def _link(context: PageContext, found: Endpoint, rest: str, words: str) -> Safe:
    return components.link_button(context.link(path(found, rest)), words)


def _test(context: PageContext, found: Endpoint, event_types: Sequence[EventType]) -> Safe | None:
    if found.status == EndpointStatus.DISABLED:
        return None
    if not event_types:
        return None if context.viewer.portal else _no_types(context)
    return components.form(
        context,
        context.link(path(found, "/test")),
        tag("label", "Event type of the test event", for_="field-event_type", class_="unseen"),
        _test_types([each.name for each in event_types]),
        tag("button", "Send test event", class_="button"),
        class_="inline",
    )


def _no_types(context: PageContext) -> Safe:
    add = tag("a", "add an event type", href=context.link(NEW))
    return tag("span", "To send it a test event, ", add, " first.", class_="quiet")


def _test_types(names: Sequence[str]) -> Safe:
    given: dict[str, str | bool | None] = {"name": "event_type", "id": "field-event_type"}
    if len(names) <= MAX_TYPES:
        return tag("select", *(tag("option", name, value=name) for name in names), **given)
    words = f"any of the catalogue; the first {MAX_TYPES} are offered"
    entry = tag("input", list="types-offered", required=True, placeholder=words, title=words, size="40", **given)
    return join(entry, components.offered("types-offered", ((name, "") for name in names[:MAX_TYPES])))


def stop(context: PageContext, found: Endpoint) -> Safe | None:
    """What is done rarely, and with a reason for those who come later."""
    if not context.may_change:
        return None
    delete = components.link_button(context.link(path(found, "/delete")), "Delete…", kind="danger")
    return components.section(
        "Hold it, or stop it",
        *(_hold(context, found) if found.status == EndpointStatus.ACTIVE else ()),
        _disable(context, found) if found.status != EndpointStatus.DISABLED else None,
        tag("p", delete, " For good: what waits for it becomes dead letters."),
    )


def _hold(context: PageContext, found: Endpoint) -> list[Child]:
    lengths = (tag("option", words, value=key) for key, words in OPENINGS)
    return [
        _step(context, found, "/pause", "Pause", "pause", " Deliveries are created and held until it is resumed."),
        _step(
            context,
            found,
            "/circuit/open",
            "Open circuit",
            "open",
            " Nothing is sent until then, and a probe decides how it goes on.",
            tag("label", "For how long", for_="field-seconds", class_="unseen"),
            tag("select", *lengths, name="seconds", id="field-seconds"),
        ),
        tag(
            "p",
            components.button(context, context.link(path(found, "/circuit/reset")), "Reset circuit"),
            " Closes it, and forgets failures and holds.",
        ),
    ]


def _step(context: PageContext, found: Endpoint, rest: str, press: str, key: str, words: str, *more: Child) -> Safe:
    """A button with room for the reason."""
    form = components.form(
        context,
        context.link(path(found, rest)),
        tag("button", press, class_="button"),
        *more,
        tag("label", f"Why: {press}", for_=f"field-{key}-cause", class_="unseen"),
        tag("input", name="cause", id=f"field-{key}-cause", maxlength="500", placeholder="why"),
        class_="inline",
    )
    return tag("p", form, words)


def _disable(context: PageContext, found: Endpoint) -> Safe:
    button = components.button(context, context.link(path(found, "/disable")), "Disable", kind="danger")
    return tag(
        "p", button, " Nothing is created for it from now on; what it misses can be replayed when it is enabled."
    )
