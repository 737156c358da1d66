"""Endpoints: create, change and delete them; their secrets, headers and test events.

The endpoints of operational webhooks are ordinary ones, in an application that the management organization has for each other
organization. The same functions change them; `OperationalRef` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from hookline import ids, signing
from hookline.engine.alerting import channels as alert_channels
from hookline.errors import Conflict, InvalidInput, NoSuch, NotFound, Overtaken
from hookline.model import (
    Application,
    Endpoint,
    EndpointChange,
    EventType,
    Message,
    NewApplication,
    NewEndpoint,
    NewMessage,
    Organization,
    Secret,
)
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.states import EndpointStatus
from hookline.rules import operational_events
from hookline.rules.alerts.wording import WEBHOOK
from hookline.rules.checks import catalogue
from hookline.rules.checks import message as message_checks
from hookline.rules.checks.text import without_query
from hookline.services import audit, endpoint_state, example_payload, lookup
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.store.protocols import Page, Store

CHANGE_TRIES = 5  # if other callers change the endpoint at the same time

OVERLAP = timedelta(hours=24)  # for which an old secret signs, unless the caller says otherwise


class OperationalRef(Struct, frozen=True):
    """An endpoint of the organization's operational webhooks, by id or uid."""

    endpoint: str


Ref = EndpointRef | OperationalRef
Decide = Callable[[Endpoint], EndpointChange]
EditNote = Callable[[Endpoint, Endpoint], NewAuditEntry | None]  # from the endpoint before and after to its audit entry


async def find(deps: Deps, by: Caller, ref: Ref) -> Endpoint:
    if isinstance(ref, EndpointRef):
        return await lookup.endpoint(deps, by, ref)
    found = await _look(deps, by, ref)
    if found is None:
        raise _unknown(ref)
    return found


async def _look(deps: Deps, by: Caller, ref: Ref) -> Endpoint | None:
    if isinstance(ref, OperationalRef):
        home = await operational_application(deps.store, by.org_id)
        return None if home is None else await deps.store.endpoint(home.no, ref.endpoint)
    app = await lookup.application(deps, by, ref.app or "")
    return await deps.store.endpoint(app.no, ref.endpoint)


def _unknown(ref: Ref) -> NoSuch:
    return NoSuch("endpoint" if isinstance(ref, EndpointRef) else "operational webhook endpoint", ref.endpoint)


# ── create ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def create(deps: Deps, by: Caller, app: str, new: NewEndpoint) -> Endpoint:
    """Only the spelling of the URL is checked. Without a secret, one is made."""
    checked = _checked(deps, new)
    return await _create(deps, by, await lookup.application(deps, by, app), checked)


async def create_operational(deps: Deps, by: Caller, new: NewEndpoint) -> Endpoint:
    """The application and the event types that it needs are created on first use, once the endpoint is found to be valid."""
    checked = _checked(deps, new)
    return await _create(deps, by, await _operational_home(deps.store, by.org_id), checked)


async def put(deps: Deps, by: Caller, ref: Ref, change: EndpointChange, *, disabled: bool) -> tuple[Endpoint, bool]:
    """Change the endpoint, or create it under the uid that `ref` is, unless the change names another. Whether it was created."""
    found = await _look(deps, by, ref)
    if found is None:
        try:
            return await _create_named(deps, by, ref, change, disabled), True
        except Conflict:  # another caller created it between the look and the insert, or the uid in the change is taken
            found = await _look(deps, by, ref)
            if found is None:
                raise
    return await _change(deps, by, found, lambda _: change, disabled), False


async def _create_named(deps: Deps, by: Caller, ref: Ref, change: EndpointChange, disabled: bool) -> Endpoint:
    if ref.endpoint.startswith(ids.ENDPOINT):
        raise _unknown(ref)
    given = {name: value for name, value in asdict(change).items() if value is not UNSET}
    status = EndpointStatus.DISABLED if disabled else EndpointStatus.ACTIVE
    uid = ref.endpoint if given.get("uid") is None else change.uid
    new = NewEndpoint(**given | {"uid": uid, "status": status})
    if isinstance(ref, EndpointRef):
        return await create(deps, by, ref.app or "", new)
    return await create_operational(deps, by, new)


def _checked(deps: Deps, new: NewEndpoint) -> NewEndpoint:
    secrets = tuple(replace(each, key=signing.with_prefix(each.key, new.scheme)) for each in new.secrets)
    return catalogue.check_endpoint(replace(new, secrets=secrets), deps.guard)


async def _create(deps: Deps, by: Caller, app: Application, checked: NewEndpoint) -> Endpoint:
    await _check_event_types(deps.store, app.org_id, checked.event_types or ())
    most = 0 if by.app is None else deps.customer_endpoints

    def note(made: Endpoint) -> NewAuditEntry:
        return audit.endpoint_entry(by, "create", made, _where(made))

    return await deps.store.create_endpoint(app.no, checked, most=most, note=note)


async def _check_event_types(store: Store, org_id: str, names: Sequence[str]) -> None:
    for name in names:
        await _event_type(store, org_id, name)


async def _event_type(store: Store, org_id: str, name: str) -> EventType:
    found = await store.event_type(org_id, name) if lookup.storable(name) else None
    if found is None:
        raise InvalidInput(f"unknown event type {name!r}: add it to the catalogue first")
    return found


# ── change ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def change(deps: Deps, by: Caller, ref: Ref, decide: Decide, *, disabled: bool | UnsetType = UNSET) -> Endpoint:
    """The change is decided on the endpoint as it is, and again if another caller has changed it meanwhile."""
    return await _change(deps, by, await find(deps, by, ref), decide, disabled)


async def _change(
    deps: Deps, by: Caller, found: Endpoint, decide: Decide, disabled: bool | UnsetType = UNSET
) -> Endpoint:
    def note(before: Endpoint, after: Endpoint) -> NewAuditEntry | None:
        named = audit.differences(before, after)
        return audit.endpoint_entry(by, "edit", after, named) if named else None

    changed = await _save(deps, by, found, decide, note)
    return changed if disabled is UNSET else await endpoint_state.set_disabled(deps, by, changed, disabled)


async def _save(deps: Deps, by: Caller, endpoint: Endpoint, decide: Decide, note: EditNote) -> Endpoint:
    """A customer, who reaches one application alone, does not move headers to another host that are never shown."""
    for _ in range(CHANGE_TRIES):
        change = catalogue.check_change(decide(endpoint), endpoint, deps.guard)
        if change == EndpointChange():
            return endpoint
        if by.app is not None and catalogue.moves(change, endpoint):
            catalogue.check_nothing_hidden(check_opened(endpoint))
        await _check_event_types(deps.store, endpoint.org_id, change.event_types or ())
        try:
            return await deps.store.change_endpoint(
                endpoint.no, change, revision=endpoint.revision, note=partial(note, endpoint)
            )
        except Overtaken:
            endpoint = await _again(deps.store, endpoint)
    raise Overtaken("others are changing this endpoint at the same time; try again in a moment")


async def _again(store: Store, endpoint: Endpoint) -> Endpoint:
    found = await store.endpoint(endpoint.app_no, endpoint.id)
    if found is None:
        raise NoSuch("endpoint", endpoint.id)
    return found


async def set_headers(
    deps: Deps, by: Caller, ref: Ref, headers: Mapping[str, str | None], *, merge: bool = False
) -> Endpoint:
    """Replace the custom headers; or merge them with those that are there, where None removes one."""
    found = await find(deps, by, ref)

    def decide(current: Endpoint) -> EndpointChange:
        given = {name: value for name, value in headers.items() if value is not None}
        return EndpointChange(headers=_kept(check_opened(current).headers, headers) | given if merge else given)

    def note(before: Endpoint, after: Endpoint) -> NewAuditEntry:
        return audit.endpoint_entry(by, "headers", after, _renamed(before.headers, after.headers))

    return await _save(deps, by, found, decide, note)


def _kept(current: Mapping[str, str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Names are the same in upper and in lower case."""
    named = {name.lower() for name in given}
    return {name: value for name, value in current.items() if name.lower() not in named}


def _renamed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The names of headers that were set, and after a minus of those that were removed."""
    gone = _kept(before, dict(after))
    names = [name for name, value in after.items() if before.get(name) != value] + [f"-{name}" for name in gone]
    return ", ".join(names)[:500]


async def delete(deps: Deps, by: Caller, ref: Ref) -> Endpoint:
    """For good. Its open deliveries become dead letters, which cannot be replayed."""
    found = await find(deps, by, ref)
    entry = audit.endpoint_entry(by, "delete", found, _where(found))
    await deps.store.delete_endpoint(found.no, note=lambda _: entry)
    return found


# ── secret ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_secret(deps: Deps, by: Caller, ref: Ref) -> Endpoint:
    """The endpoint with its secrets, for somebody who is shown one of them."""
    found = check_opened(await find(deps, by, ref))
    await deps.store.add_audit([audit.endpoint_entry(by, "reveal_secret", found)])
    return found


async def show_alert_secret(deps: Deps, by: Caller) -> str:
    """Return the secret that signs alerts to HOOKLINE_ALERT_WEBHOOK_URL."""
    found = (await alert_channels.endpoints(deps.store)).get(WEBHOOK)
    if found is None:
        raise NotFound("alerts go to no webhook: set HOOKLINE_ALERT_WEBHOOK_URL")
    key = check_opened(found).secrets[0].key
    await deps.store.add_audit([audit.entry(by, "alert_webhook.reveal_secret", found.id)])
    return key


async def rotate_secret(
    deps: Deps, by: Caller, ref: Ref, *, overlap: timedelta = OVERLAP, key: str | None = None
) -> Endpoint:
    """A new secret signs at once; those before it sign beside it until the overlap ends. Without a key: one of the same kind.

    It is also the way out for an endpoint whose secrets no key of the vault opens.
    """
    found, now = await find(deps, by, ref), deps.wall()
    entry = audit.endpoint_entry(by, "rotate_secret", found, f"overlap {overlap.total_seconds():.0f} s")
    return await _save(deps, by, found, lambda current: _rotated(current, key, now, overlap), lambda _, __: entry)


def _rotated(current: Endpoint, key: str | None, now: datetime, overlap: timedelta) -> EndpointChange:
    new = signing.with_prefix(key, current.scheme) if key is not None else _new_key(current)
    end = now + overlap
    retired = [replace(old, expires_at=min(old.expires_at or end, end)) for old in current.secrets]
    kept = [old for old in retired if old.key != new and old.expires_at and old.expires_at > now]
    if len(kept) >= catalogue.MAX_SECRETS:
        raise Conflict(
            f"{len(kept)} old secrets still sign: wait until one has expired, or end their time with an overlap of 0"
        )
    return EndpointChange(secrets=(Secret(key=new), *kept))


def _new_key(endpoint: Endpoint) -> str:
    ed25519 = endpoint.secrets and endpoint.secrets[0].key.startswith(signing.PRIVATE_PREFIX)
    return signing.new_keypair()[0] if ed25519 else signing.new_secret()


def check_opened(endpoint: Endpoint) -> Endpoint:
    """Sealed values can only be read, or changed in part, if a key of this deployment opens them."""
    if not endpoint.secrets:
        raise Conflict(
            f"{endpoint.id}: its secrets cannot be opened here ({endpoint.status_reason}); rotate its secret"
        )
    return endpoint


def receiver_key(endpoint: Endpoint) -> str:
    """The key that a receiver verifies with: of an Ed25519 pair the public one. The private one never leaves."""
    key = endpoint.secrets[0].key
    return signing.public_key(key) if key.startswith(signing.PRIVATE_PREFIX) else key


# ── test event ────────────────────────────────────────────────────────────────────────────────────────────────────


async def send_test(deps: Deps, by: Caller, ref: EndpointRef, event_type: str) -> Message:
    """An example of the event type, to this endpoint alone, whatever it subscribes to."""
    endpoint, now = await find(deps, by, ref), deps.wall()
    found = await _event_type(deps.store, endpoint.org_id, event_type)
    if endpoint.status == EndpointStatus.DISABLED:
        raise Conflict(f"{endpoint.id} is disabled: enable it, and send the example then")
    new = NewMessage(
        id=ids.mint(ids.MESSAGE, now),
        app_no=endpoint.app_no,
        event_type=event_type,
        payload=example_payload.payload(found, now),
    )
    entry = audit.endpoint_entry(by, "test", endpoint, f"{event_type}: {new.id}")
    return await deps.store.send_example(endpoint.no, message_checks.check_message(new, now=now), note=lambda _: entry)


# ── operational webhooks ──────────────────────────────────────────────────────────────────────────────────────────


async def operational_application(store: Store, org_id: str) -> Application | None:
    """The application of the organization's operational endpoints; None: it has never had any."""
    return await store.application(operational_events.MANAGEMENT, org_id)


async def _operational_home(store: Store, org_id: str) -> Application:
    now = await store.now()
    await store.save_organization(
        Organization(id=operational_events.MANAGEMENT, name="operational webhooks", created_at=now)
    )
    await _save_operational_types(store, now)
    found = await operational_application(store, org_id)
    if found is not None:
        return found
    new = NewApplication(name=f"operational webhooks of {org_id}", uid=org_id)
    try:
        return await store.create_application(operational_events.MANAGEMENT, new)
    except Conflict:  # another caller created it between the look and the insert
        return await _operational_home(store, org_id)


async def _save_operational_types(store: Store, now: datetime) -> None:
    known = await store.event_types(operational_events.MANAGEMENT, Page(limit=250))
    names = {each.name for each in known}
    for kind, text in operational_events.DESCRIPTIONS.items():
        if kind.value not in names:
            made = EventType(
                org_id=operational_events.MANAGEMENT, name=kind.value, description=text, created_at=now, updated_at=now
            )
            await store.save_event_type(made)


def _where(endpoint: Endpoint) -> str:
    """The URLs of operational endpoints are sealed: they appear in no record."""
    return "" if endpoint.org_id == operational_events.MANAGEMENT else without_query(endpoint.url)
