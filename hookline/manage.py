"""What the HTTP API and the command line both do with the catalogue: look up, check, create, accept. Thin over the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline import catalogue, ids, signing
from hookline.errors import Conflict, InvalidInput, NotFound
from hookline.flow.guard import Guard
from hookline.model import (
    Accepted,
    Application,
    Endpoint,
    EndpointChange,
    EventType,
    IngestStatus,
    NewApplication,
    NewEndpoint,
    Organization,
    Secret,
)
from hookline.store.base import Store

# The id that a fresh Svix server has too: tokens of a team that moves over keep naming an organization that exists.
DEFAULT_ORG = "org_23rb8YdGqMT0qIzpgGwdXfHirMu"


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


async def add_endpoint(store: Store, guard: Guard, app: Application, new: NewEndpoint) -> Endpoint:
    """The URL is checked by its spelling alone; a secret is made where none is given."""
    checked = catalogue.check_endpoint(new, guard)
    await _check_event_types(store, app.org_id, checked.event_types or ())
    return await store.create_endpoint(app.no, checked)


async def rotate_secret(
    store: Store, guard: Guard, endpoint: Endpoint, *, overlap: timedelta, now: datetime
) -> Endpoint:
    """A new secret of the same kind signs at once; those before it sign beside it until the overlap ends."""
    ed25519 = endpoint.secrets[0].key.startswith(signing.PRIVATE_PREFIX)
    key = signing.new_keypair()[0] if ed25519 else signing.new_secret()
    end = now + overlap
    retired = [replace(old, expires_at=min(old.expires_at or end, end)) for old in endpoint.secrets]
    secrets = (Secret(key=key), *(old for old in retired if old.expires_at and old.expires_at > now))
    change = catalogue.check_change(EndpointChange(secrets=secrets), endpoint, guard)
    return await store.change_endpoint(endpoint.no, change)


async def _check_event_types(store: Store, org_id: str, names: Sequence[str]) -> None:
    for name in names:
        if await store.event_type(org_id, name) is None:
            raise InvalidInput(f"unknown event type {name!r}: add it to the catalogue first")


async def add_event_type(store: Store, org_id: str, name: str, description: str, now: datetime) -> EventType:
    new = EventType(org_id=org_id, name=name, description=description, created_at=now, updated_at=now)
    catalogue.check_event_type(new)
    if await store.event_type(org_id, name) is not None:
        raise Conflict(f"event type {name!r} exists already")
    return await store.save_event_type(new)


def judge_accepted(accepted: Accepted) -> Accepted:
    """The answer to a caller whose message was taken, or the error that says why it was not."""
    match accepted.status:
        case IngestStatus.ACCEPTED | IngestStatus.REPLAYED:
            return accepted
        case IngestStatus.KEY_REUSED:
            raise Conflict("this idempotency key was used for another request")
        case IngestStatus.EVENT_ID_TAKEN:
            raise Conflict(f"the event id is taken by {accepted.message_id}")
        case IngestStatus.NO_APPLICATION:
            raise NotFound("the application is gone")


def dead_letter_number(text: str) -> int:
    """`dl_17` or `17` → 17."""
    digits = text.removeprefix(ids.DEAD_LETTER)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidInput(f"{text!r} is not the id of a dead letter (such as {ids.DEAD_LETTER}17)")
    return int(digits)
