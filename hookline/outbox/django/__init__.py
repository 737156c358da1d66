"""The outbox as a Django app: `INSTALLED_APPS += ["hookline.outbox.django"]`, then `manage.py migrate`.

    from django.db import transaction
    from hookline.outbox.django import publish

    with transaction.atomic():
        order = Order.objects.create(total="19.90")
        publish("acme", "order.paid", {"order": order.pk, "total": order.total})

The table is made by the app's migration, in every database that your routers let it into.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from hookline import outbox
from hookline.outbox.event import Event, event

__all__ = ["Event", "event", "publish", "publish_many"]


def publish(
    app: str,
    event_type: str,
    payload: Any,
    *,
    using: str = DEFAULT_DB_ALIAS,
    event_id: str | None = None,
    channels: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    ordering_key: str | None = None,
    deliver_at: datetime | None = None,
    max_age: float | timedelta | None = None,
    organization: str | None = None,
    trace: str | None = None,
) -> str:
    """`hookline.outbox.publish`, which says what the arguments mean, in the open transaction of the database `using`."""
    return outbox.publish(
        connections[using],
        app,
        event_type,
        payload,
        event_id=event_id,
        channels=channels,
        tags=tags,
        ordering_key=ordering_key,
        deliver_at=deliver_at,
        max_age=max_age,
        organization=organization,
        trace=trace,
    )


def publish_many(events: Iterable[Event], *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Several in one round trip: `publish_many([event("acme", "order.paid", {...}), ...])`."""
    return outbox.publish_many(connections[using], events)
