"""Rows to models and back, for both engines. What differs between them (instants, lists, objects) is a `Reading`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hookline.errors import VaultError
from hookline.model import (
    Actor,
    ActorKind,
    ApiKey,
    Application,
    AppPace,
    Attempt,
    Attempted,
    DeadGroup,
    DeadLetter,
    DeadSummary,
    Delivery,
    Endpoint,
    EndpointName,
    EventType,
    Lane,
    LaneEvent,
    LaneEventKind,
    LaneView,
    Message,
    OnDeath,
    Ordering,
    Organization,
    PolicyOverride,
    Scheme,
    Scope,
    Secret,
    SetAside,
    Task,
    TaskKind,
    TaskStatus,
    TaskWork,
    TimelineEntry,
    Timing,
    Troubled,
)
from hookline.states import Circuit, DeliveryState, EndpointStatus, ErrorKind, Reason
from hookline.vault import Vault

T = TypeVar("T")


class Row(Protocol):
    """What both drivers return."""

    def __getitem__(self, name: str, /) -> Any: ...


class Reading(Struct, frozen=True):
    """How one engine's values become ours. None stays None."""

    instant: Callable[[Any], datetime]
    texts: Callable[[Any], tuple[str, ...]]


def _maybe(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)


# ── documents ─────────────────────────────────────────────────────────────────────────────────────────────────────

_policy_decoder = msgspec.json.Decoder(PolicyOverride)
_strings_decoder = msgspec.json.Decoder(dict[str, str])
_secrets_decoder = msgspec.json.Decoder(tuple[Secret, ...])


def policy_text(policy: PolicyOverride | None) -> str | None:
    """As JSON; None for one that overrides nothing."""
    if policy is None:
        return None
    text = msgspec.json.encode(policy).decode()
    return None if text == "{}" else text


def read_policy(text: str | None) -> PolicyOverride | None:
    return None if text is None else _policy_decoder.decode(text)


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def headers_blob(headers: dict[str, str]) -> bytes | None:
    """The response headers of interest. Bytes, because endpoints send what they like."""
    return _json_bytes(headers) if headers else None


def read_headers(blob: bytes | None) -> dict[str, str]:
    return {} if not blob else _strings_decoder.decode(blob)


def _json_bytes(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return msgspec.json.encode({_whole(name): _whole(text) for name, text in value.items()})


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


# ── sealed columns ────────────────────────────────────────────────────────────────────────────────────────────────


def seal_secrets(vault: Vault, endpoint_id: str, secrets: Sequence[Secret]) -> bytes:
    return vault.seal(msgspec.json.encode(list(secrets)), endpoint_id)


def seal_headers(vault: Vault, endpoint_id: str, headers: dict[str, str]) -> bytes | None:
    """Bound to its column too: the two ciphertexts of one row cannot be swapped."""
    return vault.seal(msgspec.json.encode(headers), f"{endpoint_id}/headers") if headers else None


def open_secrets(vault: Vault, endpoint_id: str, sealed: bytes) -> tuple[Secret, ...]:
    return _secrets_decoder.decode(vault.open(sealed, endpoint_id))


def open_headers(vault: Vault, endpoint_id: str, sealed: bytes | None) -> dict[str, str]:
    if sealed is None:
        return {}
    return _strings_decoder.decode(vault.open(sealed, f"{endpoint_id}/headers"))


CLAIM_BITS = 62  # of the fence of an answer: both engines hold it


def seal_answer(vault: Vault, key: bytes, response: bytes) -> bytes:
    """Whatever it is: some answers hold a secret that is shown once."""
    return vault.seal(response, f"answer/{key.hex()}")


def open_answer(vault: Vault, key: bytes, sealed: bytes | None) -> bytes:
    return b"" if sealed is None else vault.open(sealed, f"answer/{key.hex()}")


# ── catalogue ─────────────────────────────────────────────────────────────────────────────────────────────────────


def organization(row: Row, read: Reading) -> Organization:
    return Organization(
        id=row["id"],
        name=row["name"],
        created_at=read.instant(row["created_at"]),
        tokens_valid_after=_maybe(read.instant, row["tokens_valid_after"]),
    )


def application(row: Row, read: Reading) -> Application:
    return Application(
        no=row["no"],
        id=row["id"],
        org_id=row["org_id"],
        name=row["name"],
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
        uid=row["uid"],
        throttle_rate=row["throttle_rate"],
        metadata=_strings_decoder.decode(row["metadata"]),
        tokens_valid_after=_maybe(read.instant, row["tokens_valid_after"]),
    )


def event_type(row: Row, read: Reading) -> EventType:
    return EventType(
        org_id=row["org_id"],
        name=row["name"],
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
        description=row["description"],
        archived=bool(row["archived"]),
        deprecated=bool(row["deprecated"]),
        schemas=_maybe(msgspec.json.decode, row["schemas"]),
        feature_flags=read.texts(row["feature_flags"]),
        group_name=row["group_name"],
        policy=read_policy(row["policy"]),
        validated=bool(row["validated"]),
    )


def endpoint(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """With its secrets opened. Raises `VaultError` when no key opens them: see `endpoint_or_fault`."""
    return _endpoint(
        row,
        read,
        secrets=open_secrets(vault, row["id"], row["secrets"]),
        headers=open_headers(vault, row["id"], row["headers"]),
        status_reason=row["status_reason"],
    )


def endpoint_or_fault(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """For a worker: one whose secrets cannot be opened comes without any, and says why."""
    try:
        return endpoint(row, read, vault)
    except VaultError as fault:
        return _endpoint(row, read, secrets=(), headers={}, status_reason=str(fault))


def _endpoint(
    row: Row, read: Reading, *, secrets: tuple[Secret, ...], headers: dict[str, str], status_reason: str | None
) -> Endpoint:
    return Endpoint(
        no=row["no"],
        id=row["id"],
        app_no=row["app_no"],
        app_id=row["app_id"],
        org_id=row["org_id"],
        url=row["url"],
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
        uid=row["uid"],
        description=row["description"],
        version=row["version"],
        event_types=_maybe(read.texts, row["event_types"]),
        channels=_maybe(read.texts, row["channels"]),
        status=EndpointStatus(row["status"]),
        status_reason=status_reason,
        throttle_rate=row["throttle_rate"],
        concurrency=row["concurrency"],
        ordering=Ordering(row["ordering"]),
        on_death=OnDeath(row["on_death"]),
        scheme=Scheme(row["scheme"]),
        secrets=secrets,
        headers=headers,
        metadata=_strings_decoder.decode(row["metadata"]),
        policy=read_policy(row["policy"]),
        revision=row["revision"],
    )


def api_key(row: Row, read: Reading) -> ApiKey:
    return ApiKey(
        id=row["id"],
        org_id=row["org_id"],
        name=row["name"],
        scope=Scope(row["scope"]),
        hint=row["hint"],
        created_at=read.instant(row["created_at"]),
        app_id=row["app_id"],
        expires_at=_maybe(read.instant, row["expires_at"]),
        last_used_at=_maybe(read.instant, row["last_used_at"]),
    )


# ── messages and deliveries ───────────────────────────────────────────────────────────────────────────────────────


def message(row: Row, read: Reading) -> Message:
    return Message(
        seq=row["seq"],
        id=row["id"],
        app_no=row["app_no"],
        app_id=row["app_id"],
        event_type=row["event_type"],
        payload=row["payload"],
        created_at=read.instant(row["created_at"]),
        event_id=row["event_id"],
        channels=_maybe(read.texts, row["channels"]),
        tags=_maybe(read.texts, row["tags"]),
        ordering_key=row["ordering_key"],
        deliver_at=_maybe(read.instant, row["deliver_at"]),
        policy=read_policy(row["policy"]),
        trace=row["trace"],
        size=None if row["payload"] is None else len(row["payload"]),
    )


def listed_message(row: Row, read: Reading) -> Message:
    """Of a statement that reads the payload's size in its place."""
    return replace(message(row, read), size=row["size"])


def attempted(row: Row, read: Reading) -> Attempted:
    return Attempted(
        message=listed_message(row, read),
        attempt_id=row["attempt_id"],
        attempted_at=read.instant(row["attempted_at"]),
        state=DeliveryState(row["state"]),
        next_at=_maybe(read.instant, row["next_at"]),
    )


def endpoint_name(row: Row) -> EndpointName:
    return EndpointName(
        id=row["id"],
        url=row["url"],
        description=row["description"],
        app_id=row["app_id"],
        app_name=row["app_name"],
        org_id=row["org_id"],
        deleted=bool(row["deleted"]),
    )


def delivery(row: Row, read: Reading) -> Delivery:
    return Delivery(
        id=row["id"],
        state=DeliveryState(row["state"]),
        app_no=row["app_no"],
        endpoint_no=row["endpoint_no"],
        endpoint_id=row["endpoint_id"],
        message_id=row["message_id"],
        event_type=row["event_type"],
        attempts=row["attempts"],
        sent=row["sent"],
        accepted_at=read.instant(row["message_at"]),
        due_at=_maybe(read.instant, row["due_at"]),
        expires_at=_maybe(read.instant, row["expires_at"]),
        finished_at=_maybe(read.instant, row["finished_at"]),
        reason=_maybe(Reason, row["reason"]),
        detail=row["detail"],
        held=bool(row["held"]),
    )


def attempt(row: Row, read: Reading) -> Attempt:
    return Attempt(
        id=row["id"],
        delivery_id=row["delivery_id"],
        message_id=row["message_id"],
        endpoint_no=row["endpoint_no"],
        endpoint_id=row["endpoint_id"],
        endpoint_url=row["endpoint_url"],
        event_type=row["event_type"],
        number=row["number"],
        trigger=row["trigger"],
        outcome=row["outcome"],
        probe=bool(row["probe"]),
        started_at=read.instant(row["started_at"]),
        status_code=row["status_code"],
        error=_maybe(ErrorKind, row["error"]),
        detail=row["detail"],
        address=row["address"],
        response_headers=read_headers(row["response_headers"]),
        response_body=row["response_body"] or b"",
        truncated=bool(row["truncated"]),
        timing=Timing(
            dns=row["dns_us"],
            connect=row["connect_us"],
            tls=row["tls_us"],
            first_byte=row["first_byte_us"],
            total=row["total_us"],
        ),
    )


def dead_letter(row: Row, read: Reading) -> DeadLetter:
    return DeadLetter(
        id=row["id"],
        app_no=row["app_no"],
        app_id=row["app_id"],
        endpoint_no=row["endpoint_no"],
        endpoint_id=row["endpoint_id"],
        endpoint_url=row["endpoint_url"],
        message_id=row["message_id"],
        event_type=row["event_type"],
        reason=Reason(row["reason"]),
        detail=row["detail"],
        attempts=row["attempts"],
        sent=row["sent"],
        accepted_at=read.instant(row["message_at"]),
        died_at=read.instant(row["died_at"]),
        last_status=row["last_status"],
        resolved_at=_maybe(read.instant, row["resolved_at"]),
        note=row["note"],
    )


def dead_summary(found: Sequence[Row], looked: int, read: Reading) -> DeadSummary:
    """`looked`: at how many of them at most."""
    groups = tuple(
        DeadGroup(
            app_id=row["app_id"],
            endpoint_no=row["endpoint_no"],
            endpoint_id=row["endpoint_id"],
            endpoint_url=row["endpoint_url"],
            reason=Reason(row["reason"]),
            dead=row["dead"],
            oldest=read.instant(row["oldest"]),
        )
        for row in found
    )
    return DeadSummary(groups=groups, more=sum(group.dead for group in groups) >= looked)


def set_aside(row: Row, read: Reading) -> SetAside:
    return SetAside(
        id=row["id"],
        org_id=row["org_id"],
        app=row["app"],
        event_type=row["event_type"],
        event_id=row["event_id"],
        payload=row["payload"],
        reason=row["error"],
        source=row["source"],
        created_at=read.instant(row["created_at"]),
        set_aside_at=_maybe(read.instant, row["set_aside_at"]),
    )


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_work_decoder = msgspec.json.Decoder(TaskWork)


def task(row: Row, read: Reading) -> Task:
    return Task(
        id=row["id"],
        org_id=row["org_id"],
        app_no=row["app_no"],
        app_id=row["app_id"],
        endpoint_no=row["endpoint_no"],
        endpoint_id=row["endpoint_id"],
        kind=TaskKind(row["kind"]),
        status=TaskStatus(row["status"]),
        work=_work_decoder.decode(row["params"]),
        done=row["done"],
        skipped=row["skipped"],
        total=row["total"],
        position=row["position"],
        error=row["error"],
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
    )


# ── lanes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

# What claim, record and sweep may change, in the order in which `lane_write` takes it.
LANE_WRITTEN = (
    "status",
    "revision",
    "circuit",
    "epoch",
    "failures",
    "failing_since",
    "trips",
    "opened_at",
    "probe_at",
    "window",
    "window_at",
    "in_flight",
    "waiting_floor",
    "tat",
    "held_until",
    "pace",
    "pace_at",
    "pace_top",
    "slowed_at",
    "turn_at",
)


def lane(row: Row, read: Reading) -> Lane:
    instant = read.instant
    return Lane(
        endpoint_no=row["endpoint_no"],
        app_no=row["app_no"],
        status=EndpointStatus(row["status"]),
        revision=row["revision"],
        circuit=Circuit(row["circuit"]),
        epoch=row["epoch"],
        failures=row["failures"],
        failing_since=_maybe(instant, row["failing_since"]),
        trips=row["trips"],
        opened_at=_maybe(instant, row["opened_at"]),
        probe_at=_maybe(instant, row["probe_at"]),
        window=row["window"],
        window_at=_maybe(instant, row["window_at"]),
        in_flight=row["in_flight"],
        waiting_floor=_maybe(instant, row["waiting_floor"]),
        throttle_rate=row["throttle_rate"],
        concurrency=row["concurrency"],
        tat=_maybe(instant, row["tat"]),
        held_until=_maybe(instant, row["held_until"]),
        pace=row["pace"],
        pace_at=_maybe(instant, row["pace_at"]),
        pace_top=row["pace_top"],
        slowed_at=_maybe(instant, row["slowed_at"]),
        app_rate=row["app_rate"],
        turn_at=_maybe(instant, row["turn_at"]),
    )


def app_pace(row: Row, read: Reading) -> AppPace:
    return AppPace(
        app_no=row["app_no"], tat=_maybe(read.instant, row["tat"]), tail_at=_maybe(read.instant, row["tail_at"])
    )


def lane_view(row: Row, read: Reading) -> LaneView:
    return LaneView(
        lane=lane(row, read),
        endpoint_id=row["endpoint_id"],
        url=row["url"],
        app_id=row["app_id"],
        depth=row["depth"],
        oldest_due=_maybe(read.instant, row["oldest_due"]),
        last_error=row["last_error"],
    )


def troubled(view: LaneView, row: Row, read: Reading) -> Troubled:
    return Troubled(
        view=view,
        org_id=row["org_id"],
        app_name=row["app_name"],
        dead=row["dead"],
        dead_since=_maybe(read.instant, row["dead_since"]),
        stopped_at=_maybe(read.instant, row["stopped_at"]),
    )


def lane_event(row: Row, read: Reading) -> LaneEvent:
    return LaneEvent(
        endpoint_no=row["endpoint_no"],
        at=read.instant(row["at"]),
        kind=LaneEventKind(row["kind"]),
        cause=row["cause"],
        actor=None if row["actor"] is None else Actor(kind=ActorKind(row["actor"]), name=row["actor_name"]),
    )


def timeline_entry(row: Row, read: Reading) -> TimelineEntry:
    return TimelineEntry(id=row["id"], event=lane_event(row, read))


def actor(event: LaneEvent) -> tuple[str | None, str | None]:
    """As its columns have it."""
    return (None, None) if event.actor is None else (event.actor.kind.value, event.actor.name)
