"""What the HTTP API and the command line both do with the catalogue: look up, check, create, accept. Thin over the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from hookline import ids, signing
from hookline.errors import Conflict, InvalidInput, NotFound, Overtaken
from hookline.model import (
    Accepted,
    ApiKey,
    Application,
    ApplicationChange,
    Endpoint,
    EndpointChange,
    EventType,
    IngestStatus,
    Message,
    NewApiKey,
    NewApplication,
    NewEndpoint,
    NewMessage,
    Organization,
    Scope,
    Secret,
)
from hookline.model.states import EndpointStatus
from hookline.rules import operational_events
from hookline.rules.checks import catalogue
from hookline.rules.checks import message as message_checks
from hookline.rules.guard import Guard
from hookline.security import api_keys
from hookline.services import example_payload
from hookline.services.schemas import validate as schema_validation
from hookline.store.protocols import Page, Store

DEFAULT_ORG = ids.DEFAULT_ORG
CHANGE_TRIES = 5  # of a change that others overtake


async def open_organization(store: Store, org_id: str, now: datetime) -> Organization:
    """The organization; the default one is made on first use, so that a single team never meets it."""
    found = await store.organization(org_id)
    if found is not None:
        return found
    if org_id != DEFAULT_ORG:
        raise NotFound(f"no organization {org_id!r}")
    return await store.save_organization(Organization(id=org_id, name="default", created_at=now))


async def check_organization(store: Store, org_id: str) -> None:
    """The default one need not exist yet: there is nothing in it then."""
    if org_id != DEFAULT_ORG and await store.organization(org_id) is None:
        raise NotFound(f"no organization {org_id!r}")


async def find_application(store: Store, org_id: str, ref: str) -> Application:
    found = await store.application(org_id, ref)
    if found is None:
        raise NotFound(f"no application {ref!r}")
    return found


async def find_endpoint(store: Store, app: Application, ref: str) -> Endpoint:
    found = await store.endpoint(app.no, ref)
    if found is None:
        raise NotFound(f"no endpoint {ref!r} in application {app.uid or app.id}")
    return found


async def add_application(store: Store, org_id: str, new: NewApplication) -> Application:
    return await store.create_application(org_id, catalogue.check_application(new))


async def get_or_add_application(store: Store, org_id: str, new: NewApplication) -> tuple[Application, bool]:
    """The application with that uid, and whether it was made now."""
    if new.uid is None:
        return await add_application(store, org_id, new), True
    found = await store.application(org_id, new.uid)
    if found is not None:
        return found, False
    try:
        return await add_application(store, org_id, new), True
    except Conflict:  # another caller made it between the look and the insert
        return await find_application(store, org_id, new.uid), False


async def put_application(store: Store, org_id: str, ref: str, change: ApplicationChange) -> tuple[Application, bool]:
    """Change the application, or make one whose uid is `ref`, unless the change names another; whether it was made now."""
    catalogue.check_application(change)
    found = await store.application(org_id, ref)
    if found is None:
        try:
            return await store.create_application(org_id, _named(ref, change)), True
        except Conflict:  # another caller made it between the look and the insert; or the uid in the change is taken
            found = await store.application(org_id, ref)
            if found is None:
                raise
    return await store.change_application(found.no, change), False


def _named(ref: str, change: ApplicationChange) -> NewApplication:
    if ref.startswith(ids.APP):
        raise NotFound(f"no application {ref!r}")
    given = {name: value for name, value in asdict(change).items() if value is not UNSET}
    return catalogue.check_application(NewApplication(**given | {"uid": change.uid or ref}))


async def change_application(store: Store, app: Application, change: ApplicationChange) -> Application:
    return await store.change_application(app.no, catalogue.check_application(change))


async def add_endpoint(store: Store, guard: Guard, app: Application, new: NewEndpoint, *, most: int = 0) -> Endpoint:
    """The URL is checked by its spelling alone; a secret is made where none is given. `most`: see `Store.create_endpoint`."""
    checked = _checked(guard, new)
    await _check_event_types(store, app.org_id, checked.event_types or ())
    return await store.create_endpoint(app.no, checked, max_endpoints=most)


def _checked(guard: Guard, new: NewEndpoint) -> NewEndpoint:
    secrets = tuple(replace(each, key=signing.with_prefix(each.key, new.scheme)) for each in new.secrets)
    return catalogue.check_endpoint(replace(new, secrets=secrets), guard)


async def change_endpoint(
    store: Store,
    guard: Guard,
    endpoint: Endpoint,
    decide: Callable[[Endpoint], EndpointChange],
    *,
    customer: bool = False,
) -> Endpoint:
    """What to change is decided on the endpoint as it is; anew, if somebody else has changed it meanwhile.

    A customer, who reaches one application alone, does not move headers to another host that are never shown.
    """
    for _ in range(CHANGE_TRIES):
        change = catalogue.check_change(decide(endpoint), endpoint, guard)
        if change == EndpointChange():
            return endpoint
        if customer and catalogue.moves(change, endpoint):
            catalogue.check_nothing_hidden(check_opened(endpoint))
        await _check_event_types(store, endpoint.org_id, change.event_types or ())
        try:
            return await store.change_endpoint(endpoint.no, change, revision=endpoint.revision)
        except Overtaken:
            endpoint = await _again(store, endpoint)
    raise Overtaken("others are changing this endpoint at the same time; try again in a moment")


async def _again(store: Store, endpoint: Endpoint) -> Endpoint:
    found = await store.endpoint(endpoint.app_no, endpoint.id)
    if found is None:
        raise NotFound(f"no endpoint {endpoint.id!r}")
    return found


async def rotate_secret(
    store: Store, guard: Guard, endpoint: Endpoint, *, overlap: timedelta, now: datetime, key: str | None = None
) -> Endpoint:
    """A new secret signs at once; those before it sign beside it until the overlap ends. Without a key: one of the same kind.

    One whose secrets no key of the vault opens gets out of that with a new one.
    """

    def decide(current: Endpoint) -> EndpointChange:
        new = signing.with_prefix(key, current.scheme) if key is not None else _new_key(current)
        end = now + overlap
        retired = [replace(old, expires_at=min(old.expires_at or end, end)) for old in current.secrets]
        kept = [old for old in retired if old.key != new and old.expires_at and old.expires_at > now]
        if len(kept) >= catalogue.MAX_SECRETS:
            raise Conflict(
                f"{len(kept)} old secrets still sign: wait until one has expired, or end their time with an overlap of 0"
            )
        return EndpointChange(secrets=(Secret(key=new), *kept))

    return await change_endpoint(store, guard, endpoint, decide)


def _new_key(endpoint: Endpoint) -> str:
    ed25519 = endpoint.secrets and endpoint.secrets[0].key.startswith(signing.PRIVATE_PREFIX)
    return signing.new_keypair()[0] if ed25519 else signing.new_secret()


def check_opened(endpoint: Endpoint) -> Endpoint:
    """What is sealed can only be read, or changed in part, where a key of this deployment opens it."""
    if not endpoint.secrets:
        raise Conflict(
            f"{endpoint.id}: its secrets cannot be opened here ({endpoint.status_reason}); rotate its secret"
        )
    return endpoint


async def send_example(store: Store, endpoint: Endpoint, event_type: str, now: datetime) -> Message:
    """To this endpoint alone, whatever it subscribes to."""
    found = await store.event_type(endpoint.org_id, event_type)
    if found is None:
        raise unknown_event_type(event_type)
    if endpoint.status == EndpointStatus.DISABLED:
        raise Conflict(f"{endpoint.id} is disabled: enable it, and send the example then")
    new = NewMessage(
        id=ids.mint(ids.MESSAGE, now),
        app_no=endpoint.app_no,
        event_type=event_type,
        payload=example_payload.payload(found, now),
    )
    return await store.send_example(endpoint.no, message_checks.check_message(new, now=now))


async def operational_application(store: Store, org_id: str) -> Application | None:
    """Where the organization's operational endpoints are; None: it has never had any."""
    return await store.application(operational_events.MANAGEMENT, org_id)


async def add_operational_endpoint(store: Store, guard: Guard, org_id: str, new: NewEndpoint) -> Endpoint:
    """What it needs is made on first use, once it is clear that the endpoint itself can be."""
    checked = _checked(guard, new)
    now = await store.now()
    management = Organization(id=operational_events.MANAGEMENT, name="operational webhooks", created_at=now)
    await store.save_organization(management)
    await _save_operational_types(store, now)
    home = NewApplication(name=f"operational webhooks of {org_id}", uid=org_id)
    app, _ = await get_or_add_application(store, management.id, home)
    return await add_endpoint(store, guard, app, checked)


async def _save_operational_types(store: Store, now: datetime) -> None:
    known = await store.event_types(operational_events.MANAGEMENT, Page(limit=250))
    names = {each.name for each in known}
    for kind, text in operational_events.DESCRIPTIONS.items():
        if kind.value not in names:
            made = EventType(
                org_id=operational_events.MANAGEMENT, name=kind.value, description=text, created_at=now, updated_at=now
            )
            await store.save_event_type(made)


async def _check_event_types(store: Store, org_id: str, names: Sequence[str]) -> None:
    for name in names:
        if await store.event_type(org_id, name) is None:
            raise unknown_event_type(name)


def unknown_event_type(name: str) -> InvalidInput:
    return InvalidInput(f"unknown event type {name!r}: add it to the catalogue first")


async def find_event_type(store: Store, org_id: str, name: str) -> EventType:
    return _there(await store.event_type(org_id, name), name)


Check = Callable[[EventType], Awaitable[None]]  # raises `InvalidInput` for schemas that cannot be saved


async def _check_here(event_type: EventType) -> None:
    """Where nobody waits meanwhile. On a server, `Schemas.check_saved` is to be given."""
    schema_validation.check_schemas(event_type)


async def add_event_type(store: Store, new: EventType, check: Check = _check_here) -> EventType:
    """One that is archived is replaced by it."""

    def decide(seen: EventType | None) -> EventType:
        if seen is not None and not seen.archived:
            raise Conflict(f"event type {new.name!r} exists already")
        return new

    return (await save_event_type(store, new.org_id, new.name, decide, check))[0]


async def archive_event_type(store: Store, org_id: str, name: str, check: Check = _check_here) -> EventType:
    """Endpoints that chose it keep it."""
    return await change_event_type(store, org_id, name, lambda seen: replace(seen, archived=True), check)


async def change_event_type(
    store: Store, org_id: str, name: str, decide: Callable[[EventType], EventType], check: Check = _check_here
) -> EventType:
    return (await save_event_type(store, org_id, name, lambda seen: decide(_there(seen, name)), check))[0]


async def save_event_type(
    store: Store,
    org_id: str,
    name: str,
    decide: Callable[[EventType | None], EventType],
    check: Check = _check_here,
) -> tuple[EventType, bool]:
    """The event type, and whether it was made now. Decided anew, if somebody else has saved it meanwhile."""
    for _ in range(CHANGE_TRIES):
        seen = await store.event_type(org_id, name)
        wanted = catalogue.check_event_type(decide(seen))
        if seen is None or _validation(wanted) != _validation(seen):
            await check(wanted)
        try:
            return await store.save_event_type(_stamped(wanted, seen, await store.now()), replacing=seen), seen is None
        except Overtaken:
            continue
    raise Overtaken("others are changing this event type at the same time; try again in a moment")


def _validation(event_type: EventType) -> tuple[bool, bytes]:
    """While it stays the same, what an earlier release saved can be changed otherwise. Compared as JSON: in Python, True is 1."""
    return event_type.validated, msgspec.json.encode(event_type.schemas, order="sorted")


def _stamped(wanted: EventType, seen: EventType | None, now: datetime) -> EventType:
    """Each save has an instant of its own: caches go by it, and `Store.save_event_type` tells savers apart by it."""
    after = now if seen is None else max(now, seen.updated_at + timedelta(microseconds=1))
    return replace(wanted, created_at=now if seen is None else seen.created_at, updated_at=after)


def _there(found: EventType | None, name: str) -> EventType:
    if found is None:
        raise NotFound(f"no event type {name!r}")
    return found


async def add_api_key(
    store: Store,
    org_id: str,
    *,
    name: str,
    scope: Scope,
    app: Application | None,
    expires_at: datetime | None,
    now: datetime,
) -> tuple[ApiKey, str]:
    """What is kept of it, and the key itself, which nobody can find again."""
    key = api_keys.make()
    new = NewApiKey(
        name=name,
        scope=scope,
        hash=api_keys.hashed(key),
        hint=api_keys.hint(key),
        app_no=None if app is None else app.no,
        expires_at=expires_at,
    )
    return await store.create_api_key(org_id, catalogue.check_api_key(new, now)), key


def judge_accepted(accepted: Accepted) -> Accepted:
    """The answer to a caller whose message was taken, or the error that says why it was not."""
    match accepted.status:
        case IngestStatus.ACCEPTED | IngestStatus.REPLAYED:
            return accepted
        case IngestStatus.KEY_REUSED:
            raise InvalidInput("this idempotency key was used for another request")
        case IngestStatus.EVENT_ID_TAKEN:
            raise Conflict(f"the event id is taken by {accepted.message_id}")
        case IngestStatus.NO_APPLICATION:
            raise NotFound("the application was deleted")
