from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import NoFilter, Operations, OrderedQuery, Query
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

_ALL = "/app"
_ONE = f"{_ALL}/{{app_id}}"
OPERATIONS = Operations()


class ApplicationsQuery(OrderedQuery, frozen=True, kw_only=True):
    exclude_apps_with_no_endpoints: NoFilter = None
    exclude_apps_with_disabled_endpoints: NoFilter = None
    exclude_apps_with_svix_play_endpoints: NoFilter = None


class CreateQuery(Query, frozen=True, kw_only=True):
    get_if_exists: bool = False


@OPERATIONS.post(
    _ALL,
    "v1.application.create",
    {201: ApplicationOut, 200: ApplicationOut},
    body=ApplicationIn,
    query=CreateQuery,
    whole=True,
)
async def create(call: Call) -> Response:
    """Create an application."""
    new = new_application(await call.body(ApplicationIn))
    if call.query(CreateQuery).get_if_exists:
        app, made = await applications.get_or_create(call.deps, call.caller, new)
        return respond(application(app), 201 if made else 200)
    return respond(application(await applications.create(call.deps, call.caller, new)), 201)


@OPERATIONS.get(_ALL, "v1.application.list", ListResponse[ApplicationOut], query=ApplicationsQuery, whole=True)
async def list_all(call: Call) -> Response:
    """List the applications."""
    page = page_of(call.query(ApplicationsQuery), ids.APP)
    found = await call.store.catalogue.applications(call.organization(), page)
    return listing([application(app) for app in found], [app.id for app in found], page)


@OPERATIONS.get(_ONE, "v1.application.get", ApplicationOut)
async def show(call: Call) -> Response:
    """Show one application."""
    return respond(application(await lookup.application(call.deps, call.caller, call.path("app_id"))))


@OPERATIONS.put(
    _ONE, "v1.application.update", {200: ApplicationOut, 201: ApplicationOut}, body=ApplicationUpdate, whole=True
)
async def put(call: Call) -> Response:
    """Replace an application, or create one with that uid."""
    change = application_change(await call.body(ApplicationUpdate))
    app, made = await applications.put(call.deps, call.caller, call.path("app_id"), change)
    return respond(application(app), 201 if made else 200)


@OPERATIONS.patch(_ONE, "v1.application.patch", ApplicationOut, body=ApplicationPatch, whole=True)
async def patch(call: Call) -> Response:
    """Change parts of an application."""
    change = application_change(await call.body(ApplicationPatch))
    return respond(application(await applications.change(call.deps, call.caller, call.path("app_id"), change)))


@OPERATIONS.delete(_ONE, "v1.application.delete", whole=True)
async def delete(call: Call) -> Response:
    """Delete an application with its endpoints."""
    await applications.delete(call.deps, call.caller, call.path("app_id"))
    return nothing()
