from __future__ import annotations

from starlette.responses import Response

from hookline import catalogue, manage
from hookline.api import wire
from hookline.api.call import Call, listing, one_more, respond
from hookline.model import NewApplication


async def create(call: Call) -> Response:
    org_id = call.whole_organization()
    given = await call.body(wire.ApplicationIn)
    new = NewApplication(
        name=given.name,
        uid=given.uid,
        throttle_rate=given.throttle_rate if given.throttle_rate is not None else given.rate_limit,
        metadata=given.metadata,
    )
    if call.flag("get_if_exists"):
        catalogue.check_application(new)  # also where it exists: what is asked for is never silently dropped
        app, made = await manage.get_or_add_application(call.store, org_id, new)
        return respond(wire.application(app), 201 if made else 200)
    return respond(wire.application(await manage.add_application(call.store, org_id, new)), 201)


async def list_all(call: Call) -> Response:
    org_id, page = call.whole_organization(), call.page()
    found = await call.store.applications(org_id, one_more(page))
    return listing([wire.application(app) for app in found], [app.id for app in found], page.limit)


async def show(call: Call) -> Response:
    return respond(wire.application(await call.application()))


ROUTES = [
    ("POST", "/app", create),
    ("GET", "/app", list_all),
    ("GET", "/app/{app_id}", show),
]
