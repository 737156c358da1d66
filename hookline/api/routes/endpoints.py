from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import Operations, OrderedQuery
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

_ALL = "/app/{app_id}/endpoint"
_ONE = f"{_ALL}/{{endpoint_id}}"
OPERATIONS = Operations()


async def find(call: Call) -> Endpoint:
    """Return the endpoint that a route names, in the application that it names."""
    return await lookup.endpoint(call.deps, call.caller, call.endpoint_ref)


@OPERATIONS.post(_ALL, "v1.endpoint.create", {201: EndpointOut}, body=EndpointIn)
async def create(call: Call) -> Response:
    """Create an endpoint."""
    new = new_endpoint(await call.body(EndpointIn))
    return respond(endpoint(await endpoints.create(call.deps, call.caller, call.path("app_id"), new)), 201)


@OPERATIONS.get(_ALL, "v1.endpoint.list", ListResponse[EndpointOut], query=OrderedQuery)
async def list_all(call: Call) -> Response:
    """List the endpoints of an application."""
    app, page = await call.application(), page_of(call.query(OrderedQuery), ids.ENDPOINT)
    found = await call.store.catalogue.endpoints(app.no, page)
    return listing([endpoint(each) for each in found], [each.id for each in found], page)


@OPERATIONS.get(_ONE, "v1.endpoint.get", EndpointOut)
async def show(call: Call) -> Response:
    """Show one endpoint."""
    return respond(endpoint(await find(call)))


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@OPERATIONS.put(_ONE, "v1.endpoint.update", {200: EndpointOut, 201: EndpointOut}, body=EndpointUpdate)
async def update(call: Call) -> Response:
    """Replace an endpoint, or create it under a uid.

    A new endpoint gets the uid in the path, unless the body has another one.
    """
    given = await call.body(EndpointUpdate)
    change = endpoint_change(given)
    found, made = await endpoints.put(call.deps, call.caller, call.endpoint_ref, change, disabled=given.disabled)
    return respond(endpoint(found), 201 if made else 200)


@OPERATIONS.patch(_ONE, "v1.endpoint.patch", EndpointOut, body=EndpointPatch)
async def patch(call: Call) -> Response:
    """Change parts of an endpoint."""
    given = await call.body(EndpointPatch)
    change = endpoint_change(given)
    changed = await endpoints.change(
        call.deps, call.caller, call.endpoint_ref, lambda _: change, disabled=given.disabled
    )
    return respond(endpoint(changed))


@OPERATIONS.delete(_ONE, "v1.endpoint.delete")
async def delete(call: Call) -> Response:
    """Delete an endpoint for good."""
    await endpoints.delete(call.deps, call.caller, call.endpoint_ref)
    return nothing()


# ── secret, headers, example ──────────────────────────────────────────────────────────────────────────────────────


@OPERATIONS.get(f"{_ONE}/secret", "v1.endpoint.get-secret", EndpointSecretOut, needs=Needs.WRITE)
async def show_secret(call: Call) -> Response:
    """Show the key that a receiver verifies with."""
    return respond(secret_of(await endpoints.show_secret(call.deps, call.caller, call.endpoint_ref)))


def secret_of(found: Endpoint) -> EndpointSecretOut:
    return EndpointSecretOut(key=endpoints.receiver_key(found))


@OPERATIONS.post(f"{_ONE}/secret/rotate", "v1.endpoint.rotate-secret", EndpointSecretOut, body=EndpointSecretRotateIn)
async def rotate_secret(call: Call) -> Response:
    """Give an endpoint a new secret; the old one signs beside it for a while."""
    return respond(secret_of(await rotate(call, call.endpoint_ref)))


async def rotate(call: Call, ref: endpoints.Ref) -> Endpoint:
    given = await call.body(EndpointSecretRotateIn)
    grace = given.grace_period_seconds
    overlap = endpoints.OVERLAP if grace is None else timedelta(seconds=grace)
    return await endpoints.rotate_secret(call.deps, call.caller, ref, overlap=overlap, key=given.key)


@OPERATIONS.get(f"{_ONE}/headers", "v1.endpoint.get-headers", EndpointHeadersOut)
async def show_headers(call: Call) -> Response:
    """Show the custom headers; of sensitive ones, the names alone."""
    return await headers_of(call, call.endpoint_ref)


async def headers_of(call: Call, ref: endpoints.Ref) -> Response:
    found = endpoints.check_opened(await endpoints.find(call.deps, call.caller, ref))
    return respond(endpoint_headers(found.headers))


@OPERATIONS.put(f"{_ONE}/headers", "v1.endpoint.update-headers", {204: None}, body=EndpointHeadersIn)
async def replace_headers(call: Call) -> Response:
    """Replace the custom headers."""
    return await set_headers(call, call.endpoint_ref)


async def set_headers(call: Call, ref: endpoints.Ref) -> Response:
    await endpoints.set_headers(call.deps, call.caller, ref, (await call.body(EndpointHeadersIn)).headers)
    return nothing()


@OPERATIONS.patch(f"{_ONE}/headers", "v1.endpoint.patch-headers", {204: None}, body=EndpointHeadersPatchIn)
async def patch_headers(call: Call) -> Response:
    """Change or remove some of the custom headers."""
    given = (await call.body(EndpointHeadersPatchIn)).changes()
    await endpoints.set_headers(call.deps, call.caller, call.endpoint_ref, given, merge=True)
    return nothing()


@OPERATIONS.post(f"{_ONE}/send-example", "v1.endpoint.send-example", MessageOut, body=EventExampleIn)
async def send_example(call: Call) -> Response:
    """Send an example of an event type to this endpoint alone."""
    given = await call.body(EventExampleIn)
    return respond(message(await endpoints.send_test(call.deps, call.caller, call.endpoint_ref, given.event_type)))
