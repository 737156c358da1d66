"""Operational webhooks. Their endpoints belong to an internal application, one for each organization."""

from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import Operations, OrderedQuery
from hookline.api.routes.endpoints import headers_of, rotate, secret_of, set_headers
from hookline.api.wire.base import ListResponse
from hookline.api.wire.endpoints import (
    EndpointHeadersIn,
    EndpointHeadersOut,
    EndpointSecretOut,
    EndpointSecretRotateIn,
    endpoint_change,
    new_endpoint,
)
from hookline.api.wire.operational import (
    OperationalWebhookEndpointIn,
    OperationalWebhookEndpointOut,
    OperationalWebhookEndpointUpdate,
    operational_endpoint,
)
from hookline.services import endpoints
from hookline.services.endpoints import OperationalRef
from hookline.web.authorize import Needs

_ALL = "/operational-webhook/endpoint"
_ONE = f"{_ALL}/{{endpoint_id}}"
OPERATIONS = Operations()


def _ref(call: Call) -> OperationalRef:
    return OperationalRef(call.path("endpoint_id"))


@OPERATIONS.get(
    _ALL,
    "v1.operational-webhook.endpoint.list",
    ListResponse[OperationalWebhookEndpointOut],
    query=OrderedQuery,
    whole=True,
)
async def list_all(call: Call) -> Response:
    """List the organization's operational webhook endpoints."""
    page = page_of(call.query(OrderedQuery), ids.ENDPOINT)
    app = await endpoints.operational_application(call.store, call.organization())
    found = [] if app is None else await call.store.catalogue.endpoints(app.no, page)
    return listing([operational_endpoint(each) for each in found], [each.id for each in found], page)


@OPERATIONS.post(
    _ALL,
    "v1.operational-webhook.endpoint.create",
    {201: OperationalWebhookEndpointOut},
    body=OperationalWebhookEndpointIn,
    whole=True,
)
async def create(call: Call) -> Response:
    """Create an endpoint that hears of the organization's own endpoints and deliveries."""
    new = new_endpoint(await call.body(OperationalWebhookEndpointIn))
    return respond(operational_endpoint(await endpoints.create_operational(call.deps, call.caller, new)), 201)


@OPERATIONS.get(_ONE, "v1.operational-webhook.endpoint.get", OperationalWebhookEndpointOut, whole=True)
async def show(call: Call) -> Response:
    """Show one operational webhook endpoint."""
    return respond(operational_endpoint(await endpoints.find(call.deps, call.caller, _ref(call))))


@OPERATIONS.put(
    _ONE,
    "v1.operational-webhook.endpoint.update",
    {200: OperationalWebhookEndpointOut, 201: OperationalWebhookEndpointOut},
    body=OperationalWebhookEndpointUpdate,
    whole=True,
)
async def update(call: Call) -> Response:
    """Replace an operational webhook endpoint, or create it under a uid.

    A new endpoint gets the uid in the path, unless the body has another one.
    """
    given = await call.body(OperationalWebhookEndpointUpdate)
    change = endpoint_change(given)
    found, made = await endpoints.put(call.deps, call.caller, _ref(call), change, disabled=given.disabled)
    return respond(operational_endpoint(found), 201 if made else 200)


@OPERATIONS.delete(_ONE, "v1.operational-webhook.endpoint.delete", whole=True)
async def delete(call: Call) -> Response:
    """Delete an operational webhook endpoint for good."""
    await endpoints.delete(call.deps, call.caller, _ref(call))
    return nothing()


@OPERATIONS.get(
    f"{_ONE}/secret", "v1.operational-webhook.endpoint.get-secret", EndpointSecretOut, whole=True, needs=Needs.WRITE
)
async def show_secret(call: Call) -> Response:
    """Show the key that the receiver of operational webhooks verifies with."""
    return respond(secret_of(await endpoints.show_secret(call.deps, call.caller, _ref(call))))


@OPERATIONS.post(
    f"{_ONE}/secret/rotate",
    "v1.operational-webhook.endpoint.rotate-secret",
    {204: None},
    body=EndpointSecretRotateIn,
    whole=True,
)
async def rotate_secret(call: Call) -> Response:
    """Give an operational webhook endpoint a new secret; the old one signs beside it for a while."""
    await rotate(call, _ref(call))
    return nothing()


@OPERATIONS.get(f"{_ONE}/headers", "v1.operational-webhook.endpoint.get-headers", EndpointHeadersOut, whole=True)
async def show_headers(call: Call) -> Response:
    """Show an operational webhook endpoint's custom headers; of sensitive ones, the names alone."""
    return await headers_of(call, _ref(call))


@OPERATIONS.put(
    f"{_ONE}/headers", "v1.operational-webhook.endpoint.update-headers", {204: None}, body=EndpointHeadersIn, whole=True
)
async def replace_headers(call: Call) -> Response:
    """Replace an operational webhook endpoint's custom headers."""
    return await set_headers(call, _ref(call))
