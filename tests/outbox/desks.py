"""One class for each kind of database connection that `publish` accepts. All classes have the same methods."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
import psycopg2
import sqlalchemy as sa
from django.conf import settings as django_settings
from django.db import connections, transaction
from django.db.utils import load_backend
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from hookline import outbox
from hookline.outbox import Event

Body = Callable[[], Awaitable[object]]


class Undo(Exception):
    pass


class Desk:
    """One kind of database connection. `conn` is the object that `publish` gets. `begin` does nothing if the library
    begins a transaction by itself."""

    is_async = False
    conn: Any

    def __init__(self, url: str) -> None:
        self.url = url  # the path of a file, or postgresql://...

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.conn.close()

    async def begin(self) -> None:
        pass

    async def execute(self, statement: str) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        self.conn.commit()

    async def rollback(self) -> None:
        self.conn.rollback()

    async def nested(self, body: Body, *, undo: bool) -> None:
        """Run `body` in a savepoint, with the savepoint syntax of the library."""
        await self.execute("SAVEPOINT step")
        await body()
        if undo:
            await self.execute("ROLLBACK TO SAVEPOINT step")
        await self.execute("RELEASE SAVEPOINT step")

    async def commit_by_itself(self) -> None:
        """Switch to autocommit: each statement is committed alone."""
        raise NotImplementedError

    async def publish(self, *given: Any, **fields: Any) -> str:
        if self.is_async:
            return await outbox.publish_async(self.conn, *given, **fields)
        return outbox.publish(self.conn, *given, **fields)

    async def publish_many(self, events: list[Event]) -> list[str]:
        if self.is_async:
            return await outbox.publish_many_async(self.conn, events)
        return outbox.publish_many(self.conn, events)


# ── database drivers ──────────────────────────────────────────────────────────────────────────────────────────────


class Sqlite3(Desk):
    async def open(self) -> None:
        self.conn = sqlite3.connect(self.url)

    async def execute(self, statement: str) -> None:
        self.conn.execute(statement)

    async def commit_by_itself(self) -> None:
        self.conn.isolation_level = None


class Psycopg2(Desk):
    async def open(self) -> None:
        self.conn = psycopg2.connect(self.url)

    async def execute(self, statement: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(statement)

    async def commit_by_itself(self) -> None:
        self.conn.autocommit = True


class Psycopg(Desk):
    async def open(self) -> None:
        self.conn = psycopg.connect(self.url)

    async def execute(self, statement: str) -> None:
        self.conn.execute(statement)

    async def nested(self, body: Body, *, undo: bool) -> None:
        with self.conn.transaction():
            await body()
            if undo:
                raise psycopg.Rollback

    async def commit_by_itself(self) -> None:
        self.conn.autocommit = True


class PsycopgAsync(Desk):
    is_async = True

    async def open(self) -> None:
        self.conn = await psycopg.AsyncConnection.connect(self.url)

    async def close(self) -> None:
        await self.conn.close()

    async def execute(self, statement: str) -> None:
        await self.conn.execute(statement)

    async def commit(self) -> None:
        await self.conn.commit()

    async def rollback(self) -> None:
        await self.conn.rollback()

    async def nested(self, body: Body, *, undo: bool) -> None:
        async with self.conn.transaction():
            await body()
            if undo:
                raise psycopg.Rollback

    async def commit_by_itself(self) -> None:
        await self.conn.set_autocommit(True)


class Asyncpg(Desk):
    is_async = True

    async def open(self) -> None:
        self.conn = await asyncpg.connect(self.url)

    async def close(self) -> None:
        await self.conn.close()

    async def begin(self) -> None:
        self.transaction = self.conn.transaction()
        await self.transaction.start()

    async def execute(self, statement: str) -> None:
        await self.conn.execute(statement)

    async def commit(self) -> None:
        await self.transaction.commit()

    async def rollback(self) -> None:
        await self.transaction.rollback()

    async def nested(self, body: Body, *, undo: bool) -> None:
        with suppress(Undo):
            async with self.conn.transaction():
                await body()
                if undo:
                    raise Undo

    async def commit_by_itself(self) -> None:
        pass  # asyncpg always commits by itself outside a transaction.


class AsyncpgPool(Asyncpg):
    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.url, min_size=1, max_size=1)
        self.conn = await self.pool.acquire()

    async def close(self) -> None:
        await self.pool.release(self.conn)
        await self.pool.close()


# ── SQLAlchemy ────────────────────────────────────────────────────────────────────────────────────────────────────


def engine_url(url: str, driver: str) -> str:
    return f"sqlite+{driver}:///{url}" if "://" not in url else url.replace("postgresql://", f"postgresql+{driver}://")


class SaConnection(Desk):
    driver = "psycopg"

    async def open(self) -> None:
        self.engine = sa.create_engine(engine_url(self.url, self.driver))
        self.conn = self.given()

    def given(self) -> Any:
        return self.engine.connect()

    async def close(self) -> None:
        self.conn.close()
        self.engine.dispose()

    async def execute(self, statement: str) -> None:
        self.conn.execute(sa.text(statement))

    async def nested(self, body: Body, *, undo: bool) -> None:
        step = self.conn.begin_nested()
        await body()
        if undo:
            step.rollback()
        else:
            step.commit()

    async def commit_by_itself(self) -> None:
        self.conn = self.conn.execution_options(isolation_level="AUTOCOMMIT")


class SaConnectionPsycopg2(SaConnection):
    driver = "psycopg2"


class SaConnectionPysqlite(SaConnection):
    driver = "pysqlite"


class SaSession(SaConnection):
    def given(self) -> Any:
        return Session(self.engine)

    async def commit_by_itself(self) -> None:
        self.conn.connection(execution_options={"isolation_level": "AUTOCOMMIT"})


class SaSessionPsycopg2(SaSession):
    driver = "psycopg2"


class SaSessionPysqlite(SaSession):
    driver = "pysqlite"


class SaScoped(SaSession):
    def given(self) -> Any:
        return scoped_session(sessionmaker(self.engine))


class SaAsyncConnection(Desk):
    is_async = True
    driver = "asyncpg"

    async def open(self) -> None:
        self.engine: AsyncEngine = create_async_engine(engine_url(self.url, self.driver))
        self.conn = await self.given()

    async def given(self) -> Any:
        return await self.engine.connect()

    async def close(self) -> None:
        await self.conn.close()
        await self.engine.dispose()

    async def execute(self, statement: str) -> None:
        await self.conn.execute(sa.text(statement))

    async def commit(self) -> None:
        await self.conn.commit()

    async def rollback(self) -> None:
        await self.conn.rollback()

    async def nested(self, body: Body, *, undo: bool) -> None:
        step = await self.conn.begin_nested()
        await body()
        await (step.rollback() if undo else step.commit())

    async def commit_by_itself(self) -> None:
        self.conn = await self.conn.execution_options(isolation_level="AUTOCOMMIT")


class SaAsyncConnectionPsycopg(SaAsyncConnection):
    driver = "psycopg"


class SaAsyncConnectionAiosqlite(SaAsyncConnection):
    driver = "aiosqlite"


class SaAsyncSession(SaAsyncConnection):
    async def given(self) -> Any:
        return AsyncSession(self.engine)

    async def commit_by_itself(self) -> None:
        await self.conn.connection(execution_options={"isolation_level": "AUTOCOMMIT"})


class SaAsyncSessionAiosqlite(SaAsyncSession):
    driver = "aiosqlite"


class SaAsyncScoped(SaAsyncSession):
    async def given(self) -> Any:
        return async_scoped_session(async_sessionmaker(self.engine), scopefunc=lambda: 1)


# ── Django ────────────────────────────────────────────────────────────────────────────────────────────────────────


def django_database(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    given: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": url}
    if parts.scheme:
        given = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": parts.username,
        }
    left = {"ATOMIC_REQUESTS": False, "AUTOCOMMIT": True, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False, "OPTIONS": {}}
    return left | {"TIME_ZONE": None, "PASSWORD": "", "TEST": {}} | {"HOST": "", "PORT": "", "USER": ""} | given


class Django(Desk):
    """A Django connection under its own alias. A process can configure Django's settings only once, and other tests
    need them too, so the connection is created by hand."""

    alias = "shop"

    async def open(self) -> None:
        self.settings = django_settings._wrapped
        if not django_settings.configured:
            django_settings.configure(USE_TZ=True)
        # Django refuses database calls in an event loop. Only the loop of the tests runs here, so the calls are safe.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        given = django_database(self.url)
        self.conn = connections[self.alias] = load_backend(given["ENGINE"]).DatabaseWrapper(given, self.alias)

    async def close(self) -> None:
        self.conn.close()
        del connections[self.alias]
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        django_settings._wrapped = self.settings

    async def begin(self) -> None:
        self.block = transaction.atomic(using=self.alias)
        self.block.__enter__()

    async def execute(self, statement: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(statement)

    async def commit(self) -> None:
        self.block.__exit__(None, None, None)

    async def rollback(self) -> None:
        transaction.set_rollback(True, using=self.alias)
        self.block.__exit__(None, None, None)

    async def nested(self, body: Body, *, undo: bool) -> None:
        with suppress(Undo), transaction.atomic(using=self.alias):
            await body()
            if undo:
                raise Undo

    async def commit_by_itself(self) -> None:
        pass  # Django always commits by itself outside `atomic`.


POSTGRES: tuple[type[Desk], ...] = (
    Psycopg,
    PsycopgAsync,
    Psycopg2,
    Asyncpg,
    AsyncpgPool,
    SaConnection,
    SaConnectionPsycopg2,
    SaSession,
    SaSessionPsycopg2,
    SaScoped,
    SaAsyncConnection,
    SaAsyncConnectionPsycopg,
    SaAsyncSession,
    SaAsyncScoped,
    Django,
)
SQLITE: tuple[type[Desk], ...] = (
    Sqlite3,
    SaConnectionPysqlite,
    SaSessionPysqlite,
    SaAsyncConnectionAiosqlite,
    SaAsyncSessionAiosqlite,
    Django,
)


def new_file(path: Path, *, outbox_sql: str) -> str:
    """Create an SQLite file of an application."""
    with sqlite3.connect(path) as connection:
        connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE orders (n integer);" + outbox_sql)
    connection.close()
    return str(path)
