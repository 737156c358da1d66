"""An application's own PostgreSQL database with an outbox, as the transactions of the application see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.support import factory

# A trigger that ends the session that deletes outbox rows, at the DELETE or at the COMMIT. A sequence counts the ended
# sessions, because a rollback does not reset it.
_CRASHES = """
CREATE SEQUENCE crashes;
CREATE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('crashes') <= {times} THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
    RETURN NULL;
END $$;
CREATE {trigger} EXECUTE FUNCTION crash();
"""
_CLEAR = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP FUNCTION IF EXISTS crash() CASCADE;
DROP SEQUENCE IF EXISTS crashes;
TRUNCATE hookline.outbox;
"""
CRASH_AT_DELETE = "TRIGGER crash AFTER DELETE ON hookline.outbox FOR EACH STATEMENT"
CRASH_AT_COMMIT = "CONSTRAINT TRIGGER crash AFTER DELETE ON hookline.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"


class ShopDatabase:
    def __init__(self, url: str, connection: Any) -> None:
        self.url = url
        self.connection = connection

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[ShopDatabase]:
        connection = await asyncpg.connect(url)
        try:
            yield cls(url, connection)
        finally:
            await connection.close()

    async def publish(self, app: str, count: int = 1, **fields: Any) -> list[str]:
        """Publish events by calling the SQL function, as programs in any language can. Return the event ids."""
        given = {"event_type": "order.paid"} | fields
        names = ", ".join(f"{name} => ${at}" for at, name in enumerate(given, 3))
        call = f"SELECT hookline.publish(app => $1, payload => $2::text, {names})"
        payloads = [f'{{"n": {factory.number()}}}' for _ in range(count)]
        return [await self.connection.fetchval(call, app, payload, *given.values()) for payload in payloads]

    async def write(self, app: str, **fields: str) -> None:
        """Insert a row by hand. Each field is an SQL expression."""
        given = {"app": f"'{app}'", "event_type": "'order.paid'", "payload": "'{}'"} | fields
        await self.connection.execute(
            f"INSERT INTO hookline.outbox ({', '.join(given)}) VALUES ({', '.join(given.values())})"
        )

    async def waiting(self) -> int:
        count: int = await self.connection.fetchval("SELECT count(*) FROM hookline.outbox")
        return count

    async def clear(self) -> None:
        await self.connection.execute(_CLEAR)

    async def crash_relays(self, trigger: str, times: int) -> None:
        await self.connection.execute(_CRASHES.format(trigger=trigger, times=times))
