from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import Operation, OrderedQuery
from hookline.api.wire.base import ListResponse
from hookline.api.wire.endpoints import (
    EndpointHeadersIn,
    EndpointHeadersOut,
    EndpointHeadersPatchIn,
    EndpointIn,
    EndpointOut,
    EndpointPatch,
    EndpointSecretOut,
    EndpointSecretRotateIn,
    EndpointUpdate,
    EventExampleIn,
    endpoint,
    endpoint_change,
    endpoint_headers,
    new_endpoint,
)
from hookline.api.wire.messages import MessageOut, message
from hookline.model import Endpoint
from hookline.services import endpoints, lookup
from hookline.web.authorize import Needs


async def find(call: Call) -> Endpoint:
    """Return the endpoint that a route names, in the application that it names."""
    return await lookup.endpoint(call.deps, call.caller, call.endpoint_ref)


async def create(call: Call) -> Response:
    new = new_endpoint(await call.body(EndpointIn))
    return respond(endpoint(await endpoints.create(call.deps, call.caller, call.path("app_id"), new)), 201)


async def list_all(call: Call) -> Response:
    app, page = await call.application(), page_of(call.query(OrderedQuery), ids.ENDPOINT)
    found = await call.store.endpoints(app.no, page)
    return listing([endpoint(each) for each in found], [each.id for each in found], page)


async def show(call: Call) -> Response:
    return respond(endpoint(await find(call)))


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def update(call: Call) -> Response:
    """Replace it, or make it under the uid in the address, unless the body gives another one."""
    given = await call.body(EndpointUpdate)
    change = endpoint_change(given)
    found, made = await endpoints.put(call.deps, call.caller, call.endpoint_ref, change, disabled=given.disabled)
    return respond(endpoint(found), 201 if made else 200)


async def patch(call: Call) -> Response:
    given = await call.body(EndpointPatch)
    change = endpoint_change(given)
    changed = await endpoints.change(
        call.deps, call.caller, call.endpoint_ref, lambda _: change, disabled=given.disabled
    )
    return respond(endpoint(changed))


async def delete(call: Call) -> Response:
    await endpoints.delete(call.deps, call.caller, call.endpoint_ref)
    return nothing()


# ── secret, headers, example ──────────────────────────────────────────────────────────────────────────────────────


async def show_secret(call: Call) -> Response:
    return respond(secret_of(await endpoints.show_secret(call.deps, call.caller, call.endpoint_ref)))


def secret_of(found: Endpoint) -> EndpointSecretOut:
    return EndpointSecretOut(key=endpoints.receiver_key(found))


async def rotate_secret(call: Call) -> Response:
    return respond(secret_of(await rotate(call, call.endpoint_ref)))


async def rotate(call: Call, ref: endpoints.Ref) -> Endpoint:
    given = await call.body(EndpointSecretRotateIn)
    grace = given.grace_period_seconds
    overlap = endpoints.OVERLAP if grace is None else timedelta(seconds=grace)
    return await endpoints.rotate_secret(call.deps, call.caller, ref, overlap=overlap, key=given.key)


async def show_headers(call: Call) -> Response:
    return await headers_of(call, call.endpoint_ref)


async def headers_of(call: Call, ref: endpoints.Ref) -> Response:
    found = endpoints.check_opened(await endpoints.find(call.deps, call.caller, ref))
    return respond(endpoint_headers(found.headers))


async def replace_headers(call: Call) -> Response:
    return await set_headers(call, call.endpoint_ref)


async def set_headers(call: Call, ref: endpoints.Ref) -> Response:
    await endpoints.set_headers(call.deps, call.caller, ref, (await call.body(EndpointHeadersIn)).headers)
    return nothing()


async def patch_headers(call: Call) -> Response:
    given = (await call.body(EndpointHeadersPatchIn)).changes()
    await endpoints.set_headers(call.deps, call.caller, call.endpoint_ref, given, merge=True)
    return nothing()


async def send_example(call: Call) -> Response:
    given = await call.body(EventExampleIn)
    return respond(message(await endpoints.send_test(call.deps, call.caller, call.endpoint_ref, given.event_type)))


_ALL = "/app/{app_id}/endpoint"
_ONE = f"{_ALL}/{{endpoint_id}}"

OPERATIONS = [
    Operation(
        name="v1.endpoint.create",
        method="POST",
        path=_ALL,
        handler=create,
        summary="Create an endpoint.",
        body=EndpointIn,
        answers={201: EndpointOut},
    ),
    Operation(
        name="v1.endpoint.list",
        method="GET",
        path=_ALL,
        handler=list_all,
        summary="List the endpoints of an application.",
        query=OrderedQuery,
        answers={200: ListResponse[EndpointOut]},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.endpoint.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one endpoint.",
        answers={200: EndpointOut},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.endpoint.update",
        method="PUT",
        path=_ONE,
        handler=update,
        summary="Replace an endpoint, or create it under a uid.",
        body=EndpointUpdate,
        answers={200: EndpointOut, 201: EndpointOut},
    ),
    Operation(
        name="v1.endpoint.patch",
        method="PATCH",
        path=_ONE,
        handler=patch,
        summary="Change parts of an endpoint.",
        body=EndpointPatch,
        answers={200: EndpointOut},
    ),
    Operation(
        name="v1.endpoint.delete",
        method="DELETE",
        path=_ONE,
        handler=delete,
        summary="Delete an endpoint for good.",
        answers={204: None},
    ),
    Operation(
        name="v1.endpoint.get-secret",
        method="GET",
        path=f"{_ONE}/secret",
        handler=show_secret,
        summary="Show the key that a receiver verifies with.",
        answers={200: EndpointSecretOut},
        # Whoever has it can sign in our name: a key that may only read does not get it.
        needs=Needs.WRITE,
    ),
    Operation(
        name="v1.endpoint.rotate-secret",
        method="POST",
        path=f"{_ONE}/secret/rotate",
        handler=rotate_secret,
        summary="Give an endpoint a new secret; the old one signs beside it for a while.",
        body=EndpointSecretRotateIn,
        answers={200: EndpointSecretOut},
    ),
    Operation(
        name="v1.endpoint.get-headers",
        method="GET",
        path=f"{_ONE}/headers",
        handler=show_headers,
        summary="Show the custom headers; of sensitive ones, the names alone.",
        answers={200: EndpointHeadersOut},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.endpoint.update-headers",
        method="PUT",
        path=f"{_ONE}/headers",
        handler=replace_headers,
        summary="Replace the custom headers.",
        body=EndpointHeadersIn,
        answers={204: None},
    ),
    Operation(
        name="v1.endpoint.patch-headers",
        method="PATCH",
        path=f"{_ONE}/headers",
        handler=patch_headers,
        summary="Change or remove some of the custom headers.",
        body=EndpointHeadersPatchIn,
        answers={204: None},
    ),
    Operation(
        name="v1.endpoint.send-example",
        method="POST",
        path=f"{_ONE}/send-example",
        handler=send_example,
        summary="Send an example of an event type to this endpoint alone.",
        body=EventExampleIn,
        answers={200: MessageOut},
    ),
]
