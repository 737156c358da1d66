"""Operational webhooks: the same endpoints, in the application that the management organization has for the caller's."""

from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import Operation, OrderedQuery
from hookline.api.routes.endpoints import apply, either, found_or_made, rotate, set_headers, status_of, verified_with
from hookline.api.wire.base import ListResponse
from hookline.api.wire.endpoints import (
    EndpointHeadersIn,
    EndpointHeadersOut,
    EndpointSecretOut,
    EndpointSecretRotateIn,
    endpoint_headers,
)
from hookline.api.wire.operational import (
    OperationalWebhookEndpointIn,
    OperationalWebhookEndpointOut,
    OperationalWebhookEndpointUpdate,
    operational_endpoint,
)
from hookline.errors import NotFound
from hookline.model import Endpoint, EndpointChange, NewEndpoint, Secret
from hookline.services import manage
from hookline.web.authorize import Needs


async def _look(call: Call) -> Endpoint | None:
    app = await manage.operational_application(call.store, call.organization())
    return None if app is None else await call.store.endpoint(app.no, call.path("endpoint_id"))


async def _find(call: Call) -> Endpoint:
    found = await _look(call)
    if found is None:
        raise _unknown(call.path("endpoint_id"))
    call.subject = found.id
    return found


def _unknown(ref: str) -> NotFound:
    return NotFound(f"no operational webhook endpoint {ref!r}")


async def _add(call: Call, new: NewEndpoint) -> Endpoint:
    return await manage.add_operational_endpoint(call.store, call.services.guard, call.organization(), new)


async def create(call: Call) -> Response:
    given = await call.body(OperationalWebhookEndpointIn)
    new = NewEndpoint(
        url=given.url,
        uid=given.uid,
        description=given.description,
        event_types=either(given.event_types, given.filter_types),
        status=status_of(given.disabled),
        throttle_rate=either(given.throttle_rate, given.rate_limit),
        secrets=() if given.secret is None else (Secret(key=given.secret),),
        headers=given.headers,
        metadata=given.metadata,
    )
    return respond(operational_endpoint(await _add(call, new)), 201)


async def list_all(call: Call) -> Response:
    page = page_of(call.query(OrderedQuery), ids.ENDPOINT)
    app = await manage.operational_application(call.store, call.organization())
    found = [] if app is None else await call.store.endpoints(app.no, page)
    return listing([operational_endpoint(each) for each in found], [each.id for each in found], page)


async def show(call: Call) -> Response:
    return respond(operational_endpoint(await _find(call)))


async def update(call: Call) -> Response:
    """Replace it, or make it under the uid in the address, unless the body gives another one."""
    given = await call.body(OperationalWebhookEndpointUpdate)
    found, made = await found_or_made(lambda: _look(call), lambda: _make(call, given))
    if made:
        return respond(operational_endpoint(found), 201)
    change = EndpointChange(
        url=given.url,
        uid=given.uid,
        description=given.description,
        event_types=either(given.event_types, given.filter_types),
        throttle_rate=either(given.throttle_rate, given.rate_limit),
        metadata=given.metadata,
    )
    return respond(operational_endpoint(await apply(call, found, change, given.disabled)))


async def _make(call: Call, given: OperationalWebhookEndpointUpdate) -> Endpoint:
    ref = call.path("endpoint_id")
    if ref.startswith(ids.ENDPOINT):
        raise _unknown(ref)
    new = NewEndpoint(
        url=given.url,
        uid=given.uid or ref,
        description=given.description,
        event_types=either(given.event_types, given.filter_types),
        status=status_of(given.disabled),
        throttle_rate=either(given.throttle_rate, given.rate_limit),
        metadata=given.metadata,
    )
    return await _add(call, new)


async def delete(call: Call) -> Response:
    await call.store.delete_endpoint((await _find(call)).no)
    return nothing()


async def show_secret(call: Call) -> Response:
    return respond(verified_with(manage.check_opened(await _find(call))))


async def rotate_secret(call: Call) -> Response:
    await rotate(call, await _find(call))
    return nothing()


async def show_headers(call: Call) -> Response:
    return respond(endpoint_headers(manage.check_opened(await _find(call)).headers))


async def replace_headers(call: Call) -> Response:
    return await set_headers(call, await _find(call))


_ALL = "/operational-webhook/endpoint"
_ONE = f"{_ALL}/{{endpoint_id}}"

OPERATIONS = [
    Operation(
        name="v1.operational-webhook.endpoint.list",
        method="GET",
        path=_ALL,
        handler=list_all,
        summary="List the organization's operational webhook endpoints.",
        query=OrderedQuery,
        answers={200: ListResponse[OperationalWebhookEndpointOut]},
        needs=Needs.READ,
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.create",
        method="POST",
        path=_ALL,
        handler=create,
        summary="Create an endpoint that hears of the organization's own endpoints and deliveries.",
        body=OperationalWebhookEndpointIn,
        answers={201: OperationalWebhookEndpointOut},
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one operational webhook endpoint.",
        answers={200: OperationalWebhookEndpointOut},
        needs=Needs.READ,
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.update",
        method="PUT",
        path=_ONE,
        handler=update,
        summary="Replace an operational webhook endpoint, or create it under a uid.",
        body=OperationalWebhookEndpointUpdate,
        answers={200: OperationalWebhookEndpointOut, 201: OperationalWebhookEndpointOut},
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.delete",
        method="DELETE",
        path=_ONE,
        handler=delete,
        summary="Delete an operational webhook endpoint for good.",
        answers={204: None},
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.get-secret",
        method="GET",
        path=f"{_ONE}/secret",
        handler=show_secret,
        summary="Show the key that the receiver of operational webhooks verifies with.",
        answers={200: EndpointSecretOut},
        # Whoever has it can sign in our name: a key that may only read does not get it.
        needs=Needs.WRITE,
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.rotate-secret",
        method="POST",
        path=f"{_ONE}/secret/rotate",
        handler=rotate_secret,
        summary="Give an operational webhook endpoint a new secret; the old one signs beside it for a while.",
        body=EndpointSecretRotateIn,
        answers={204: None},
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.get-headers",
        method="GET",
        path=f"{_ONE}/headers",
        handler=show_headers,
        summary="Show an operational webhook endpoint's custom headers; of sensitive ones, the names alone.",
        answers={200: EndpointHeadersOut},
        needs=Needs.READ,
        whole=True,
    ),
    Operation(
        name="v1.operational-webhook.endpoint.update-headers",
        method="PUT",
        path=f"{_ONE}/headers",
        handler=replace_headers,
        summary="Replace an operational webhook endpoint's custom headers.",
        body=EndpointHeadersIn,
        answers={204: None},
        whole=True,
    ),
]
