from __future__ import annotations

from starlette.responses import Response

from hookline import manage
from hookline.api.call import Call, respond
from hookline.api.operation import Needs, Operation
from hookline.api.routes.endpoints import find
from hookline.api.wire.endpoints import CauseIn, EndpointHealthOut, endpoint_health
from hookline.errors import NotFound
from hookline.flow.lane import next_start
from hookline.model import Endpoint

EVENTS = 20  # of the timeline that are shown


async def health(call: Call) -> Response:
    return await _shown(call, await find(call))


async def pause(call: Call) -> Response:
    found = await find(call)
    cause = (await call.body(CauseIn)).cause or "paused through the API"
    return await _shown(call, await manage.pause_endpoint(call.store, found, cause))


async def resume(call: Call) -> Response:
    found = await find(call)
    cause = (await call.body(CauseIn)).cause or "resumed through the API"
    return await _shown(call, await manage.resume_endpoint(call.store, found, cause))


async def reset_circuit(call: Call) -> Response:
    found = await find(call)
    cause = (await call.body(CauseIn)).cause or "reset through the API"
    await manage.reset_circuit(call.store, found, cause)
    return await _shown(call, found)


async def _shown(call: Call, found: Endpoint) -> Response:
    view = await call.store.lane_view(found.no)
    if view is None:
        raise NotFound(f"no endpoint {found.id!r}")
    return respond(
        endpoint_health(
            view,
            reason=found.status_reason,
            in_flight=await call.store.in_flight(found.no),
            next_start_at=next_start(view.lane, now=await call.store.now(), policy=call.services.circuit),
            events=await call.store.lane_events(found.no, EVENTS),
        )
    )


_ONE = "/app/{app_id}/endpoint/{endpoint_id}"

OPERATIONS = [
    Operation(
        name="v1.lane.health",
        method="GET",
        path=f"{_ONE}/health",
        handler=health,
        summary="Show what governs an endpoint's deliveries: circuit, backlog, limits, last events.",
        answers={200: EndpointHealthOut},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.lane.pause",
        method="POST",
        path=f"{_ONE}/pause",
        handler=pause,
        summary="Hold everything for this endpoint until it is resumed.",
        body=CauseIn,
        body_optional=True,
        answers={200: EndpointHealthOut},
    ),
    Operation(
        name="v1.lane.resume",
        method="POST",
        path=f"{_ONE}/resume",
        handler=resume,
        summary="Send again to a paused or disabled endpoint.",
        body=CauseIn,
        body_optional=True,
        answers={200: EndpointHealthOut},
    ),
    Operation(
        name="v1.lane.reset-circuit",
        method="POST",
        path=f"{_ONE}/circuit/reset",
        handler=reset_circuit,
        summary="Close the circuit and forget failures: the endpoint is well again.",
        body=CauseIn,
        body_optional=True,
        answers={200: EndpointHealthOut},
    ),
]
