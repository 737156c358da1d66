from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import ListQuery, Operation
from hookline.api.wire import ListResponse
from hookline.api.wire.keys import ApiKeyIn, ApiKeyMadeOut, ApiKeyOut, api_key, api_key_made
from hookline.services import api_keys


async def create(call: Call) -> Response:
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


async def list_all(call: Call) -> Response:
    page = page_of(call.query(ListQuery), ids.API_KEY)
    found = await call.store.api_keys(call.organization(), page)
    return listing([api_key(each) for each in found], [each.id for each in found], page)


async def show(call: Call) -> Response:
    return respond(api_key(await api_keys.find(call.deps, call.caller, call.path("key_id"))))


async def revoke(call: Call) -> Response:
    await api_keys.revoke(call.deps, call.caller, call.path("key_id"))
    return nothing()


_ALL = "/api-key"
_ONE = f"{_ALL}/{{key_id}}"

# All of them need a full scope, the reading ones too: who holds which key is nobody else's business.
OPERATIONS = [
    Operation(
        name="v1.api-key.create",
        method="POST",
        path=_ALL,
        handler=create,
        summary="Make an API key, and show it once.",
        body=ApiKeyIn,
        answers={201: ApiKeyMadeOut},
        whole=True,
    ),
    Operation(
        name="v1.api-key.list",
        method="GET",
        path=_ALL,
        handler=list_all,
        summary="List the API keys that were not revoked.",
        query=ListQuery,
        answers={200: ListResponse[ApiKeyOut]},
        whole=True,
    ),
    Operation(
        name="v1.api-key.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one API key.",
        answers={200: ApiKeyOut},
        whole=True,
    ),
    Operation(
        name="v1.api-key.revoke",
        method="DELETE",
        path=_ONE,
        handler=revoke,
        summary="Revoke an API key, for good.",
        answers={204: None},
        whole=True,
    ),
]
