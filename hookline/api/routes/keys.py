from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import ListQuery, Operations
from hookline.api.wire import ListResponse
from hookline.api.wire.keys import ApiKeyIn, ApiKeyMadeOut, ApiKeyOut, api_key, api_key_made
from hookline.services import api_keys
from hookline.web.authorize import Needs

_ALL = "/api-key"
_ONE = f"{_ALL}/{{key_id}}"
# Every operation needs a full scope, even to read: other callers must not learn who holds which key.
OPERATIONS = Operations()


@OPERATIONS.post(_ALL, "v1.api-key.create", {201: ApiKeyMadeOut}, body=ApiKeyIn, whole=True)
async def create(call: Call) -> Response:
    """Make an API key, and show it once."""
    given = await call.body(ApiKeyIn)
    made, key = await api_keys.create(
        call.deps,
        call.caller,
        name=given.name,
        scope=given.scope,
        app=given.app_id,
        expires_at=given.expires_at,
    )
    return respond(api_key_made(made, key), 201)


@OPERATIONS.get(_ALL, "v1.api-key.list", ListResponse[ApiKeyOut], query=ListQuery, whole=True, needs=Needs.WRITE)
async def list_all(call: Call) -> Response:
    """List the API keys that were not revoked."""
    page = page_of(call.query(ListQuery), ids.API_KEY)
    found = await call.store.access.api_keys(call.organization(), page)
    return listing([api_key(each) for each in found], [each.id for each in found], page)


@OPERATIONS.get(_ONE, "v1.api-key.get", ApiKeyOut, whole=True, needs=Needs.WRITE)
async def show(call: Call) -> Response:
    """Show one API key."""
    return respond(api_key(await api_keys.find(call.deps, call.caller, call.path("key_id"))))


@OPERATIONS.delete(_ONE, "v1.api-key.revoke", whole=True)
async def revoke(call: Call) -> Response:
    """Revoke an API key, for good."""
    await api_keys.revoke(call.deps, call.caller, call.path("key_id"))
    return nothing()
