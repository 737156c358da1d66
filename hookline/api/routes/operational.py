"""Operational webhooks. The operational endpoints of an organization belong to one internal application."""

from __future__ import annotations

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.operation import OrderedQuery, operation
from hookline.api.routes import endpoints as shared
from hookline.api.wire import endpoints as endpoint_wire
from hookline.api.wire import operational as wire
from hookline.api.wire.base import ListResponse
from hookline.services import endpoints
from hookline.web.authorize import Needs

_ALL = "/operational-webhook/endpoint"
_ONE = f"{_ALL}/{{endpoint_id}}"
_NAME = "v1.operational-webhook.endpoint"


@operation("GET", _ALL, f"{_NAME}.list", whole=True)
async def list_all(call: Call, asked: OrderedQuery) -> ListResponse[wire.OperationalWebhookEndpointOut]:
    """List the organization's operational webhook endpoints."""
    page = page_of(asked, ids.ENDPOINT)
    app = await endpoints.operational_application(call.store, call.caller.org_id)
    found = [] if app is None else await call.store.catalogue.endpoints(app.no, page)
    return listing(found, page, wire.operational_endpoint)


@operation("POST", _ALL, f"{_NAME}.create", status=201, whole=True)
async def create(call: Call, given: wire.OperationalWebhookEndpointIn) -> wire.OperationalWebhookEndpointOut:
    """Create an endpoint that gets events about the organization's own endpoints and deliveries."""
    return wire.operational_endpoint(await call.run(endpoints.create_operational, endpoint_wire.new_endpoint(given)))


@operation("GET", _ONE, f"{_NAME}.get", whole=True)
async def show(call: Call) -> wire.OperationalWebhookEndpointOut:
    """Show one operational webhook endpoint."""
    return wire.operational_endpoint(await call.run(endpoints.find, shared.ref_of(call)))


@operation("PUT", _ONE, f"{_NAME}.update", status=(200, 201), whole=True)
async def update(call: Call, given: wire.OperationalWebhookEndpointUpdate) -> wire.OperationalWebhookEndpointOut:
    """Replace an operational webhook endpoint, or create one with the uid in the path.

    A new endpoint gets the uid in the path, unless the body has another one.
    """
    return wire.operational_endpoint(await shared.replaced(call, given))


@operation("DELETE", _ONE, f"{_NAME}.delete", whole=True)
async def delete(call: Call) -> None:
    """Delete an operational webhook endpoint permanently."""
    await shared.delete(call)


@operation("GET", f"{_ONE}/secret", f"{_NAME}.get-secret", whole=True, needs=Needs.WRITE)
async def show_secret(call: Call) -> endpoint_wire.EndpointSecretOut:
    """Show the key that verifies the signatures of an operational webhook endpoint."""
    return await shared.show_secret(call)


@operation("POST", f"{_ONE}/secret/rotate", f"{_NAME}.rotate-secret", whole=True)
async def rotate_secret(call: Call, given: endpoint_wire.EndpointSecretRotateIn) -> None:
    """Rotate the secret of an operational webhook endpoint. By default, the old secret also signs for a day."""
    await shared.rotate_secret(call, given)


@operation("GET", f"{_ONE}/headers", f"{_NAME}.get-headers", whole=True)
async def show_headers(call: Call) -> endpoint_wire.EndpointHeadersOut:
    """Show the custom headers of an operational webhook endpoint. Of sensitive headers, only the names are shown."""
    return await shared.show_headers(call)


@operation("PUT", f"{_ONE}/headers", f"{_NAME}.update-headers", whole=True)
async def replace_headers(call: Call, given: endpoint_wire.EndpointHeadersIn) -> None:
    """Replace the custom headers of an operational webhook endpoint."""
    await shared.replace_headers(call, given)
