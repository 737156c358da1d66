from __future__ import annotations

from starlette.responses import Response

from hookline import manage
from hookline.api import wire
from hookline.api.call import Call, listing, page_of, respond
from hookline.api.operation import ListQuery, Needs, Operation
from hookline.model import NewEndpoint, Secret
from hookline.states import EndpointStatus


async def create(call: Call) -> Response:
    app = await call.application()
    new = _new(await call.body(wire.EndpointIn))
    made = await manage.add_endpoint(call.store, call.services.guard, app, new)
    return respond(wire.endpoint(made), 201)


def _new(given: wire.EndpointIn) -> NewEndpoint:
    return NewEndpoint(
        url=given.url,
        uid=given.uid,
        description=given.description,
        version=given.version,
        event_types=given.event_types if given.event_types is not None else given.filter_types,
        channels=given.channels,
        status=EndpointStatus.DISABLED if given.disabled else EndpointStatus.ACTIVE,
        throttle_rate=given.throttle_rate if given.throttle_rate is not None else given.rate_limit,
        concurrency=given.concurrency,
        ordering=given.ordering,
        scheme=given.scheme,
        secrets=() if given.secret is None else (Secret(key=given.secret),),
        headers=given.headers,
        metadata=given.metadata,
        policy=None if given.policy is None else given.policy.override(),
    )


async def list_all(call: Call) -> Response:
    app, page = await call.application(), page_of(call.query(ListQuery))
    found = await call.store.endpoints(app.no, page)
    return listing([wire.endpoint(each) for each in found], [each.id for each in found], page)


async def show(call: Call) -> Response:
    app = await call.application()
    return respond(wire.endpoint(await manage.find_endpoint(call.store, app, call.path("endpoint_id"))))


_ALL = "/app/{app_id}/endpoint"
_ONE = f"{_ALL}/{{endpoint_id}}"

OPERATIONS = [
    Operation(
        name="v1.endpoint.create",
        method="POST",
        path=_ALL,
        handler=create,
        summary="Create an endpoint.",
        body=wire.EndpointIn,
        answers={201: wire.EndpointOut},
    ),
    Operation(
        name="v1.endpoint.list",
        method="GET",
        path=_ALL,
        handler=list_all,
        summary="List the endpoints of an application.",
        query=ListQuery,
        answers={200: wire.ListResponse[wire.EndpointOut]},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.endpoint.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one endpoint.",
        answers={200: wire.EndpointOut},
        needs=Needs.READ,
    ),
]
