"""Deliveries that a worker gets in the transaction that accepts their message."""

from __future__ import annotations

from datetime import datetime

from hookline.model.deliveries import LeasedDelivery
from hookline.model.messages import NewMessage
from hookline.model.policy import PolicyOverride


def handed_over(
    message: NewMessage,
    *,
    delivery_id: int,
    claim: int,
    endpoint_no: int,
    revision: int,
    epoch: int,
    now: datetime,
    lease_until: datetime,
    due_at: datetime,
    expires_at: datetime,
    policy: PolicyOverride | None,
) -> LeasedDelivery:
    return LeasedDelivery(
        delivery_id=delivery_id,
        claim=claim,
        message_id=message.id,
        app_no=message.app_no,
        endpoint_no=endpoint_no,
        revision=revision,
        event_type=message.event_type,
        payload=message.payload,
        attempts=0,
        sent=0,
        accepted_at=now,
        expires_at=expires_at,
        claimed_at=now,
        lease_until=lease_until,
        due_at=due_at,
        epoch=epoch,
        counted=False,
        probe=False,
        trigger=0,
        policy=policy,
        trace=message.trace,
    )
