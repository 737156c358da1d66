"""API keys: create and revoke them."""

from __future__ import annotations

from datetime import datetime

from hookline.errors import NoSuch
from hookline.model import ApiKey, NewApiKey, Scope
from hookline.model.callers import Caller
from hookline.rules.checks import catalogue
from hookline.security import api_keys
from hookline.services import audit, lookup
from hookline.services.deps import Deps


async def create(
    deps: Deps,
    by: Caller,
    *,
    name: str,
    scope: Scope,
    app: str | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """The stored record, and the key itself, which is shown this once: only its hash is kept."""
    key = api_keys.make()
    new = NewApiKey(
        name=name,
        scope=scope,
        hash=api_keys.hashed(key),
        hint=api_keys.hint(key),
        app_no=None if app is None else (await lookup.application(deps, by, app)).no,
        expires_at=expires_at,
    )
    making = deps.store.create_api_key(by.org_id, catalogue.check_api_key(new, deps.wall()))
    detail = f"{name}, {scope.value}"
    made = await audit.noted(
        deps, making, lambda made: audit.entry(by, "api_key.create", made.id, app_id=made.app_id, detail=detail)
    )
    return made, key


async def find(deps: Deps, by: Caller, key_id: str) -> ApiKey:
    found = await deps.store.api_key(by.org_id, key_id) if lookup.storable(key_id) else None
    if found is None:
        raise NoSuch("API key", key_id)
    return found


async def revoke(deps: Deps, by: Caller, key_id: str) -> ApiKey:
    """For good."""
    found = await find(deps, by, key_id)
    revoking = deps.store.revoke_api_key(by.org_id, found.id)
    await audit.noted(
        deps,
        revoking,
        lambda _: audit.entry(by, "api_key.revoke", found.id, app_id=found.app_id, detail=found.name),
    )
    deps.forget_callers(lambda known: known.key_id == found.id)
    return found
