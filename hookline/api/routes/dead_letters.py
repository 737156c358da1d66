from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from hookline.api.call import Call, listing, page_of, respond
from hookline.api.operation import ListQuery, Operation, Query
from hookline.api.wire import dead_letters as wire
from hookline.api.wire.base import Instant, ListResponse
from hookline.api.wire.tasks import BackgroundTaskOut, task
from hookline.errors import Conflict, InvalidInput, NotFound
from hookline.model import Application, DeadFilter, DeadLetter, NewTask, TaskKind, TaskWork
from hookline.model.states import Reason
from hookline.rules.checks import catalogue
from hookline.rules.checks import text as text_checks
from hookline.services import manage
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
    app, asked = await call.application(), call.query(DeadQuery)
    where = replace(_asked(asked), app_no=app.no, endpoint_no=await _endpoint_no(call, app, asked.endpoint_id))
    return await _listed(call, where, asked)


async def stats_of_application(call: Call) -> Response:
    app, asked = await call.application(), call.query(StatsQuery)
    where = DeadFilter(app_no=app.no, endpoint_no=await _endpoint_no(call, app, asked.endpoint_id))
    return respond(wire.dead_stats(await call.store.dead_stats(where)))


async def show(call: Call) -> Response:
    letter = await _find(call, await call.application())
    message = await call.store.message(letter.app_no, letter.message_id)
    return respond(wire.history(letter, message, await call.store.dead_attempts(letter)))


async def replay(call: Call) -> Response:
    letter = await _find(call, await call.application())
    where = DeadFilter(app_no=letter.app_no, ids=(letter.id,), resolved=None)
    if not await call.store.replay(where, 1):
        await _find(call, await call.application())  # somebody else may have replayed it meanwhile
        raise Conflict("it cannot be sent: its endpoint is disabled or deleted, or its payload is gone")
    return respond(wire.replayed(letter), 202)


async def resolve(call: Call) -> Response:
    app, given = await call.application(), await call.body(wire.ResolveIn)
    note = catalogue.check_note(given.note)
    letter = await _find(call, app)
    resolved = await call.store.resolve(DeadFilter(app_no=app.no, ids=(letter.id,)), note, 1)
    after = await _find(call, app)
    if not resolved:
        raise Conflict("it was resolved before")
    return respond(wire.dead_letter(after))


async def replay_many(call: Call) -> Response:
    app, given = await call.application(), await call.body(wire.DeadFilterIn)
    return await _add(call, app, given, TaskKind.REPLAY_DEAD)


async def resolve_many(call: Call) -> Response:
    app, given = await call.application(), await call.body(wire.ResolveManyIn)
    return await _add(call, app, given, TaskKind.RESOLVE_DEAD, catalogue.check_note(given.note))


async def _add(call: Call, app: Application, given: wire.DeadFilterIn, kind: TaskKind, note: str = "") -> Response:
    since, until = _span(given.after, given.before)
    event_type = _event_type(given.event_type)
    work = TaskWork(
        died_since=since,
        died_until=until,
        event_types=None if event_type is None else (event_type,),
        reason=given.reason,
        note=note,
    )
    endpoint_no = await _endpoint_no(call, app, given.endpoint_id)
    new = NewTask(org_id=app.org_id, app_no=app.no, endpoint_no=endpoint_no, kind=kind, work=work)
    return respond(task(await call.store.add_task(new)), 202)


async def _find(call: Call, app: Application) -> DeadLetter:
    ref = call.path("dead_letter_id")
    try:
        found = await call.store.dead_letter(manage.dead_letter_number(ref))
    except InvalidInput:
        found = None
    if found is None or found.app_no != app.no:
        raise NotFound(f"no dead letter {ref!r}")
    return found


async def _endpoint_no(call: Call, app: Application, ref: str | None) -> int | None:
    return None if ref is None else (await manage.find_endpoint(call.store, app, ref)).no


# ── across applications ───────────────────────────────────────────────────────────────────────────────────────────


async def list_all(call: Call) -> Response:
    asked = call.query(DeadQuery)
    endpoint_no = await _any_endpoint_no(call, asked.endpoint_id)
    return await _listed(call, replace(_asked(asked), org_id=call.organization(), endpoint_no=endpoint_no), asked)


async def stats_of_all(call: Call) -> Response:
    endpoint_no = await _any_endpoint_no(call, call.query(StatsQuery).endpoint_id)
    where = DeadFilter(org_id=call.organization(), endpoint_no=endpoint_no)
    return respond(wire.dead_stats(await call.store.dead_stats(where)))


async def _any_endpoint_no(call: Call, endpoint_id: str | None) -> int | None:
    """By id alone: a uid is of one application."""
    if endpoint_id is None:
        return None
    found = await call.store.endpoint_by_id(call.organization(), endpoint_id)
    if found is None:
        raise NotFound(f"no endpoint {endpoint_id!r}")
    return found.no


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _asked(asked: DeadQuery) -> DeadFilter:
    since, until = _span(asked.after, asked.before)
    return DeadFilter(
        event_type=_event_type(asked.event_type),
        reason=asked.reason,
        since=since,
        until=until,
        resolved=_RESOLVED[asked.state],
    )


def _span(after: datetime | None, before: datetime | None) -> tuple[datetime | None, datetime | None]:
    for name, value in (("after", after), ("before", before)):
        if value is not None:
            text_checks.check_instant(name, value)
    return after, before


def _event_type(name: str | None) -> str | None:
    return None if name is None else catalogue.check_event_type_name(name)


async def _listed(call: Call, where: DeadFilter, asked: DeadQuery) -> Response:
    page = page_of(asked)
    found = await call.store.dead_letters(where, page)
    places = [death(each.died_at, each.id) for each in found]
    return listing([wire.dead_letter(each) for each in found], places, page)


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
