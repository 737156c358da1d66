"""Store now, handle later: the event is a row of the application's own transaction, and a copy of it is ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hookline import clock
from hookline.receive.inbox import adapters, plans, wake
from hookline.receive.inbox.checks import checked_body, checked_event_type, checked_key, checked_scope, kept_headers
from hookline.receive.inbox.statement import Engine
from hookline.receive.verify import Webhook


def accept(
    conn: Any,
    webhook: Webhook | bytes,
    *,
    key: str | None = None,
    event_type: str | None = None,
    scope: str = "",
    headers: Iterable[str] = (),
) -> bool:
    """Store an event for the worker in the open transaction of `conn`; False if it is a copy. Commit, then answer 200.

    webhook     what `Verifier.verify` returned, or the bytes of the body
    key         the id that is the same on every copy; by default the webhook's own
    event_type  which handler it is for; by default the webhook's own
    scope       whose key it is, where several senders or tenants share the table
    headers     names of headers that the handler needs; the others are not stored

    The keys are not those of `once`: a handler may use the same one for that again.
    """
    given = _given(webhook, key, event_type, scope, headers)
    on = adapters.of(conn)
    on.check()
    new = plans.run(on, given.plan(on.engine))
    wake.ring()
    return new


async def accept_async(
    conn: Any,
    webhook: Webhook | bytes,
    *,
    key: str | None = None,
    event_type: str | None = None,
    scope: str = "",
    headers: Iterable[str] = (),
) -> bool:
    """`accept` on a connection or session of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's async ones."""
    given = _given(webhook, key, event_type, scope, headers)
    on = adapters.of_async(conn)
    await on.check()
    new = await plans.run_async(on, given.plan(on.engine))
    wake.ring()
    return new


class _Given:
    def __init__(self, scope: str, key: str, event_type: str | None, body: bytes, headers: dict[str, str]) -> None:
        self._fields = (scope, key, event_type, body, headers)

    def plan(self, engine: Engine) -> plans.Plan[bool]:
        return plans.accept(engine, clock.wall(), *self._fields)


def _given(
    webhook: Webhook | bytes, key: str | None, event_type: str | None, scope: str, headers: Iterable[str]
) -> _Given:
    if isinstance(webhook, Webhook):
        key = webhook.id if key is None else key
        event_type = webhook.event_type if event_type is None else event_type
    return _Given(
        checked_scope(scope),
        checked_key(key),
        checked_event_type(event_type),
        checked_body(webhook.body if isinstance(webhook, Webhook) else webhook),
        kept_headers(webhook, headers),
    )
