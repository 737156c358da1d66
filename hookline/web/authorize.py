"""The one place where it is decided whether a request may come in: who calls, how often, with what scope."""

from __future__ import annotations

import math

from msgspec.structs import replace
from starlette.types import Scope

from hookline.api.operation import Operation
from hookline.errors import SignatureError
from hookline.model.callers import Caller
from hookline.web.context import WebContext
from hookline.web.errors import Refused
from hookline.web.middleware import record_of


async def admit(services: WebContext, operation: Operation, scope: Scope) -> Caller:
    """Before anything of the body is read, and before anything is looked up that the path names."""
    caller = await identify(services, scope)
    record_of(scope).caller = caller
    services.limits.take(caller)
    services.auth.allow(caller, operation.needs)
    if operation.whole:
        services.auth.whole_organization(caller)
    if operation.operator:
        services.auth.whole_deployment(caller)
    app_ref = scope.get("path_params", {}).get("app_id")
    if app_ref is not None:
        services.auth.reach(caller, app_ref)
    return caller


async def identify(services: WebContext, scope: Scope) -> Caller:
    """Who calls. Whoever has a good token is let in, however many bad ones came from the same address."""
    try:
        return replace(await services.auth.caller(_authorization(scope)), address=_address(scope))
    except SignatureError:
        wait = services.limits.stranger(_address(scope))
        services.tally.stranger(429 if wait else 401)
        if not wait:
            raise
        words = "too many bad tokens or keys from your address; slow down"
        raise Refused(429, words, retry_after=math.ceil(wait)) from None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _authorization(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            text: str = value.decode("latin-1")
            return text
    return None
