from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from msgspec import UNSET, UnsetType
from starlette.responses import Response

from hookline import ids, signing
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.operation import Operation, OrderedQuery
from hookline.api.wire.base import ListResponse, Policy
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
    endpoint_headers,
)
from hookline.api.wire.messages import MessageOut, message
from hookline.errors import Conflict, NotFound
from hookline.model import Application, Endpoint, EndpointChange, NewEndpoint, PolicyOverride, Secret
from hookline.model.states import EndpointStatus
from hookline.services import endpoint_state, manage
from hookline.web.authorize import Needs

T = TypeVar("T")

OVERLAP = timedelta(hours=24)  # for which an old secret signs, where the caller does not say


async def find(call: Call) -> Endpoint:
    """The endpoint that a route names, in the application that it names."""
    found = await manage.find_endpoint(call.store, await call.application(), call.path("endpoint_id"))
    call.subject = found.id
    return found


async def create(call: Call) -> Response:
    app = await call.application()
    new = _new(await call.body(EndpointIn))
    return respond(endpoint(await _add(call, app, new)), 201)


async def _add(call: Call, app: Application, new: NewEndpoint) -> Endpoint:
    services = call.services
    return await manage.add_endpoint(call.store, services.guard, app, new, most=services.most_endpoints(call.caller))


def _new(given: EndpointIn) -> NewEndpoint:
    return NewEndpoint(
        url=given.url,
        uid=given.uid,
        description=given.description,
        version=given.version,
        event_types=either(given.event_types, given.filter_types),
        channels=given.channels,
        status=status_of(given.disabled),
        throttle_rate=either(given.throttle_rate, given.rate_limit),
        concurrency=given.concurrency,
        ordering=given.ordering,
        on_death=given.on_death,
        scheme=given.scheme,
        secrets=() if given.secret is None else (Secret(key=given.secret),),
        headers=given.headers,
        metadata=given.metadata,
        policy=_override(given.policy),
    )


async def list_all(call: Call) -> Response:
    app, page = await call.application(), page_of(call.query(OrderedQuery), ids.ENDPOINT)
    found = await call.store.endpoints(app.no, page)
    return listing([endpoint(each) for each in found], [each.id for each in found], page)


async def show(call: Call) -> Response:
    return respond(endpoint(await find(call)))


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def update(call: Call) -> Response:
    """Replace it, or make it under the uid in the address, unless the body gives another one."""
    app, ref = await call.application(), call.path("endpoint_id")
    given = await call.body(EndpointUpdate)
    found, made = await found_or_made(lambda: call.store.endpoint(app.no, ref), lambda: _make(call, app, ref, given))
    if made:
        return respond(endpoint(found), 201)
    return respond(endpoint(await apply(call, found, _replacement(given), given.disabled)))


async def found_or_made(
    look: Callable[[], Awaitable[Endpoint | None]], make: Callable[[], Awaitable[Endpoint]]
) -> tuple[Endpoint, bool]:
    """The endpoint, and whether it was made now."""
    found = await look()
    if found is None:
        try:
            return await make(), True
        except Conflict:  # another caller made it between the look and the insert, or the body's uid is another one's
            found = await look()
            if found is None:
                raise
    return found, False


async def _make(call: Call, app: Application, ref: str, given: EndpointUpdate) -> Endpoint:
    if ref.startswith(ids.ENDPOINT):
        raise NotFound(f"no endpoint {ref!r} in application {app.uid or app.id}")
    values = {
        name: getattr(given, name)
        for name in ("version", "concurrency", "ordering", "on_death", "scheme")
        if getattr(given, name) is not UNSET
    }
    new = NewEndpoint(
        url=given.url,
        uid=given.uid or ref,
        description=given.description,
        event_types=either(given.event_types, given.filter_types),
        channels=given.channels,
        status=status_of(given.disabled),
        throttle_rate=either(given.throttle_rate, given.rate_limit),
        metadata=given.metadata,
        policy=_override(given.policy or None),
        **values,
    )
    return await _add(call, app, new)


def _replacement(given: EndpointUpdate) -> EndpointChange:
    return EndpointChange(
        url=given.url,
        uid=given.uid,
        description=given.description,
        version=given.version,
        event_types=either(given.event_types, given.filter_types),
        channels=given.channels,
        throttle_rate=either(given.throttle_rate, given.rate_limit),
        concurrency=given.concurrency,
        ordering=given.ordering,
        on_death=given.on_death,
        scheme=given.scheme,
        metadata=given.metadata,
        policy=_changed(given.policy),
    )


async def patch(call: Call) -> Response:
    found = await find(call)
    given = await call.body(EndpointPatch)
    change = EndpointChange(
        url=given.url,
        uid=given.uid,
        description=given.description,
        version=given.version,
        event_types=given.event_types if given.event_types is not UNSET else given.filter_types,
        channels=given.channels,
        throttle_rate=given.throttle_rate if given.throttle_rate is not UNSET else given.rate_limit,
        concurrency=given.concurrency,
        ordering=given.ordering,
        on_death=given.on_death,
        scheme=given.scheme,
        metadata=given.metadata,
        policy=_changed(given.policy),
    )
    return respond(endpoint(await apply(call, found, change, given.disabled)))


async def apply(call: Call, found: Endpoint, change: EndpointChange, disabled: bool | UnsetType) -> Endpoint:
    customer = call.caller.app is not None
    changed = await manage.change_endpoint(call.store, call.services.guard, found, lambda _: change, customer=customer)
    if disabled is UNSET:
        return changed
    return await endpoint_state.set_disabled(call.deps, call.caller, changed, disabled)


async def delete(call: Call) -> Response:
    await call.store.delete_endpoint((await find(call)).no)
    return nothing()


def either(new: T | None, old: T | None) -> T | None:
    """The newer SDKs' name for it, or the older ones'."""
    return new if new is not None else old


def status_of(disabled: bool) -> EndpointStatus:
    return EndpointStatus.DISABLED if disabled else EndpointStatus.ACTIVE


def _override(given: Policy | None) -> PolicyOverride | None:
    return None if given is None else given.override()


def _changed(given: Policy | UnsetType | None) -> PolicyOverride | UnsetType | None:
    return UNSET if given is UNSET else _override(given)


# ── secret, headers, example ──────────────────────────────────────────────────────────────────────────────────────


async def show_secret(call: Call) -> Response:
    return respond(verified_with(manage.check_opened(await find(call))))


def verified_with(endpoint: Endpoint) -> EndpointSecretOut:
    """What a receiver has: of an Ed25519 pair the public key; the private one never leaves."""
    key = endpoint.secrets[0].key
    return EndpointSecretOut(key=signing.public_key(key) if key.startswith(signing.PRIVATE_PREFIX) else key)


async def rotate_secret(call: Call) -> Response:
    return respond(verified_with(await rotate(call, await find(call))))


async def rotate(call: Call, found: Endpoint) -> Endpoint:
    given = await call.body(EndpointSecretRotateIn)
    grace = given.grace_period_seconds
    overlap = OVERLAP if grace is None else timedelta(seconds=grace)
    services = call.services
    return await manage.rotate_secret(
        call.store, services.guard, found, overlap=overlap, now=services.wall(), key=given.key
    )


async def show_headers(call: Call) -> Response:
    return respond(endpoint_headers(manage.check_opened(await find(call)).headers))


async def replace_headers(call: Call) -> Response:
    return await set_headers(call, await find(call))


async def set_headers(call: Call, found: Endpoint) -> Response:
    headers = (await call.body(EndpointHeadersIn)).headers
    await manage.change_endpoint(call.store, call.services.guard, found, lambda _: EndpointChange(headers=headers))
    return nothing()


async def patch_headers(call: Call) -> Response:
    found = await find(call)
    given = (await call.body(EndpointHeadersPatchIn)).changes()

    def decide(current: Endpoint) -> EndpointChange:
        return EndpointChange(headers=merged(manage.check_opened(current).headers, given))

    await manage.change_endpoint(call.store, call.services.guard, found, decide)
    return nothing()


def merged(current: dict[str, str], given: dict[str, str | None]) -> dict[str, str]:
    """Names are the same in capitals and in small letters."""
    named = {name.lower() for name in given}
    kept = {name: value for name, value in current.items() if name.lower() not in named}
    return kept | {name: value for name, value in given.items() if value is not None}


async def send_example(call: Call) -> Response:
    found = await find(call)
    given = await call.body(EventExampleIn)
    sent = await manage.send_example(call.store, found, given.event_type, call.services.wall())
    return respond(message(sent))


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
