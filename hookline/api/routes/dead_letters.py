from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from hookline.api.call import Call, listing, page_of, respond
from hookline.api.operation import ListQuery, Operation, Query
from hookline.api.wire import dead_letters as wire
from hookline.api.wire.base import Instant, ListResponse
from hookline.api.wire.tasks import BackgroundTaskOut, task
from hookline.errors import InvalidInput
from hookline.model import DeadLetter
from hookline.model.states import Reason
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery
from hookline.store.protocols import death
from hookline.web.authorize import Needs


class State(StrEnum):
    DEAD = "dead"
    RESOLVED = "resolved"
    ALL = "all"


_RESOLVED = {State.DEAD: False, State.RESOLVED: True, State.ALL: None}


class DeadQuery(ListQuery, frozen=True, kw_only=True):
    endpoint_id: Annotated[str, Meta(max_length=256)] | None = None
    event_type: Annotated[str, Meta(max_length=256)] | None = None
    reason: Reason | None = None
    after: Annotated[Instant, Meta(description="Died at or after.")] | None = None
    before: Annotated[Instant, Meta(description="Died before.")] | None = None
    state: State = State.DEAD


class StatsQuery(Query, frozen=True, kw_only=True):
    endpoint_id: Annotated[str, Meta(max_length=256)] | None = None


# ── of one application ────────────────────────────────────────────────────────────────────────────────────────────


async def list_of_application(call: Call) -> Response:
    return await _listed(call, call.path("app_id"))


async def stats_of_application(call: Call) -> Response:
    return await _stats(call, call.path("app_id"))


async def show(call: Call) -> Response:
    letter = await _find(call)
    message = await call.store.message(letter.app_no, letter.message_id)
    return respond(wire.history(letter, message, await call.store.dead_attempts(letter)))


async def replay(call: Call) -> Response:
    done = await dead_letters.replay(call.deps, call.caller, [call.path("dead_letter_id")], call.path("app_id"))
    return respond(wire.replayed(done.letters[0]), 202)


async def resolve(call: Call) -> Response:
    given = await call.body(wire.ResolveIn)
    ref, app = call.path("dead_letter_id"), call.path("app_id")
    await dead_letters.resolve(call.deps, call.caller, [ref], given.note, app)
    return respond(wire.dead_letter(await _find(call)))


async def replay_many(call: Call) -> Response:
    given = await call.body(wire.DeadFilterIn)
    with _as_named_here():
        started = await dead_letters.replay_matching(call.deps, call.caller, _query(given, call.path("app_id")))
    return respond(task(started.tasks[0]), 202)


async def resolve_many(call: Call) -> Response:
    given = await call.body(wire.ResolveManyIn)
    with _as_named_here():
        query = _query(given, call.path("app_id"))
        started = await dead_letters.resolve_matching(call.deps, call.caller, query, given.note)
    return respond(task(started.tasks[0]), 202)


async def _find(call: Call) -> DeadLetter:
    return await dead_letters.find(call.deps, call.caller, call.path("dead_letter_id"), call.path("app_id"))


# ── across applications ───────────────────────────────────────────────────────────────────────────────────────────


async def list_all(call: Call) -> Response:
    return await _listed(call, None)


async def stats_of_all(call: Call) -> Response:
    return await _stats(call, None)


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _listed(call: Call, app: str | None) -> Response:
    asked = call.query(DeadQuery)
    with _as_named_here():
        query = _query(asked, app, resolved=_RESOLVED[asked.state])
        where = await dead_letters.filter_of(call.deps, call.caller, query)
    page = page_of(asked)
    found = await call.store.dead_letters(where, page)
    places = [death(each.died_at, each.id) for each in found]
    return listing([wire.dead_letter(each) for each in found], places, page)


async def _stats(call: Call, app: str | None) -> Response:
    query = DeadLetterQuery(app=app, endpoint=call.query(StatsQuery).endpoint_id)
    where = await dead_letters.filter_of(call.deps, call.caller, query)
    return respond(wire.dead_stats(await call.store.dead_stats(where)))


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
    """The API calls two fields of the filter by other names."""
    try:
        yield
    except InvalidInput as error:
        name = {"since": "after", "until": "before"}.get(error.field, error.field)
        raise InvalidInput(error.words, field=name) from None


_ALL = "/app/{app_id}/dead-letter"
_ONE = f"{_ALL}/{{dead_letter_id}}"

OPERATIONS = [
    Operation(
        name="v1.dead-letter.list",
        method="GET",
        path=_ALL,
        handler=list_of_application,
        summary="List the dead letters of an application, those that died last first.",
        query=DeadQuery,
        answers={200: ListResponse[wire.DeadLetterOut]},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.dead-letter.stats",
        method="GET",
        path=f"{_ALL}/stats",
        handler=stats_of_application,
        summary="Count the dead letters of an application.",
        query=StatsQuery,
        answers={200: wire.DeadStatsOut},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.dead-letter.replay-many",
        method="POST",
        path=f"{_ALL}/replay",
        handler=replay_many,
        summary="Send dead letters again, by filter, in a background task.",
        body=wire.DeadFilterIn,
        answers={202: BackgroundTaskOut},
    ),
    Operation(
        name="v1.dead-letter.resolve-many",
        method="POST",
        path=f"{_ALL}/resolve",
        handler=resolve_many,
        summary="Close dead letters with a note, by filter, in a background task.",
        body=wire.ResolveManyIn,
        answers={202: BackgroundTaskOut},
    ),
    Operation(
        name="v1.dead-letter.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one dead letter with its message and every attempt.",
        answers={200: wire.DeadLetterHistoryOut},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.dead-letter.replay",
        method="POST",
        path=f"{_ONE}/replay",
        handler=replay,
        summary="Send one dead letter again: attempts and time budget start anew, the message's id stays.",
        answers={202: wire.ReplayedOut},
    ),
    Operation(
        name="v1.dead-letter.resolve",
        method="POST",
        path=f"{_ONE}/resolve",
        handler=resolve,
        summary="Close one dead letter that needs no delivery, with a note.",
        body=wire.ResolveIn,
        answers={200: wire.DeadLetterOut},
    ),
    Operation(
        name="v1.dead-letter.list-all",
        method="GET",
        path="/dead-letter",
        handler=list_all,
        summary="List the dead letters of all applications, those that died last first.",
        query=DeadQuery,
        answers={200: ListResponse[wire.DeadLetterOut]},
        needs=Needs.READ,
        whole=True,
    ),
    Operation(
        name="v1.dead-letter.stats-all",
        method="GET",
        path="/dead-letter/stats",
        handler=stats_of_all,
        summary="Count the dead letters of all applications.",
        query=StatsQuery,
        answers={200: wire.DeadStatsOut},
        needs=Needs.READ,
        whole=True,
    ),
]
