from __future__ import annotations

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.operation import NoFilter, OrderedQuery, Query, operation
from hookline.api.wire import applications as wire
from hookline.api.wire.base import ListResponse
from hookline.services import applications, lookup

_ALL = "/app"
_ONE = f"{_ALL}/{{app_id}}"


class ApplicationsQuery(OrderedQuery, frozen=True, kw_only=True):
    exclude_apps_with_no_endpoints: NoFilter = None
    exclude_apps_with_disabled_endpoints: NoFilter = None
    exclude_apps_with_svix_play_endpoints: NoFilter = None


class CreateQuery(Query, frozen=True, kw_only=True):
    get_if_exists: bool = False


@operation("POST", _ALL, "v1.application.create", status=(201, 200), whole=True)
async def create(call: Call, asked: CreateQuery, given: wire.ApplicationIn) -> wire.ApplicationOut:
    """Create an application."""
    new = wire.new_application(given)
    if not asked.get_if_exists:
        return wire.application(await call.run(applications.create, new))
    app, made = await call.run(applications.get_or_create, new)
    call.status = 201 if made else 200
    return wire.application(app)


@operation("GET", _ALL, "v1.application.list", whole=True)
async def list_all(call: Call, asked: ApplicationsQuery) -> ListResponse[wire.ApplicationOut]:
    """List the applications."""
    page = page_of(asked, ids.APP)
    return listing(await call.store.catalogue.applications(call.caller.org_id, page), page, wire.application)


@operation("GET", _ONE, "v1.application.get")
async def show(call: Call) -> wire.ApplicationOut:
    """Show one application."""
    return wire.application(await call.run(lookup.application, call.path("app_id")))


@operation("PUT", _ONE, "v1.application.update", status=(200, 201), whole=True)
async def put(call: Call, given: wire.ApplicationUpdate) -> wire.ApplicationOut:
    """Replace an application, or create one with the uid in the path."""
    app, made = await call.run(applications.put, call.path("app_id"), wire.application_change(given))
    call.status = 201 if made else 200
    return wire.application(app)


@operation("PATCH", _ONE, "v1.application.patch", whole=True)
async def patch(call: Call, given: wire.ApplicationPatch) -> wire.ApplicationOut:
    """Change parts of an application."""
    change = wire.application_change(given)
    return wire.application(await call.run(applications.change, call.path("app_id"), change))


@operation("DELETE", _ONE, "v1.application.delete", whole=True)
async def delete(call: Call) -> None:
    """Delete an application with its endpoints."""
    await call.run(applications.delete, call.path("app_id"))
