"""API keys: create and revoke them."""

from __future__ import annotations

from datetime import datetime

from hookline.errors import NoSuch
from hookline.model.actors import ApiKey, NewApiKey, Scope
from hookline.model.audit import NewAuditEntry
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
    """Create a key. Return its record and the key itself. The key can be shown only now, because only its hash is
    stored."""
    key = api_keys.make()
    new = NewApiKey(
        name=name,
        scope=scope,
        hash=api_keys.hashed(key),
        hint=api_keys.hint(key),
        app_no=None if app is None else (await lookup.application(deps, by, app)).no,
        expires_at=expires_at,
    )
    checked = catalogue.check_api_key(new, deps.wall())
    made = await deps.store.access.create_api_key(
        by.org_id, checked, note=lambda made: _entry(by, "create", made, f"{name}, {scope.value}")
    )
    return made, key


async def find(deps: Deps, by: Caller, key_id: str) -> ApiKey:
    found = await deps.store.access.api_key(by.org_id, key_id) if lookup.storable(key_id) else None
    if found is None:
        raise NoSuch("API key", key_id)
    return found


async def revoke(deps: Deps, by: Caller, key_id: str) -> ApiKey:
    """Revoke a key permanently."""
    found = await find(deps, by, key_id)
    await deps.store.access.revoke_api_key(by.org_id, found.id, note=lambda _: _entry(by, "revoke", found, found.name))
    deps.forget_callers(lambda known: known.key_id == found.id)
    return found


def _entry(by: Caller, verb: str, key: ApiKey, detail: str) -> NewAuditEntry:
    return audit.entry(by, f"api_key.{verb}", key.id, app_id=key.app_id, detail=detail)
