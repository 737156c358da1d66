"""Sending again, since an instant: an endpoint's dead letters, or what it never got. First how many, then a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline.dashboard import components, instants
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.actions import done, find, ref
from hookline.dashboard.pages.endpoint.controls import back, path
from hookline.errors import InvalidInput
from hookline.model import Endpoint, LaneEvent, LaneEventKind, Task, TaskKind
from hookline.model.callers import Caller
from hookline.model.states import EndpointStatus
from hookline.rules.replay import refusal
from hookline.services import replays
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.web.html import Child, Safe, tag

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


async def show(context: PageContext, again: Again) -> Page:
    return await _page(context, again, await find(context), context.param("since") or "")


async def _page(context: PageContext, again: Again, found: Endpoint, typed: str, error: str | None = None) -> Page:
    confirm = since = None
    refused = refusal(found.status)
    if typed and error is None:
        try:
            since = instants.read("since", typed)
            total = await replays.count(context.deps, context.caller, ref(context), again.kind, since)
            confirm = _confirm(context, again, found, since, total)
        except InvalidInput as wrong:
            error = str(wrong)
    body: list[Child] = [
        components.verdict("held", refused) if refused else None,
        None if refused else confirm,
        tag("p", again.what),
        tag("p", "To ", components.ident(found.url, href=context.link(path(found)), most=80)),
        _choose(context, await context.store.lane_events(found.no, EVENTS), since, error),
    ]
    return Page(
        title=again.title,
        rail="endpoints",
        body=body,
        aside=back(context, found),
        refresh_seconds=None,
        status=422 if error else 200,
    )


def _confirm(context: PageContext, again: Again, found: Endpoint, since: datetime, total: int | None) -> Safe:
    if total == 0:
        return components.empty(tag("span", f"There is no {again.noun} to send since ", components.clock(since), "."))
    many = f"more {again.noun}s than were counted" if total is None else components.count(total, again.noun)
    held = " They are held until the endpoint is resumed." if found.status == EndpointStatus.PAUSED else ""
    return tag(
        "div",
        components.verdict("pending", f"Sends {many} to 1 endpoint, since ", components.clock(since), f".{held}"),
        components.actions(
            components.button(
                context,
                context.link(path(found, again.rest)),
                f"Replay {many}",
                kind="main",
                hidden={"since": since.isoformat()},
            ),
            components.link_button(context.link(path(found)), "Do not"),
        ),
    )


def _choose(context: PageContext, events: Sequence[LaneEvent], since: datetime | None, error: str | None) -> Safe:
    spans = (("hour", 1), ("6 hours", 6), ("day", 24), ("7 days", 168))
    links = [
        components.link_button(_here(context, context.now - timedelta(hours=hours)), f"The last {words}")
        for words, hours in spans
    ]
    began = next((event for event in events if event.kind in _BEGINNINGS), None)
    if began is not None:
        words = f"Since {_BEGINNINGS[began.kind]}, {components.when(began.at, context.now)}"
        links.append(
            components.link_button(_here(context, began.at - _BEFORE), words, kind="main" if since is None else "")
        )
    custom = components.filters(context, components.moment("since", "Since", since, error=error), press="Count")
    return components.section("Since when?", components.actions(*links), custom)


def _here(context: PageContext, since: datetime) -> str:
    return context.here(since=since.replace(microsecond=0).isoformat())


async def begin(context: PageContext, form: Form, again: Again) -> Done | Page:
    found, typed = await find(context), form.text("since")
    try:
        task = await again.start(context.deps, context.caller, ref(context), instants.read("since", typed))
    except InvalidInput as error:
        return await _page(context, again, found, typed, str(error))
    return done(context, found, "On its way: this page shows how far it is.", to=context.link(f"/tasks/{task.id}"))


async def show_recover(context: PageContext) -> Page:
    return await show(context, RECOVER)


async def show_missing(context: PageContext) -> Page:
    return await show(context, MISSING)


async def recover(context: PageContext, form: Form) -> Done | Page:
    return await begin(context, form, RECOVER)


async def replay_missing(context: PageContext, form: Form) -> Done | Page:
    return await begin(context, form, MISSING)


_ONE = "/endpoints/{endpoint_id}"

VIEWS = (
    View(path=f"{_ONE}/recover", show=show_recover, portal=True),
    View(path=f"{_ONE}/replay-missing", show=show_missing, portal=True),
)
ACTIONS = (
    Action(path=f"{_ONE}/recover", do=recover, portal=True),
    Action(path=f"{_ONE}/replay-missing", do=replay_missing, portal=True),
)
