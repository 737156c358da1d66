from __future__ import annotations

from base64 import urlsafe_b64encode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hookline.api.call import Call, nothing, respond
from hookline.api.operation import Operation
from hookline.api.routes.applications import make_named
from hookline.api.wire.authentication import (
    CREATE_MESSAGES,
    WEEK,
    ApplicationTokenExpireIn,
    AppPortalAccessIn,
    AppPortalAccessOut,
)
from hookline.errors import InvalidInput
from hookline.model import Application, Scope
from hookline.web.authorize import Needs
from hookline.web.context import WebContext
from hookline.web.errors import Refused
from hookline.web.public_url import links_lead_to


async def portal_access(call: Call) -> Response:
    """A link that signs in by itself. The token is in its fragment, which stays in the browser and out of every log."""
    ref = call.path("app_id")
    app = await call.store.application(call.organization(), ref)
    given = await call.body(AppPortalAccessIn)
    publish = _may_publish(given)
    address = link_address(call.services, call.request)  # before anything is made
    if app is None:
        app = await make_named(call, ref, given.application)
    call.app = app
    scope = Scope.READ if given.read_only else Scope.FULL
    lifetime = given.expiry or WEEK
    return respond(portal_link(call.services, address, app, lifetime=lifetime, scope=scope, publish=publish))


def _may_publish(given: AppPortalAccessIn) -> bool:
    capabilities = given.capabilities or ()
    if set(capabilities) - {CREATE_MESSAGES}:
        raise InvalidInput(f"takes {CREATE_MESSAGES} and no other; use readOnly for less", field="capabilities")
    if capabilities and given.read_only:
        raise InvalidInput(f"{CREATE_MESSAGES} and readOnly contradict each other; leave one out", field="capabilities")
    return bool(capabilities)


def portal_link(
    services: WebContext, address: str, app: Application, *, lifetime: float, scope: Scope, publish: bool = False
) -> AppPortalAccessOut:
    token = services.auth.issue(app, lifetime=lifetime, scope=scope, publish=publish)
    login = urlsafe_b64encode(msgspec.json.encode({"appId": app.id, "token": token})).rstrip(b"=").decode()
    return AppPortalAccessOut(url=f"{address}/login#key={login}", token=token)


def link_address(services: WebContext, request: Request) -> str:
    host = request.headers.get("host", "")
    return links_lead_to(services.public_url, local=services.local, scheme=request.url.scheme, host=host)


async def logout(call: Call) -> Response:
    if call.caller.token is not None and call.caller.app is None:
        raise Refused(403, "an organization's token is not logged out by its holder: POST /api/v1/auth/revoke-tokens")
    await call.services.auth.revoke(call.caller)
    return nothing()


async def expire_all(call: Call) -> Response:
    app = await call.application()
    await call.body(ApplicationTokenExpireIn)
    await call.services.auth.revoke_all(app.org_id, app)
    return nothing()


async def revoke_tokens(call: Call) -> Response:
    await call.services.auth.revoke_all(call.organization(), None)
    return nothing()


OPERATIONS = [
    Operation(
        name="v1.authentication.app-portal-access",
        method="POST",
        path="/auth/app-portal-access/{app_id}",
        handler=portal_access,
        summary="Get a link that signs an application's people in to their portal.",
        body=AppPortalAccessIn,
        body_optional=True,
        answers={200: AppPortalAccessOut},
        whole=True,
        old_names=("/auth/dashboard-access/{app_id}",),
    ),
    Operation(
        name="v1.authentication.logout",
        method="POST",
        path="/auth/logout",
        handler=logout,
        summary="Give up the application's token that this request is made with.",
        answers={204: None},
        needs=Needs.READ,
        own=True,
    ),
    Operation(
        name="v1.authentication.expire-all",
        method="POST",
        path="/auth/app/{app_id}/expire-all",
        handler=expire_all,
        summary="Revoke every token of an application that was issued until now.",
        body=ApplicationTokenExpireIn,
        body_optional=True,
        answers={204: None},
        whole=True,
    ),
    Operation(
        name="v1.authentication.revoke-tokens",
        method="POST",
        path="/auth/revoke-tokens",
        handler=revoke_tokens,
        summary="Revoke every token of the organization that was issued until now, this one too. API keys stay.",
        answers={204: None},
        whole=True,
    ),
]
