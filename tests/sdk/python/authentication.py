from __future__ import annotations

import sdk
from svix import api
from world import World, ids


def a_portal_token_reaches_one_application(world: World) -> None:
    svix, app, stranger = world.svix, world.application(), world.application()
    access = svix.authentication.app_portal_access(app.id, api.AppPortalAccessIn())
    assert access.url.startswith(world.server)
    portal = world.client(access.token)
    endpoint = portal.endpoint.create(app.id, api.EndpointIn(url=world.receiver.url(world.path())))
    assert ids(svix.endpoint.list(app.id).data) == [endpoint.id]
    assert portal.application.get(app.id).id == app.id
    sdk.refused(404, "not_found", portal.application.get, stranger.id)
    sdk.refused(404, "not_found", portal.endpoint.list, stranger.id)
    sdk.refused(403, "insufficient_access", portal.application.list)
    assert portal.authentication.logout() is None
    sdk.refused(401, "authentication_failed", portal.application.get, app.id)
    assert svix.application.get(app.id).id == app.id


def the_portal_makes_its_application(world: World) -> None:
    svix, uid = world.svix, world.fresh("portal")
    wanted = api.AppPortalAccessIn(application=api.ApplicationIn(name="Made for the portal", uid=uid))
    access = svix.authentication.app_portal_access(uid, wanted)
    assert world.client(access.token).application.get(uid).name == "Made for the portal"
    sdk.refused(404, "not_found", svix.authentication.app_portal_access, "nobody", api.AppPortalAccessIn())


def a_portal_that_only_reads(world: World) -> None:
    svix, app = world.svix, world.application()
    access = svix.authentication.app_portal_access(app.id, api.AppPortalAccessIn(read_only=True, expiry=3600))
    portal = world.client(access.token)
    assert portal.endpoint.list(app.id).data == []
    new = api.EndpointIn(url=world.receiver.url(world.path()))
    sdk.refused(403, "insufficient_access", portal.endpoint.create, app.id, new)


def the_name_that_the_portal_had(world: World) -> None:
    """Only the older generation of the SDK has the method `dashboard_access`."""
    if hasattr(api.Authentication, "dashboard_access"):
        app = world.application()
        access = world.svix.authentication.dashboard_access(app.id)
        assert world.client(access.token).application.get(app.id) == app


def every_token_of_an_application_expires(world: World) -> None:
    svix, app = world.svix, world.application()
    portals = [
        world.client(svix.authentication.app_portal_access(app.id, api.AppPortalAccessIn()).token) for _ in range(2)
    ]
    assert {portal.application.get(app.id).id for portal in portals} == {app.id}
    svix.authentication.expire_all(app.id, api.ApplicationTokenExpireIn())
    for portal in portals:
        sdk.refused(401, "authentication_failed", portal.application.get, app.id)


CHECKS = (
    a_portal_token_reaches_one_application,
    the_portal_makes_its_application,
    a_portal_that_only_reads,
    the_name_that_the_portal_had,
    every_token_of_an_application_expires,
)
