"""Operational webhooks: the same endpoints, in the application that the management organization has for the caller's."""

from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import Operation, OrderedQuery
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


def _ref(call: Call) -> OperationalRef:
    return OperationalRef(call.path("endpoint_id"))


async def create(call: Call) -> Response:
    new = new_endpoint(await call.body(OperationalWebhookEndpointIn))
    return respond(operational_endpoint(await endpoints.create_operational(call.deps, call.caller, new)), 201)


async def list_all(call: Call) -> Response:
    page = page_of(call.query(OrderedQuery), ids.ENDPOINT)
    app = await endpoints.operational_application(call.store, call.organization())
    found = [] if app is None else await call.store.endpoints(app.no, page)
    return listing([operational_endpoint(each) for each in found], [each.id for each in found], page)


async def show(call: Call) -> Response:
    return respond(operational_endpoint(await endpoints.find(call.deps, call.caller, _ref(call))))


async def update(call: Call) -> Response:
    """Replace it, or make it under the uid in the address, unless the body gives another one."""
    given = await call.body(OperationalWebhookEndpointUpdate)
    change = endpoint_change(given)
    found, made = await endpoints.put(call.deps, call.caller, _ref(call), change, disabled=given.disabled)
    return respond(operational_endpoint(found), 201 if made else 200)


async def delete(call: Call) -> Response:
    await endpoints.delete(call.deps, call.caller, _ref(call))
    return nothing()


async def show_secret(call: Call) -> Response:
    return respond(secret_of(await endpoints.show_secret(call.deps, call.caller, _ref(call))))


async def rotate_secret(call: Call) -> Response:
    await rotate(call, _ref(call))
    return nothing()


async def show_headers(call: Call) -> Response:
    return await headers_of(call, _ref(call))


async def replace_headers(call: Call) -> Response:
    return await set_headers(call, _ref(call))


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
