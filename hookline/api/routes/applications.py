from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import NoFilter, Operation, OrderedQuery, Query
from hookline.api.wire.applications import (
    ApplicationIn,
    ApplicationOut,
    ApplicationPatch,
    ApplicationUpdate,
    application,
    application_change,
    new_application,
)
from hookline.api.wire.base import ListResponse
from hookline.services import applications, lookup
from hookline.web.authorize import Needs


class ApplicationsQuery(OrderedQuery, frozen=True, kw_only=True):
    exclude_apps_with_no_endpoints: NoFilter = None
    exclude_apps_with_disabled_endpoints: NoFilter = None
    exclude_apps_with_svix_play_endpoints: NoFilter = None


class CreateQuery(Query, frozen=True, kw_only=True):
    get_if_exists: bool = False


async def create(call: Call) -> Response:
    new = new_application(await call.body(ApplicationIn))
    if call.query(CreateQuery).get_if_exists:
        app, made = await applications.get_or_create(call.deps, call.caller, new)
        return respond(application(app), 201 if made else 200)
    return respond(application(await applications.create(call.deps, call.caller, new)), 201)


async def list_all(call: Call) -> Response:
    page = page_of(call.query(ApplicationsQuery), ids.APP)
    found = await call.store.applications(call.organization(), page)
    return listing([application(app) for app in found], [app.id for app in found], page)


async def show(call: Call) -> Response:
    return respond(application(await lookup.application(call.deps, call.caller, call.path("app_id"))))


async def put(call: Call) -> Response:
    change = application_change(await call.body(ApplicationUpdate))
    app, made = await applications.put(call.deps, call.caller, call.path("app_id"), change)
    return respond(application(app), 201 if made else 200)


async def patch(call: Call) -> Response:
    change = application_change(await call.body(ApplicationPatch))
    return respond(application(await applications.change(call.deps, call.caller, call.path("app_id"), change)))


async def delete(call: Call) -> Response:
    await applications.delete(call.deps, call.caller, call.path("app_id"))
    return nothing()


_ALL = "/app"
_ONE = f"{_ALL}/{{app_id}}"

OPERATIONS = [
    Operation(
        name="v1.application.create",
        method="POST",
        path=_ALL,
        handler=create,
        summary="Create an application.",
        body=ApplicationIn,
        query=CreateQuery,
        answers={201: ApplicationOut, 200: ApplicationOut},
        whole=True,
    ),
    Operation(
        name="v1.application.list",
        method="GET",
        path=_ALL,
        handler=list_all,
        summary="List the applications.",
        query=ApplicationsQuery,
        answers={200: ListResponse[ApplicationOut]},
        needs=Needs.READ,
        whole=True,
    ),
    Operation(
        name="v1.application.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one application.",
        answers={200: ApplicationOut},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.application.update",
        method="PUT",
        path=_ONE,
        handler=put,
        summary="Replace an application, or create one with that uid.",
        body=ApplicationUpdate,
        answers={200: ApplicationOut, 201: ApplicationOut},
        whole=True,
    ),
    Operation(
        name="v1.application.patch",
        method="PATCH",
        path=_ONE,
        handler=patch,
        summary="Change parts of an application.",
        body=ApplicationPatch,
        answers={200: ApplicationOut},
        whole=True,
    ),
    Operation(
        name="v1.application.delete",
        method="DELETE",
        path=_ONE,
        handler=delete,
        summary="Delete an application with its endpoints.",
        answers={204: None},
        whole=True,
    ),
]
