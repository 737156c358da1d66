from __future__ import annotations

from hookline.api.call import Call
from hookline.api.operation import operation
from hookline.api.wire import authentication as wire
from hookline.api.wire.applications import new_application
from hookline.errors import InvalidInput
from hookline.model.actors import Scope
from hookline.services import applications, tokens
from hookline.web.authorize import Needs


@operation(
    "POST",
    "/auth/app-portal-access/{app_id}",
    "v1.authentication.app-portal-access",
    body_optional=True,
    whole=True,
    old_names=("/auth/dashboard-access/{app_id}",),
)
async def portal_access(call: Call, given: wire.AppPortalAccessIn) -> wire.AppPortalAccessOut:
    """Get a link that signs in to the portal of an application."""
    made = await call.run(
        applications.portal_link,
        call.path("app_id"),
        call.services.link_address(call.request),
        lifetime=wire.WEEK if given.expiry is None else given.expiry,
        scope=Scope.READ if given.read_only else Scope.FULL,
        publish=_may_publish(given),
        new=None if given.application is None else new_application(given.application),
    )
    return wire.AppPortalAccessOut(url=made.url, token=made.token)


def _may_publish(given: wire.AppPortalAccessIn) -> bool:
    capabilities = given.capabilities or ()
    if set(capabilities) - {wire.CREATE_MESSAGES}:
        raise InvalidInput(f"takes {wire.CREATE_MESSAGES} and no other; use readOnly for less", field="capabilities")
    if capabilities and given.read_only:
        raise InvalidInput(
            f"{wire.CREATE_MESSAGES} and readOnly contradict each other; leave one out", field="capabilities"
        )
    return bool(capabilities)


@operation("POST", "/auth/logout", "v1.authentication.logout", own=True, needs=Needs.READ)
async def logout(call: Call) -> None:
    """Revoke the token that this request uses. It must be a token of an application."""
    await call.run(tokens.revoke)


@operation("POST", "/auth/app/{app_id}/expire-all", "v1.authentication.expire-all", body_optional=True, whole=True)
async def expire_all(call: Call, given: wire.ApplicationTokenExpireIn) -> None:  # noqa: ARG001 - only checked
    """Revoke all tokens of an application that were issued until now."""
    await call.run(applications.end_portal, call.path("app_id"))


@operation("POST", "/auth/revoke-tokens", "v1.authentication.revoke-tokens", whole=True)
async def revoke_tokens(call: Call) -> None:
    """Revoke all tokens of the organization that were issued until now, including your own. API keys stay valid."""
    await call.run(tokens.revoke_all)
