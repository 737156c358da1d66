"""Sending again, since an instant: an endpoint's dead letters, or what it never got. First how many, then a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline.dashboard import instants, parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.pages.endpoint_actions import done, find, ref
from hookline.dashboard.pages.endpoint_controls import back, path
from hookline.errors import InvalidInput
from hookline.flow.replay import refusal
from hookline.html import Child, Safe, tag
from hookline.model import Endpoint, LaneEvent, LaneEventKind, Task, TaskKind
from hookline.model.callers import Caller
from hookline.services import replays
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.states import EndpointStatus

EVENTS = 20  # of the timeline, among which an instant to begin with is looked for
_BEFORE = timedelta(minutes=1)  # that instant: what led to it counts

K = LaneEventKind
_BEGINNINGS = {
    K.CIRCUIT_OPENED: "the circuit opened",
    K.ENDPOINT_PAUSED: "it was paused",
    K.ENDPOINT_DISABLED: "it was disabled",
}


class Again(Struct, frozen=True, kw_only=True):
    """One of the two ways."""

    kind: TaskKind
    rest: str  # of the path
    title: str
    what: str
    noun: str
    start: Callable[[Deps, Caller, EndpointRef, datetime], Awaitable[Task]]


RECOVER = Again(
    kind=TaskKind.RECOVER,
    rest="/recover",
    title="Recover",
    what="Dead letters of this endpoint whose messages were accepted since an instant are sent again.",
    noun="dead letter",
    start=replays.recover,
)
MISSING = Again(
    kind=TaskKind.REPLAY_MISSING,
    rest="/replay-missing",
    title="Replay missing",
    what="Messages since an instant that match this endpoint now and were never sent to it, because it was disabled, "
    "was not there yet, or was subscribed to less, are sent.",
    noun="message",
    start=replays.replay_missing,
)


async def show(look: Look, again: Again) -> Page:
    return await _page(look, again, await find(look), look.param("since") or "")


async def _page(look: Look, again: Again, found: Endpoint, typed: str, error: str | None = None) -> Page:
    confirm = since = None
    refused = refusal(found.status)
    if typed and error is None:
        try:
            since = instants.read("since", typed)
            total = await replays.count(look.deps, look.by, ref(look), again.kind, since)
            confirm = _confirm(look, again, found, since, total)
        except InvalidInput as wrong:
            error = str(wrong)
    body: list[Child] = [
        parts.verdict("held", refused) if refused else None,
        None if refused else confirm,
        tag("p", again.what),
        tag("p", "To ", parts.ident(found.url, href=look.link(path(found)), most=80)),
        _choose(look, await look.store.lane_events(found.no, EVENTS), since, error),
    ]
    return Page(
        title=again.title,
        rail="endpoints",
        body=body,
        aside=back(look, found),
        every=None,
        status=422 if error else 200,
    )


def _confirm(look: Look, again: Again, found: Endpoint, since: datetime, total: int | None) -> Safe:
    if total == 0:
        return parts.empty(tag("span", f"There is no {again.noun} to send since ", parts.clock(since), "."))
    many = f"more {again.noun}s than were counted" if total is None else parts.count(total, again.noun)
    held = " They are held until the endpoint is resumed." if found.status == EndpointStatus.PAUSED else ""
    return tag(
        "div",
        parts.verdict("pending", f"Sends {many} to 1 endpoint, since ", parts.clock(since), f".{held}"),
        parts.actions(
            parts.button(
                look,
                look.link(path(found, again.rest)),
                f"Replay {many}",
                kind="main",
                hidden={"since": since.isoformat()},
            ),
            parts.link_button(look.link(path(found)), "Do not"),
        ),
    )


def _choose(look: Look, events: Sequence[LaneEvent], since: datetime | None, error: str | None) -> Safe:
    spans = (("hour", 1), ("6 hours", 6), ("day", 24), ("7 days", 168))
    links = [
        parts.link_button(_here(look, look.now - timedelta(hours=hours)), f"The last {words}") for words, hours in spans
    ]
    began = next((event for event in events if event.kind in _BEGINNINGS), None)
    if began is not None:
        words = f"Since {_BEGINNINGS[began.kind]}, {parts.when(began.at, look.now)}"
        links.append(parts.link_button(_here(look, began.at - _BEFORE), words, kind="main" if since is None else ""))
    custom = parts.filters(look, parts.moment("since", "Since", since, error=error), press="Count")
    return parts.section("Since when?", parts.actions(*links), custom)


def _here(look: Look, since: datetime) -> str:
    return look.here(since=since.replace(microsecond=0).isoformat())


async def begin(look: Look, form: Form, again: Again) -> Done | Page:
    found, typed = await find(look), form.text("since")
    try:
        task = await again.start(look.deps, look.by, ref(look), instants.read("since", typed))
    except InvalidInput as error:
        return await _page(look, again, found, typed, str(error))
    return done(look, found, "On its way: this page shows how far it is.", to=look.link(f"/tasks/{task.id}"))


async def show_recover(look: Look) -> Page:
    return await show(look, RECOVER)


async def show_missing(look: Look) -> Page:
    return await show(look, MISSING)


async def recover(look: Look, form: Form) -> Done | Page:
    return await begin(look, form, RECOVER)


async def replay_missing(look: Look, form: Form) -> Done | Page:
    return await begin(look, form, MISSING)


_ONE = "/endpoints/{endpoint_id}"

VIEWS = (
    View(path=f"{_ONE}/recover", show=show_recover, portal=True),
    View(path=f"{_ONE}/replay-missing", show=show_missing, portal=True),
)
ACTIONS = (
    Action(path=f"{_ONE}/recover", do=recover, portal=True),
    Action(path=f"{_ONE}/replay-missing", do=replay_missing, portal=True),
)
