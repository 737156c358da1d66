"""Store an event in the application's own transaction, for a worker that handles it later. A copy of it is ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, Unpack

from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter
from hookline.outbox.coroutines import run_sync
from hookline.receive.inbox import queries, wake
from hookline.receive.inbox.checks import checked_body, checked_event_type, checked_key, checked_scope, kept_headers
from hookline.receive.verify import Webhook


class AcceptOptions(TypedDict, total=False):
    """The options of `accept`, which documents them."""

    key: str | None
    event_type: str | None
    scope: str
    headers: Iterable[str]


def accept(conn: Any, webhook: Webhook | bytes, **options: Unpack[AcceptOptions]) -> bool:
    """Store an event for the worker in the open transaction of `conn`. Return False if it is a copy. Commit, then answer 200.

    webhook     the result of `Verifier.verify`, or the bytes of the body
    key         the id that all copies of the event share. The default is the webhook's own id
    event_type  the type that selects the handler. The default is the webhook's own type
    scope       the owner of the key, if several senders or tenants share the table
    headers     names of the headers that the handler needs. Other headers are not stored

    The keys of `accept` and `once` are separate: a handler may use the same key again for `once`.
    """
    return run_sync(_accept(adapters.of(conn), webhook, **options))


async def accept_async(conn: Any, webhook: Webhook | bytes, **options: Unpack[AcceptOptions]) -> bool:
    """Do the same as `accept` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    return await _accept(adapters.of_async(conn), webhook, **options)


async def _accept(
    on: Adapter,
    webhook: Webhook | bytes,
    *,
    key: str | None = None,
    event_type: str | None = None,
    scope: str = "",
    headers: Iterable[str] = (),
) -> bool:
    if isinstance(webhook, Webhook):
        key = webhook.id if key is None else key
        event_type = webhook.event_type if event_type is None else event_type
    values = (
        checked_scope(scope),
        checked_key(key),
        checked_event_type(event_type),
        checked_body(webhook.body if isinstance(webhook, Webhook) else webhook),
        kept_headers(webhook, headers),
    )
    await on.check()
    new = await queries.accept(on, *values)
    wake.wake_workers()
    return new
