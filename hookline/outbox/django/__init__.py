"""The outbox as a Django app: `INSTALLED_APPS += ["hookline.outbox.django"]`, then `python manage.py migrate`.

    from django.db import transaction
    from hookline.outbox.django import publish

    with transaction.atomic():
        order = Order.objects.create(total="19.90")
        publish("acme", "order.paid", {"order": order.pk, "total": order.total})

The app's migration creates the table, in every database that your routers allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from django.db import DEFAULT_DB_ALIAS, connections

from hookline import outbox
from hookline.outbox.event import Event, EventOptions, event

__all__ = ["Event", "event", "publish", "publish_many"]


def publish(
    app: str, event_type: str, payload: Any, *, using: str = DEFAULT_DB_ALIAS, **options: Unpack[EventOptions]
) -> str:
    """Call `hookline.outbox.publish`, which documents the arguments, in the open transaction of the database
    `using`."""
    return outbox.publish(connections[using], app, event_type, payload, **options)


def publish_many(events: Iterable[Event], *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Write several events in one statement: `publish_many([event("acme", "order.paid", {...}), ...])`."""
    return outbox.publish_many(connections[using], events)
