from __future__ import annotations

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.operation import ListQuery, operation
from hookline.api.wire import keys as wire
from hookline.api.wire.base import ListResponse
from hookline.services import api_keys
from hookline.web.authorize import Needs

_ALL = "/api-key"
_ONE = f"{_ALL}/{{key_id}}"
# Every operation needs a full scope, even to read, because other callers must not learn which keys exist.


@operation("POST", _ALL, "v1.api-key.create", status=201, whole=True)
async def create(call: Call, given: wire.ApiKeyIn) -> wire.ApiKeyMadeOut:
    """Create an API key. The response shows the key; later responses do not."""
    made, key = await call.run(
        api_keys.create,
        name=given.name,
        scope=given.scope,
        app=given.app_id,
        expires_at=given.expires_at,
    )
    return wire.api_key_made(made, key)


@operation("GET", _ALL, "v1.api-key.list", whole=True, needs=Needs.WRITE)
async def list_all(call: Call, asked: ListQuery) -> ListResponse[wire.ApiKeyOut]:
    """List the API keys that were not revoked."""
    page = page_of(asked, ids.API_KEY)
    return listing(await call.store.access.api_keys(call.caller.org_id, page), page, wire.api_key)


@operation("GET", _ONE, "v1.api-key.get", whole=True, needs=Needs.WRITE)
async def show(call: Call) -> wire.ApiKeyOut:
    """Show one API key."""
    return wire.api_key(await call.run(api_keys.find, call.path("key_id")))


@operation("DELETE", _ONE, "v1.api-key.revoke", whole=True)
async def revoke(call: Call) -> None:
    """Revoke an API key permanently."""
    await call.run(api_keys.revoke, call.path("key_id"))
