from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from hookline.api.call import Call, listing, page_of
from hookline.api.operation import ListQuery, Query, operation
from hookline.api.wire import dead_letters as wire
from hookline.api.wire.base import Instant, ListResponse, doc
from hookline.api.wire.tasks import BackgroundTaskOut, task
from hookline.errors import InvalidInput
from hookline.model.dead import DeadLetter
from hookline.model.states import Reason
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery
from hookline.store import death

_ALL = "/app/{app_id}/dead-letter"
_ONE = f"{_ALL}/{{dead_letter_id}}"


class State(StrEnum):
    DEAD = "dead"
    RESOLVED = "resolved"
    ALL = "all"


_RESOLVED = {State.DEAD: False, State.RESOLVED: True, State.ALL: None}


class DeadQuery(ListQuery, frozen=True, kw_only=True):
    endpoint_id: Annotated[str, Meta(max_length=256)] | None = None
    event_type: Annotated[str, Meta(max_length=256)] | None = None
    reason: Reason | None = None
    after: Annotated[Instant, doc("Died at or after this instant.")] | None = None
    before: Annotated[Instant, doc("Died before this instant.")] | None = None
    state: State = State.DEAD


class StatsQuery(Query, frozen=True, kw_only=True):
    endpoint_id: Annotated[str, Meta(max_length=256)] | None = None


# ── dead letters of one application ───────────────────────────────────────────────────────────────────────────────


@operation("GET", _ALL, "v1.dead-letter.list")
async def list_of_application(call: Call, asked: DeadQuery) -> ListResponse[wire.DeadLetterOut]:
    """List the dead letters of an application, newest first."""
    return await _listed(call, asked, call.path("app_id"))


@operation("GET", f"{_ALL}/stats", "v1.dead-letter.stats")
async def stats_of_application(call: Call, asked: StatsQuery) -> wire.DeadStatsOut:
    """Count the dead letters of an application."""
    return await _stats(call, asked, call.path("app_id"))


@operation("POST", f"{_ALL}/replay", "v1.dead-letter.replay-many", status=202)
async def replay_many(call: Call, given: wire.DeadFilterIn) -> BackgroundTaskOut:
    """Replay the dead letters that match a filter, in a background task."""
    with _as_named_here():
        started = await call.run(dead_letters.replay_matching, _query(given, call.path("app_id")))
    return task(started.tasks[0])


@operation("POST", f"{_ALL}/resolve", "v1.dead-letter.resolve-many", status=202)
async def resolve_many(call: Call, given: wire.ResolveManyIn) -> BackgroundTaskOut:
    """Resolve the dead letters that match a filter, in a background task."""
    with _as_named_here():
        query = _query(given, call.path("app_id"))
        started = await call.run(dead_letters.resolve_matching, query, given.note)
    return task(started.tasks[0])


@operation("GET", _ONE, "v1.dead-letter.get")
async def show(call: Call) -> wire.DeadLetterHistoryOut:
    """Show one dead letter with its message and its attempts."""
    letter = await _find(call)
    message = await call.store.history.message(letter.app_no, letter.message_id)
    return wire.history(letter, message, await call.store.repair.dead_attempts(letter))


@operation("POST", f"{_ONE}/replay", "v1.dead-letter.replay", status=202)
async def replay(call: Call) -> wire.ReplayedOut:
    """Replay one dead letter. Attempts and time budget start again; the message keeps its id."""
    done = await call.run(dead_letters.replay, [call.path("dead_letter_id")], call.path("app_id"))
    return wire.replayed(done.letters[0])


@operation("POST", f"{_ONE}/resolve", "v1.dead-letter.resolve")
async def resolve(call: Call, given: wire.ResolveIn) -> wire.DeadLetterOut:
    """Resolve one dead letter that needs no delivery, with a note."""
    ref, app = call.path("dead_letter_id"), call.path("app_id")
    await call.run(dead_letters.resolve, [ref], given.note, app)
    return wire.dead_letter(await _find(call))


async def _find(call: Call) -> DeadLetter:
    return await call.run(dead_letters.find, call.path("dead_letter_id"), call.path("app_id"))


# ── dead letters of all applications ──────────────────────────────────────────────────────────────────────────────


@operation("GET", "/dead-letter", "v1.dead-letter.list-all", whole=True)
async def list_all(call: Call, asked: DeadQuery) -> ListResponse[wire.DeadLetterOut]:
    """List the dead letters of all applications, newest first."""
    return await _listed(call, asked, None)


@operation("GET", "/dead-letter/stats", "v1.dead-letter.stats-all", whole=True)
async def stats_of_all(call: Call, asked: StatsQuery) -> wire.DeadStatsOut:
    """Count the dead letters of all applications."""
    return await _stats(call, asked, None)


# ── used for one application and for all applications ─────────────────────────────────────────────────────────────


async def _listed(call: Call, asked: DeadQuery, app: str | None) -> ListResponse[wire.DeadLetterOut]:
    with _as_named_here():
        query = _query(asked, app, resolved=_RESOLVED[asked.state])
        where = await call.run(dead_letters.filter_of, query)
    page = page_of(asked)
    found = await call.store.repair.dead_letters(where, page)
    return listing(found, page, wire.dead_letter, lambda each: death(each.died_at, each.id))


async def _stats(call: Call, asked: StatsQuery, app: str | None) -> wire.DeadStatsOut:
    query = DeadLetterQuery(app=app, endpoint=asked.endpoint_id)
    where = await call.run(dead_letters.filter_of, query)
    return wire.dead_stats(await call.store.repair.dead_stats(where))


def _query(given: DeadQuery | wire.DeadFilterIn, app: str | None, resolved: bool | None = False) -> DeadLetterQuery:
    return DeadLetterQuery(
        app=app,
        endpoint=given.endpoint_id,
        event_type=given.event_type,
        reason=given.reason,
        since=given.after,
        until=given.before,
        resolved=resolved,
    )


@contextmanager
def _as_named_here() -> Iterator[None]:
    """Rename fields in errors: the API calls them `after` and `before`, the service `since` and `until`."""
    try:
        yield
    except InvalidInput as error:
        name = {"since": "after", "until": "before"}.get(error.field, error.field)
        raise InvalidInput(error.words, field=name) from None
