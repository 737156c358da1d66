"""The buttons of one endpoint's page. What they do is in `endpoint_actions.py`, `endpoint_replay.py` and `endpoint_secret.py`."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.dashboard import parts
from hookline.dashboard.health import Condition
from hookline.dashboard.look import Look
from hookline.dashboard.pages.endpoints import mend
from hookline.dashboard.pages.event_type_edit import NEW
from hookline.html import Child, Safe, join, tag
from hookline.model import DeadSummary, Endpoint, EventType
from hookline.states import EndpointStatus

MOST_TYPES = 250  # event types that are offered for a test event

OPENINGS = (
    ("", "the usual time"),
    ("300", "5 minutes"),
    ("3600", "1 hour"),
    ("21600", "6 hours"),
    ("86400", "1 day"),
)


def path(found: Endpoint, rest: str = "") -> str:
    return f"/endpoints/{found.id}{rest}"


def back(look: Look, found: Endpoint) -> Safe:
    return tag("a", "Back to the endpoint", href=look.link(path(found)))


def bar(
    look: Look, found: Endpoint, how: Condition, event_types: Sequence[EventType], dead: DeadSummary
) -> Safe | None:
    """What is done every day; the rest is below, in `hold` and `danger`."""
    if not look.may_change:
        return None
    return parts.actions(
        mend(look, found.id, how),
        _replay(look, found, how, dead) if dead.dead and how.name != "disabled" else None,
        _link(look, found, "/recover", "Recover since…"),
        _link(look, found, "/replay-missing", "Replay missing…"),
        parts.button(look, look.link(path(found, "/pause")), "Pause")
        if how.name not in ("paused", "disabled")
        else None,
        _test(look, found, event_types),
    )


def _replay(look: Look, found: Endpoint, how: Condition, dead: DeadSummary) -> Safe:
    """All of them, after they were counted."""
    href = look.link("/dead-letters/replay", endpoint=found.id, all="1")
    words = f"Replay {parts.count(dead.dead, 'dead letter', dead.more)}…"
    return parts.link_button(href, words, kind="main" if how.well else "")


def _link(look: Look, found: Endpoint, rest: str, words: str) -> Safe:
    return parts.link_button(look.link(path(found, rest)), words)


def _test(look: Look, found: Endpoint, event_types: Sequence[EventType]) -> Safe | None:
    if found.status == EndpointStatus.DISABLED:
        return None
    if not event_types:
        return None if look.viewer.portal else _no_types(look)
    return parts.form(
        look,
        look.link(path(found, "/test")),
        tag("label", "Event type of the test event", for_="field-event_type", class_="unseen"),
        _test_types([each.name for each in event_types]),
        tag("button", "Send test event", class_="button"),
        class_="inline",
    )


def _no_types(look: Look) -> Safe:
    add = tag("a", "add an event type", href=look.link(NEW))
    return tag("span", "To send it a test event, ", add, " first.", class_="quiet")


def _test_types(names: Sequence[str]) -> Safe:
    given: dict[str, str | bool | None] = {"name": "event_type", "id": "field-event_type"}
    if len(names) <= MOST_TYPES:
        return tag("select", *(tag("option", name, value=name) for name in names), **given)
    words = f"any of the catalogue; the first {MOST_TYPES} are offered"
    entry = tag("input", list="types-offered", required=True, placeholder=words, title=words, size="40", **given)
    return join(entry, parts.offered("types-offered", ((name, "") for name in names[:MOST_TYPES])))


def stop(look: Look, found: Endpoint) -> Safe | None:
    """What is done rarely, and with a reason for those who come later."""
    if not look.may_change:
        return None
    delete = parts.link_button(look.link(path(found, "/delete")), "Delete…", kind="danger")
    return parts.section(
        "Hold it, or stop it",
        *(_hold(look, found) if found.status == EndpointStatus.ACTIVE else ()),
        _disable(look, found) if found.status != EndpointStatus.DISABLED else None,
        tag("p", delete, " For good: what waits for it becomes dead letters."),
    )


def _hold(look: Look, found: Endpoint) -> list[Child]:
    lengths = (tag("option", words, value=key) for key, words in OPENINGS)
    return [
        _step(look, found, "/pause", "Pause", "pause", " Deliveries are created and held until it is resumed."),
        _step(
            look,
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
            parts.button(look, look.link(path(found, "/circuit/reset")), "Reset circuit"),
            " Closes it, and forgets failures and holds.",
        ),
    ]


def _step(look: Look, found: Endpoint, rest: str, press: str, key: str, words: str, *more: Child) -> Safe:
    """A button with room for the reason."""
    form = parts.form(
        look,
        look.link(path(found, rest)),
        tag("button", press, class_="button"),
        *more,
        tag("label", f"Why: {press}", for_=f"field-{key}-cause", class_="unseen"),
        tag("input", name="cause", id=f"field-{key}-cause", maxlength="500", placeholder="why"),
        class_="inline",
    )
    return tag("p", form, words)


def _disable(look: Look, found: Endpoint) -> Safe:
    button = parts.button(look, look.link(path(found, "/disable")), "Disable", kind="danger")
    return tag(
        "p", button, " Nothing is created for it from now on; what it misses can be replayed when it is enabled."
    )
