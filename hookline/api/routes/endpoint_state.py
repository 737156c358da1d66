from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from msgspec import Meta

from hookline.api.call import Call, listing, page_of
from hookline.api.operation import ListQuery, operation
from hookline.api.wire import endpoints as wire
from hookline.api.wire.base import Instant, ListResponse, doc, fill
from hookline.errors import InvalidInput, NoSuch
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEvent, LaneEventFilter, LaneEventKind
from hookline.rules.checks import text as text_checks
from hookline.rules.lane.admission import next_start
from hookline.services import endpoint_state

EVENTS = 20  # maximum number of timeline events in the health response, newest first

_ONE = "/app/{app_id}/endpoint/{endpoint_id}"


# ── read the delivery state ───────────────────────────────────────────────────────────────────────────────────────


@operation("GET", f"{_ONE}/health", "v1.lane.health")
async def health(call: Call) -> wire.EndpointHealthOut:
    """Show the delivery state of an endpoint: circuit, backlog, limits, latest events."""
    return await _health(call, await call.endpoint())


async def _health(call: Call, found: Endpoint) -> wire.EndpointHealthOut:
    view = await call.store.history.lane_view(found.no)
    if view is None:
        raise NoSuch("endpoint", found.id)
    return fill(
        wire.EndpointHealthOut,
        wire.lane(view),
        view.lane,
        status_reason=found.status_reason,
        throttle_rate=wire.rate(view.lane.throttle_rate),
        in_flight=await call.store.monitoring.in_flight(found.no),
        next_start_at=next_start(view.lane, now=await call.store.now(), policy=call.services.circuit),
        events=[_event(call, event) for event in await call.store.history.lane_events(found.no, EVENTS)],
    )


def _event(call: Call, event: LaneEvent) -> wire.LaneEventOut:
    return wire.lane_event(event, named=call.caller.app is None)


Kinds = Annotated[tuple[LaneEventKind, ...], Meta(min_length=1, max_length=len(LaneEventKind))]


class TimelineQuery(ListQuery, frozen=True, kw_only=True):
    kind: Annotated[Kinds | None, doc("Return only events of one of these kinds.")] = None
    since: Annotated[Instant | None, doc("Return only events at or after this instant.")] = None
    until: Annotated[Instant | None, doc("Return only events before this instant.")] = None


@operation("GET", f"{_ONE}/timeline", "v1.lane.timeline")
async def timeline(call: Call, asked: TimelineQuery) -> ListResponse[wire.LaneEventOut]:
    """List the changes of an endpoint's circuit, status and pace, with cause and actor, newest first."""
    found = await call.endpoint()
    for name, value in (("since", asked.since), ("until", asked.until)):
        if value is not None:
            text_checks.check_instant(name, value)
    where, page = LaneEventFilter(kinds=asked.kind, since=asked.since, until=asked.until), page_of(asked)
    entries = await call.store.history.timeline(found.no, where, page)
    return listing(entries, page, lambda entry: _event(call, entry.event))


# ── change the delivery state ─────────────────────────────────────────────────────────────────────────────────────


@operation("POST", f"{_ONE}/pause", "v1.lane.pause", body_optional=True)
async def pause(call: Call, given: wire.CauseIn) -> wire.EndpointHealthOut:
    """Pause an endpoint. Its deliveries wait until it is resumed."""
    return await _health(call, await call.run(endpoint_state.pause, call.endpoint_ref, given.cause))


@operation("POST", f"{_ONE}/resume", "v1.lane.resume", body_optional=True)
async def resume(call: Call, given: wire.ResumeIn) -> wire.ResumedOut:
    """Resume a paused or disabled endpoint. If asked to, also send the messages that it missed."""
    done = await call.run(endpoint_state.resume, call.endpoint_ref, given.cause, replay_missing=given.replay_missing)
    return wire.resumed(await _health(call, done.endpoint), done.missed)


@operation("POST", f"{_ONE}/circuit/open", "v1.lane.open-circuit", body_optional=True)
async def open_circuit(call: Call, given: wire.OpenIn) -> wire.EndpointHealthOut:
    """Open the circuit: send nothing until the given time, and then one probe."""
    if given.seconds is not None and given.until is not None:
        raise InvalidInput("give either seconds or until", field="seconds")
    until = given.until if given.seconds is None else timedelta(seconds=given.seconds)
    done = await call.run(endpoint_state.open_circuit, call.endpoint_ref, given.cause, until=until)
    return await _health(call, done.endpoint)


@operation("POST", f"{_ONE}/circuit/close", "v1.lane.close-circuit", body_optional=True)
async def close_circuit(call: Call, given: wire.CauseIn) -> wire.EndpointHealthOut:
    """Close an open circuit slowly: start at a low rate that doubles with successes, as after a good probe."""
    done = await call.run(endpoint_state.close_circuit, call.endpoint_ref, given.cause)
    return await _health(call, done.endpoint)


@operation("POST", f"{_ONE}/circuit/reset", "v1.lane.reset-circuit", body_optional=True)
async def reset_circuit(call: Call, given: wire.CauseIn) -> wire.EndpointHealthOut:
    """Close the circuit at once, and forget earlier failures."""
    done = await call.run(endpoint_state.reset_circuit, call.endpoint_ref, given.cause)
    return await _health(call, done.endpoint)
