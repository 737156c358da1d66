"""Rows of messages, deliveries, attempts and dead letters."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from hookline.model import (
    Attempt,
    Attempted,
    DeadGroup,
    DeadLetter,
    DeadSummary,
    Delivery,
    EndpointName,
    Message,
    SetAside,
    Timing,
)
from hookline.model.states import DeliveryState, ErrorKind, Reason
from hookline.store.rows.documents import read_headers, read_policy
from hookline.store.rows.reading import Reading, Row, maybe


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
        channels=maybe(read.texts, row["channels"]),
        tags=maybe(read.texts, row["tags"]),
        ordering_key=row["ordering_key"],
        deliver_at=maybe(read.instant, row["deliver_at"]),
        policy=read_policy(row["policy"]),
        trace=row["trace"],
        size=None if row["payload"] is None else len(row["payload"]),
    )


def listed_message(row: Row, read: Reading) -> Message:
    """Read a message without its payload. The statement returns the payload's size instead."""
    return replace(message(row, read), size=row["size"])


def attempted(row: Row, read: Reading) -> Attempted:
    return Attempted(
        message=listed_message(row, read),
        attempt_id=row["attempt_id"],
        attempted_at=read.instant(row["attempted_at"]),
        state=DeliveryState(row["state"]),
        next_at=maybe(read.instant, row["next_at"]),
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
        due_at=maybe(read.instant, row["due_at"]),
        expires_at=maybe(read.instant, row["expires_at"]),
        finished_at=maybe(read.instant, row["finished_at"]),
        reason=maybe(Reason, row["reason"]),
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
        error=maybe(ErrorKind, row["error"]),
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
        resolved_at=maybe(read.instant, row["resolved_at"]),
        note=row["note"],
    )


def dead_summary(found: Sequence[Row], limit: int, read: Reading) -> DeadSummary:
    """Build a summary of dead letters. At most `limit` of them were read."""
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
    return DeadSummary(groups=groups, more=sum(group.dead for group in groups) >= limit)


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
        set_aside_at=maybe(read.instant, row["set_aside_at"]),
    )
