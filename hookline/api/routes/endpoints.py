from __future__ import annotations

from datetime import timedelta

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.operation import OrderedQuery, operation
from hookline.api.wire import endpoints as wire
from hookline.api.wire.base import ListResponse
from hookline.api.wire.messages import MessageOut, message
from hookline.api.wire.operational import OperationalWebhookEndpointUpdate
from hookline.model.endpoints import Endpoint
from hookline.services import endpoints
from hookline.services.endpoints import OperationalRef
from hookline.web.authorize import Needs

_ALL = "/app/{app_id}/endpoint"
_ONE = f"{_ALL}/{{endpoint_id}}"


def ref_of(call: Call) -> endpoints.Ref:
    """Return a reference to the endpoint in the path: an endpoint of an application, or an endpoint that receives
    operational webhooks."""
    return call.endpoint_ref if "app_id" in call.request.path_params else OperationalRef(call.path("endpoint_id"))


@operation("POST", _ALL, "v1.endpoint.create", status=201)
async def create(call: Call, given: wire.EndpointIn) -> wire.EndpointOut:
    """Create an endpoint."""
    return wire.endpoint(await call.run(endpoints.create, call.path("app_id"), wire.new_endpoint(given)))


@operation("GET", _ALL, "v1.endpoint.list")
async def list_all(call: Call, asked: OrderedQuery) -> ListResponse[wire.EndpointOut]:
    """List the endpoints of an application."""
    app, page = await call.application(), page_of(asked, ids.ENDPOINT)
    return listing(await call.store.catalogue.endpoints(app.no, page), page, wire.endpoint)


@operation("GET", _ONE, "v1.endpoint.get")
async def show(call: Call) -> wire.EndpointOut:
    """Show one endpoint."""
    return wire.endpoint(await call.endpoint())


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@operation("PUT", _ONE, "v1.endpoint.update", status=(200, 201))
async def update(call: Call, given: wire.EndpointUpdate) -> wire.EndpointOut:
    """Replace an endpoint, or create one with the uid in the path.

    A new endpoint gets the uid in the path, unless the body has another one.
    """
    return wire.endpoint(await replaced(call, given))


async def replaced(call: Call, given: wire.EndpointUpdate | OperationalWebhookEndpointUpdate) -> Endpoint:
    """Replace or create the endpoint, and set the status of the response."""
    change = wire.endpoint_change(given)
    found, made = await call.run(endpoints.put, ref_of(call), change, disabled=given.disabled)
    call.status = 201 if made else 200
    return found


@operation("PATCH", _ONE, "v1.endpoint.patch")
async def patch(call: Call, given: wire.EndpointPatch) -> wire.EndpointOut:
    """Change parts of an endpoint."""
    change = wire.endpoint_change(given)
    changed = await call.run(endpoints.change, call.endpoint_ref, lambda _: change, disabled=given.disabled)
    return wire.endpoint(changed)


@operation("DELETE", _ONE, "v1.endpoint.delete")
async def delete(call: Call) -> None:
    """Delete an endpoint permanently."""
    await call.run(endpoints.delete, ref_of(call))


# ── secret, headers, example ──────────────────────────────────────────────────────────────────────────────────────


@operation("GET", f"{_ONE}/secret", "v1.endpoint.get-secret", needs=Needs.WRITE)
async def show_secret(call: Call) -> wire.EndpointSecretOut:
    """Show the key that verifies the endpoint's signatures."""
    found = await call.run(endpoints.show_secret, ref_of(call))
    return wire.EndpointSecretOut(key=endpoints.receiver_key(found))


@operation("POST", f"{_ONE}/secret/rotate", "v1.endpoint.rotate-secret")
async def rotate_secret(call: Call, given: wire.EndpointSecretRotateIn) -> wire.EndpointSecretOut:
    """Rotate the secret of an endpoint. The old secret also signs during the grace period (default: 24 hours)."""
    grace = given.grace_period_seconds
    overlap = endpoints.OVERLAP if grace is None else timedelta(seconds=grace)
    rotated = await call.run(endpoints.rotate_secret, ref_of(call), overlap=overlap, key=given.key)
    return wire.EndpointSecretOut(key=endpoints.receiver_key(rotated))


@operation("GET", f"{_ONE}/headers", "v1.endpoint.get-headers")
async def show_headers(call: Call) -> wire.EndpointHeadersOut:
    """Show the custom headers. Of sensitive headers, only the names are shown."""
    found = endpoints.check_opened(await call.run(endpoints.find, ref_of(call)))
    return wire.endpoint_headers(found.headers)


@operation("PUT", f"{_ONE}/headers", "v1.endpoint.update-headers")
async def replace_headers(call: Call, given: wire.EndpointHeadersIn) -> None:
    """Replace the custom headers."""
    await call.run(endpoints.set_headers, ref_of(call), given.headers)


@operation("PATCH", f"{_ONE}/headers", "v1.endpoint.patch-headers")
async def patch_headers(call: Call, given: wire.EndpointHeadersPatchIn) -> None:
    """Change or remove some of the custom headers."""
    await call.run(endpoints.set_headers, call.endpoint_ref, given.changes(), merge=True)


@operation("POST", f"{_ONE}/send-example", "v1.endpoint.send-example")
async def send_example(call: Call, given: wire.EventExampleIn) -> MessageOut:
    """Send an example of an event type to this endpoint only."""
    return message(await call.run(endpoints.send_test, call.endpoint_ref, given.event_type))
