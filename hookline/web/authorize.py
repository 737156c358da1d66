"""Decide whether a request is allowed: by its caller, its rate and its scope."""

from __future__ import annotations

import math
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace
from starlette.types import Scope

from hookline.errors import SignatureError
from hookline.model.callers import Caller
from hookline.web.context import WebContext
from hookline.web.errors import Refused
from hookline.web.middleware import header, record_of


class Needs(StrEnum):
    """The permission that an operation needs."""

    READ = "read"
    WRITE = "write"
    PUBLISH = "publish"  # create messages


class Access(Struct, frozen=True, kw_only=True):
    """The callers that a route allows."""

    needs: Needs = Needs.WRITE
    whole: bool = False  # if True, callers that are limited to one application get a 403
    operator: bool = False  # if True, callers of organizations other than the default one get a 403


async def admit(services: WebContext, access: Access, scope: Scope) -> Caller:
    """Authenticate and authorize a request. The body is not read yet."""
    caller = await identify(services, scope)
    record_of(scope).caller = caller
    services.limits.take(caller)
    services.auth.allow(caller, access.needs)
    if access.whole:
        services.auth.whole_organization(caller)
    if access.operator:
        services.auth.whole_deployment(caller)
    app_ref = scope.get("path_params", {}).get("app_id")
    if app_ref is not None:
        services.auth.reach(caller, app_ref)
    return caller


async def identify(services: WebContext, scope: Scope) -> Caller:
    """Return the caller. A valid token is accepted even if many invalid ones came from the same address."""
    try:
        caller = await services.auth.caller(header(scope["headers"], b"authorization") or b"")
        return replace(caller, address=_address(scope))
    except SignatureError:
        wait = services.limits.take_bad_token(_address(scope))
        services.tally.bad_credentials(429 if wait else 401)
        if not wait:
            raise
        words = "too many bad tokens or keys from your address; slow down"
        raise Refused(429, words, retry_after=math.ceil(wait)) from None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
