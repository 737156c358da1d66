"""Rows of messages, deliveries, attempts and dead letters."""

from __future__ import annotations

from collections.abc import Sequence

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
from hookline.store.rows.documents import read_headers, read_policy
from hookline.store.rows.reading import Reading, Row, struct_of


def message(row: Row, read: Reading) -> Message:
    size = None if row["payload"] is None else len(row["payload"])
    return struct_of(Message, row, read, policy=read_policy(row["policy"]), size=size)


def listed_message(row: Row, read: Reading) -> Message:
    """Read a message without its payload. The statement returns the payload's size instead."""
    return struct_of(Message, row, read, policy=read_policy(row["policy"]))


def attempted(row: Row, read: Reading) -> Attempted:
    return struct_of(Attempted, row, read, message=listed_message(row, read))


def endpoint_name(row: Row, read: Reading) -> EndpointName:
    return struct_of(EndpointName, row, read)


def delivery(row: Row, read: Reading) -> Delivery:
    return struct_of(Delivery, row, read, accepted_at=read.instant(row["message_at"]))


def attempt(row: Row, read: Reading) -> Attempt:
    return struct_of(
        Attempt,
        row,
        read,
        response_headers=read_headers(row["response_headers"]),
        response_body=row["response_body"] or b"",
        timing=Timing(**{name: row[f"{name}_us"] for name in Timing.__struct_fields__}),
    )


def dead_letter(row: Row, read: Reading) -> DeadLetter:
    return struct_of(DeadLetter, row, read, accepted_at=read.instant(row["message_at"]))


def dead_summary(found: Sequence[Row], limit: int, read: Reading) -> DeadSummary:
    """Build a summary of dead letters. At most `limit` of them were read."""
    groups = tuple(struct_of(DeadGroup, row, read) for row in found)
    return DeadSummary(groups=groups, more=sum(group.dead for group in groups) >= limit)


def set_aside(row: Row, read: Reading) -> SetAside:
    return struct_of(SetAside, row, read, reason=row["error"])
