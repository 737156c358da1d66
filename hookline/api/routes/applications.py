from __future__ import annotations

from starlette.responses import Response

from hookline import catalogue, manage
from hookline.api import wire
from hookline.api.call import Call, listing, page_of, respond
from hookline.api.operation import ListQuery, Needs, Operation, Query
from hookline.model import NewApplication


class CreateQuery(Query, frozen=True, kw_only=True):
    get_if_exists: bool = False


async def create(call: Call) -> Response:
    org_id = call.organization()
    given = await call.body(wire.ApplicationIn)
    new = NewApplication(
        name=given.name,
        uid=given.uid,
        throttle_rate=given.throttle_rate if given.throttle_rate is not None else given.rate_limit,
        metadata=given.metadata,
    )
    if call.query(CreateQuery).get_if_exists:
        catalogue.check_application(new)  # also where it exists: what is asked for is never silently dropped
        app, made = await manage.get_or_add_application(call.store, org_id, new)
        return respond(wire.application(app), 201 if made else 200)
    return respond(wire.application(await manage.add_application(call.store, org_id, new)), 201)


async def list_all(call: Call) -> Response:
    page = page_of(call.query(ListQuery))
    found = await call.store.applications(call.organization(), page)
    return listing([wire.application(app) for app in found], [app.id for app in found], page)


async def show(call: Call) -> Response:
    return respond(wire.application(await call.application()))


_ONE = "/app/{app_id}"

OPERATIONS = [
    Operation(
        name="v1.application.create",
        method="POST",
        path="/app",
        handler=create,
        summary="Create an application.",
        body=wire.ApplicationIn,
        query=CreateQuery,
        answers={201: wire.ApplicationOut, 200: wire.ApplicationOut},
        whole=True,
    ),
    Operation(
        name="v1.application.list",
        method="GET",
        path="/app",
        handler=list_all,
        summary="List the applications.",
        query=ListQuery,
        answers={200: wire.ListResponse[wire.ApplicationOut]},
        needs=Needs.READ,
        whole=True,
    ),
    Operation(
        name="v1.application.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one application.",
        answers={200: wire.ApplicationOut},
        needs=Needs.READ,
    ),
]
