from __future__ import annotations

from msgspec import UNSET
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
    new_application,
)
from hookline.api.wire.base import ListResponse
from hookline.errors import InvalidInput, NotFound
from hookline.model import Application, ApplicationChange
from hookline.rules.checks import catalogue
from hookline.services import manage
from hookline.web.authorize import Needs


class ApplicationsQuery(OrderedQuery, frozen=True, kw_only=True):
    exclude_apps_with_no_endpoints: NoFilter = None
    exclude_apps_with_disabled_endpoints: NoFilter = None
    exclude_apps_with_svix_play_endpoints: NoFilter = None


class CreateQuery(Query, frozen=True, kw_only=True):
    get_if_exists: bool = False


async def create(call: Call) -> Response:
    org_id = call.organization()
    given = await call.body(ApplicationIn)
    new = new_application(given, given.uid)
    if call.query(CreateQuery).get_if_exists:
        catalogue.check_application(new)  # also where it exists: what is asked for is never silently dropped
        call.app, made = await manage.get_or_add_application(call.store, org_id, new)
        return respond(application(call.app), 201 if made else 200)
    call.app = await manage.add_application(call.store, org_id, new)
    return respond(application(call.app), 201)


async def make_named(call: Call, uid: str, given: ApplicationIn | None) -> Application:
    """What the path names is not there: made, if the request says how."""
    if given is None or uid.startswith(ids.APP):
        raise NotFound(f"no application {uid!r}")
    if given.uid not in (None, uid):
        raise InvalidInput("must be the one in the path, or be left out", field="application.uid")
    made, _ = await manage.get_or_add_application(call.store, call.organization(), new_application(given, uid))
    return made


async def list_all(call: Call) -> Response:
    page = page_of(call.query(ApplicationsQuery), ids.APP)
    found = await call.store.applications(call.organization(), page)
    return listing([application(app) for app in found], [app.id for app in found], page)


async def show(call: Call) -> Response:
    return respond(application(await _find(call)))


async def put(call: Call) -> Response:
    given = await call.body(ApplicationUpdate)
    change = ApplicationChange(
        name=given.name, uid=given.uid, throttle_rate=given.throttle_rate or given.rate_limit, metadata=given.metadata
    )
    app, made = await manage.put_application(call.store, call.organization(), call.path("app_id"), change)
    call.app = app
    call.services.auth.forget_application(app)
    return respond(application(app), 201 if made else 200)


async def patch(call: Call) -> Response:
    app = await _find(call)
    given = await call.body(ApplicationPatch)
    rate = given.rate_limit if given.throttle_rate is UNSET else given.throttle_rate
    change = ApplicationChange(name=given.name, uid=given.uid, throttle_rate=rate, metadata=given.metadata)
    changed = await manage.change_application(call.store, app, change)
    call.services.auth.forget_application(changed)
    return respond(application(changed))


async def delete(call: Call) -> Response:
    app = await _find(call)
    await call.store.delete_application(app.no)
    call.services.auth.forget_application(app)
    return nothing()


async def _find(call: Call) -> Application:
    """As it is now: what other processes have changed is not remembered here."""
    ref = call.path("app_id")
    call.services.auth.reach(call.caller, ref)
    call.app = await manage.find_application(call.store, call.caller.org_id, ref)
    return call.app


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
