"""Endpoints: create, change and delete them; their secrets, headers and test events.

An endpoint that receives operational webhooks is an ordinary endpoint, and the functions of this module change it too.
An `OperationalRef` names it. It belongs to the management organization, which Hookline creates for itself. In the
management organization, each organization that receives operational webhooks has one application.
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
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.catalogue import Application, EventType, NewApplication, Organization
from hookline.model.endpoints import Endpoint, EndpointChange, NewEndpoint, Secret
from hookline.model.messages import Message, NewMessage
from hookline.model.states import EndpointStatus
from hookline.rules import operational_events
from hookline.rules.alerts.wording import WEBHOOK
from hookline.rules.checks import catalogue
from hookline.rules.checks import message as message_checks
from hookline.rules.checks.text import without_query
from hookline.services import audit, endpoint_state, example_payload, lookup
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.store import Page, Store

CHANGE_TRIES = 5  # maximum number of tries to save a change, while other callers change the endpoint too

OVERLAP = timedelta(hours=24)  # how long an old secret still signs by default


class OperationalRef(Struct, frozen=True):
    """An endpoint that receives the organization's operational webhooks, by id or uid."""

    endpoint: str


Ref = EndpointRef | OperationalRef
Decide = Callable[[Endpoint], EndpointChange]
EditNote = Callable[[Endpoint, Endpoint], NewAuditEntry | None]  # (endpoint before, after) → audit entry


async def find(deps: Deps, by: Caller, ref: Ref) -> Endpoint:
    if isinstance(ref, EndpointRef):
        return await lookup.endpoint(deps, by, ref)
    found = await _find_any(deps, by, ref)
    if found is None:
        raise _unknown(ref)
    return found


async def _find_any(deps: Deps, by: Caller, ref: Ref) -> Endpoint | None:
    if isinstance(ref, OperationalRef):
        home = await operational_application(deps.store, by.org_id)
        return None if home is None else await deps.store.catalogue.endpoint(home.no, ref.endpoint)
    app = await lookup.application(deps, by, ref.app or "")
    return await deps.store.catalogue.endpoint(app.no, ref.endpoint)


def _unknown(ref: Ref) -> NoSuch:
    return NoSuch("endpoint" if isinstance(ref, EndpointRef) else "operational webhook endpoint", ref.endpoint)


# ── create ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def create(deps: Deps, by: Caller, app: str, new: NewEndpoint) -> Endpoint:
    """Create an endpoint. The URL is checked but not called. If no secret is given, one is generated."""
    checked = _checked(deps, new)
    return await _create(deps, by, await lookup.application(deps, by, app), checked)


async def create_operational(deps: Deps, by: Caller, new: NewEndpoint) -> Endpoint:
    """Create an endpoint that receives operational webhooks. If its application or its event types do not exist yet,
    create them."""
    checked = _checked(deps, new)
    return await _create(deps, by, await _operational_home(deps.store, by.org_id), checked)


async def put(deps: Deps, by: Caller, ref: Ref, change: EndpointChange, *, disabled: bool) -> tuple[Endpoint, bool]:
    """Change the endpoint, or create it if it does not exist. Also return whether it was created.

    A new endpoint gets the uid in `change`, or the uid in `ref` if `change` has no uid.
    """
    found = await _find_any(deps, by, ref)
    if found is None:
        try:
            return await _create_named(deps, by, ref, change, disabled), True
        except Conflict:  # another caller has just created the endpoint, or the uid in the change is taken
            found = await _find_any(deps, by, ref)
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

    return await deps.store.catalogue.create_endpoint(app.no, checked, max_endpoints=most, note=note)


async def _check_event_types(store: Store, org_id: str, names: Sequence[str]) -> None:
    for name in names:
        await _event_type(store, org_id, name)


async def _event_type(store: Store, org_id: str, name: str) -> EventType:
    found = await store.catalogue.event_type(org_id, name) if lookup.storable(name) else None
    if found is None:
        raise InvalidInput(f"unknown event type {name!r}: add it to the catalogue first")
    return found


# ── change ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def change(deps: Deps, by: Caller, ref: Ref, decide: Decide, *, disabled: bool | UnsetType = UNSET) -> Endpoint:
    """Change the endpoint. `decide` gets the endpoint and returns the change. It is called again if another caller
    changed the endpoint before the change was saved."""
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
    """Save the change that `decide` returns. A customer cannot change the host while the endpoint has secret headers,
    because the new host would receive them."""
    for _ in range(CHANGE_TRIES):
        change = catalogue.check_change(decide(endpoint), endpoint, deps.guard)
        if change == EndpointChange():
            return endpoint
        if by.app is not None and catalogue.moves(change, endpoint):
            catalogue.check_nothing_hidden(check_opened(endpoint))
        await _check_event_types(deps.store, endpoint.org_id, change.event_types or ())
        try:
            return await deps.store.catalogue.change_endpoint(
                endpoint.no, change, revision=endpoint.revision, note=partial(note, endpoint)
            )
        except Overtaken:
            endpoint = await _read_again(deps.store, endpoint)
    raise Overtaken("others are changing this endpoint at the same time; try again in a moment")


async def _read_again(store: Store, endpoint: Endpoint) -> Endpoint:
    found = await store.catalogue.endpoint(endpoint.app_no, endpoint.id)
    if found is None:
        raise NoSuch("endpoint", endpoint.id)
    return found


async def set_headers(
    deps: Deps, by: Caller, ref: Ref, headers: Mapping[str, str | None], *, merge: bool = False
) -> Endpoint:
    """Replace the custom headers. With `merge`, other headers stay, and a header with the value None is removed."""
    found = await find(deps, by, ref)

    def decide(current: Endpoint) -> EndpointChange:
        given = {name: value for name, value in headers.items() if value is not None}
        return EndpointChange(headers=_kept(check_opened(current).headers, headers) | given if merge else given)

    def note(before: Endpoint, after: Endpoint) -> NewAuditEntry:
        return audit.endpoint_entry(by, "headers", after, _changed_names(before.headers, after.headers))

    return await _save(deps, by, found, decide, note)


def _kept(current: Mapping[str, str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Return the current headers whose names are not in `given`. Names are compared without regard to case."""
    named = {name.lower() for name in given}
    return {name: value for name, value in current.items() if name.lower() not in named}


def _changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the names of the changed headers for the audit log. A removed header has a minus before its name."""
    gone = _kept(before, dict(after))
    names = [name for name, value in after.items() if before.get(name) != value] + [f"-{name}" for name in gone]
    return ", ".join(names)[:500]


async def delete(deps: Deps, by: Caller, ref: Ref) -> Endpoint:
    """Delete the endpoint. Its open deliveries become dead letters, which cannot be replayed."""
    found = await find(deps, by, ref)
    entry = audit.endpoint_entry(by, "delete", found, _where(found))
    await deps.store.catalogue.delete_endpoint(found.no, note=lambda _: entry)
    return found


# ── secret ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_secret(deps: Deps, by: Caller, ref: Ref) -> Endpoint:
    """Return the endpoint with its secrets. The audit log notes that the caller saw them."""
    found = check_opened(await find(deps, by, ref))
    await deps.store.access.add_audit([audit.endpoint_entry(by, "reveal_secret", found)])
    return found


async def show_alert_secret(deps: Deps, by: Caller) -> str:
    """Return the secret that signs alerts to HOOKLINE_ALERT_WEBHOOK_URL."""
    found = (await alert_channels.endpoints(deps.store)).get(WEBHOOK)
    if found is None:
        raise NotFound("alerts go to no webhook: set HOOKLINE_ALERT_WEBHOOK_URL")
    key = check_opened(found).secrets[0].key
    await deps.store.access.add_audit([audit.entry(by, "alert_webhook.reveal_secret", found.id)])
    return key


async def rotate_secret(
    deps: Deps, by: Caller, ref: Ref, *, overlap: timedelta = OVERLAP, key: str | None = None
) -> Endpoint:
    """Add a secret that signs at once. Earlier secrets also sign until the overlap ends. If `key` is None, a secret of
    the same kind is generated.

    This also repairs an endpoint whose stored secrets cannot be decrypted.
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
    """Return the endpoint. Raises `Conflict` if no key of this deployment decrypts its secrets and headers."""
    if not endpoint.secrets:
        raise Conflict(
            f"{endpoint.id}: its secrets cannot be opened here ({endpoint.status_reason}); rotate its secret"
        )
    return endpoint


def receiver_key(endpoint: Endpoint) -> str:
    """Return the key that a receiver verifies with. For Ed25519 this is the public key, never the private key."""
    key = endpoint.secrets[0].key
    return signing.public_key(key) if key.startswith(signing.PRIVATE_PREFIX) else key


# ── test event ────────────────────────────────────────────────────────────────────────────────────────────────────


async def send_test(deps: Deps, by: Caller, ref: EndpointRef, event_type: str) -> Message:
    """Send an example of the event type to this endpoint alone, even if it does not subscribe to the type."""
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
    checked = message_checks.check_message(new, now=now)
    return await deps.store.repair.send_example(endpoint.no, checked, note=lambda _: entry)


# ── operational webhooks ──────────────────────────────────────────────────────────────────────────────────────────


async def operational_application(store: Store, org_id: str) -> Application | None:
    """Return the application of the endpoints that receive the organization's operational webhooks, or None if it does
    not exist yet."""
    return await store.catalogue.application(operational_events.MANAGEMENT, org_id)


async def _operational_home(store: Store, org_id: str) -> Application:
    now = await store.now()
    management = Organization(id=operational_events.MANAGEMENT, name="operational webhooks", created_at=now)
    await store.catalogue.save_organization(management)
    await _save_operational_types(store, now)
    found = await operational_application(store, org_id)
    if found is not None:
        return found
    new = NewApplication(name=f"operational webhooks of {org_id}", uid=org_id)
    try:
        return await store.catalogue.create_application(operational_events.MANAGEMENT, new)
    except Conflict:  # another caller has just created the application
        return await _operational_home(store, org_id)


async def _save_operational_types(store: Store, now: datetime) -> None:
    known = await store.catalogue.event_types(operational_events.MANAGEMENT, Page(limit=250))
    names = {each.name for each in known}
    for kind, text in operational_events.DESCRIPTIONS.items():
        if kind.value not in names:
            made = EventType(
                org_id=operational_events.MANAGEMENT, name=kind.value, description=text, created_at=now, updated_at=now
            )
            await store.catalogue.save_event_type(made)


def _where(endpoint: Endpoint) -> str:
    """Return the URL for the audit log, or an empty text if the endpoint receives operational webhooks or alerts. The
    URLs of such endpoints are encrypted at rest."""
    return "" if endpoint.org_id == operational_events.MANAGEMENT else without_query(endpoint.url)
