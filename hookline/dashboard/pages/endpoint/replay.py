"""Recover an endpoint, or replay the messages that it missed: first count them, then start a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from hookline.dashboard import components
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.actions import done, find, ref
from hookline.dashboard.pages.endpoint.controls import path
from hookline.dashboard.parsers import instant
from hookline.errors import InvalidInput
from hookline.model.callers import Caller
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEvent, LaneEventKind
from hookline.model.states import EndpointStatus
from hookline.model.tasks import Task, TaskKind
from hookline.rules.replay import refusal
from hookline.services import replays
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.web.html import Child, Safe, tag

EVENTS = 20  # timeline events that are searched for a start time to suggest
# The suggested start is this long before the latest event of `_START_EVENTS`, to include earlier failures.
_BEFORE = timedelta(minutes=1)

K = LaneEventKind
_START_EVENTS = {
    K.CIRCUIT_OPENED: "the circuit opened",
    K.ENDPOINT_PAUSED: "it was paused",
    K.ENDPOINT_DISABLED: "it was disabled",
}


class ReplayKind(Struct, frozen=True, kw_only=True):
    """One of the two kinds of replay, with its texts and its service."""

    kind: TaskKind
    subpath: str  # end of the URL path
    title: str
    description: str
    noun: str
    start: Callable[[Deps, Caller, EndpointRef, datetime], Awaitable[Task]]


RECOVER = ReplayKind(
    kind=TaskKind.RECOVER,
    subpath="/recover",
    title="Recover",
    description="Sends again the dead letters of this endpoint whose messages were accepted since the chosen time.",
    noun="dead letter",
    start=replays.recover,
)
MISSING = ReplayKind(
    kind=TaskKind.REPLAY_MISSING,
    subpath="/replay-missing",
    title="Replay missing",
    description="Sends the messages since the chosen time that match this endpoint but were never sent to it: it was "
    "disabled, did not exist yet, or was not subscribed to them.",
    noun="message",
    start=replays.replay_missing,
)


async def show(context: PageContext, kind: ReplayKind) -> Page:
    return await _page(context, kind, await find(context), context.param("since") or "")


async def _page(context: PageContext, kind: ReplayKind, found: Endpoint, typed: str, error: str | None = None) -> Page:
    confirm = since = None
    refused = refusal(found.status)
    if typed and error is None:
        try:
            since = instant("since", typed)
            total = await replays.count(context.deps, context.caller, ref(context), kind.kind, since)
            confirm = _confirm(context, kind, found, since, total)
        except InvalidInput as invalid:
            error = str(invalid)
    body: list[Child] = [
        components.verdict("held", refused) if refused else None,
        None if refused else confirm,
        tag("p", kind.description),
        tag("p", "To ", components.ident(found.url, href=context.link(path(found)), most=80)),
        _start_times(context, await context.store.history.lane_events(found.no, EVENTS), since, error),
    ]
    back = context.anchor("Back to the endpoint", path(found))
    return Page(title=kind.title, body=body, aside=back, status=422 if error else 200)


def _confirm(context: PageContext, kind: ReplayKind, found: Endpoint, since: datetime, total: int | None) -> Safe:
    if total == 0:
        return components.empty(tag("span", f"No {kind.noun} to send since ", components.clock(since), "."))
    many = components.count(total, kind.noun)
    held = " They are held until the endpoint is resumed." if found.status == EndpointStatus.PAUSED else ""
    to, kept = context.link(path(found, kind.subpath)), {"since": since.isoformat()}
    words = (f"This sends {many} to 1 endpoint, since ", components.clock(since), f".{held}")
    replay = components.button(context, to, f"Replay {many}", kind="main", hidden=kept)
    cancel = components.link_button(context.link(path(found)), "Cancel")
    return tag("div", components.verdict("pending", *words), components.actions(replay, cancel))


def _start_times(context: PageContext, events: Sequence[LaneEvent], since: datetime | None, error: str | None) -> Safe:
    spans = (("hour", 1), ("6 hours", 6), ("day", 24), ("7 days", 168))
    links = [
        components.link_button(_here(context, context.now - timedelta(hours=hours)), f"The last {words}")
        for words, hours in spans
    ]
    last = next((event for event in events if event.kind in _START_EVENTS), None)
    if last is not None:
        words = f"Since {_START_EVENTS[last.kind]}, {components.when(last.at, context.now)}"
        href, kind = _here(context, last.at - _BEFORE), "main" if since is None else ""
        links.append(components.link_button(href, words, kind=kind))
    custom = components.filters(context, components.moment("since", "Since", since, error=error), press="Count")
    return components.section("Start time", components.actions(*links), custom)


def _here(context: PageContext, since: datetime) -> str:
    return context.here(since=since.replace(microsecond=0).isoformat())


async def start(context: PageContext, form: Form, kind: ReplayKind) -> Done | Page:
    found, typed = await find(context), form.text("since")
    try:
        task = await kind.start(context.deps, context.caller, ref(context), instant("since", typed))
    except InvalidInput as error:
        return await _page(context, kind, found, typed, str(error))
    return done(context, found, "Started. This page shows the progress.", to=context.link(f"/tasks/{task.id}"))


for _kind in (RECOVER, MISSING):
    _path = f"/endpoints/{{endpoint_id}}{_kind.subpath}"
    get(_path, portal=True)(partial(show, kind=_kind))
    post(_path, portal=True)(partial(start, kind=_kind))
