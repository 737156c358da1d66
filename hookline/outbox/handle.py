"""Any connection or session that `publish` takes, for what is rarely done with it: set the outbox up, or look into it.

Nothing is committed. Where a look opens a transaction that was not there before, it is ended again: what the connection's
owner begins next must not turn out to be a savepoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hookline.outbox.errors import UnknownConnection

if TYPE_CHECKING:
    from sqlalchemy import Connection

Engine = Literal["postgres", "sqlite"]
Rows = list[tuple[Any, ...]]

_VENDORS: dict[str, Engine] = {"postgresql": "postgres", "sqlite": "sqlite"}


class Handle(Protocol):
    @property
    def engine(self) -> Engine: ...
    def fetch(self, query: str) -> Rows: ...
    def run(self, statements: Sequence[str]) -> None: ...


class AsyncHandle(Protocol):
    async def engine(self) -> Engine: ...
    async def fetch(self, query: str) -> Rows: ...
    async def run(self, statements: Sequence[str]) -> None: ...


def handle(conn: Any) -> Handle:
    made: Handle = _found(conn, _SYNC, "the async one")(conn)
    return made


def handle_async(conn: Any) -> AsyncHandle:
    made: AsyncHandle = _found(conn, _ASYNC, "the one that is not async")(conn)
    return made


def _found(conn: Any, handles: dict[tuple[str, str], Any], twin: str) -> Any:
    """Of the nearest class that is one of theirs: a subclass or a proxy of a pool is as good."""
    packages = {package for package, _ in [*_SYNC, *_ASYNC]}
    for kind in type(conn).__mro__:
        package = kind.__module__.partition(".")[0]
        name = kind.__name__
        for (known, names), made in handles.items():
            if known == package and name in names.split():
                return made
    package = type(conn).__module__.partition(".")[0]
    hint = f"; try {twin}" if package in packages else ""
    raise UnknownConnection(f"{package}.{type(conn).__qualname__} cannot be used here{hint}")


def engine_of(vendor: str) -> Engine:
    try:
        return _VENDORS[vendor]
    except KeyError:
        raise UnknownConnection(f"the outbox needs PostgreSQL or SQLite, not {vendor}") from None


def script(statements: Sequence[str]) -> str:
    """Several in one go: PostgreSQL makes one transaction of them even where each would commit by itself."""
    return "\n;\n".join(statements)


# ── one class for each library ────────────────────────────────────────────────────────────────────────────────────


class _Sqlite:
    engine: Engine = "sqlite"

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def fetch(self, query: str) -> Rows:
        cursor = self._conn.cursor()
        cursor.row_factory = None
        rows: Rows = cursor.execute(query).fetchall()
        return rows

    def run(self, statements: Sequence[str]) -> None:
        for statement in statements:  # executescript would commit first
            self._conn.execute(statement)


class _Psycopg:
    engine: Engine = "postgres"

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def fetch(self, query: str) -> Rows:
        idle = _is_idle(self._conn)
        with self._conn.cursor(row_factory=_tuple_row()) as cursor:
            rows: Rows = cursor.execute(query).fetchall()
        if idle:
            self._conn.rollback()
        return rows

    def run(self, statements: Sequence[str]) -> None:
        self._conn.execute(script(statements))


class _AsyncPsycopg:
    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def engine(self) -> Engine:
        return "postgres"

    async def fetch(self, query: str) -> Rows:
        idle = _is_idle(self._conn)
        async with self._conn.cursor(row_factory=_tuple_row()) as cursor:
            await cursor.execute(query)
            rows: Rows = await cursor.fetchall()
        if idle:
            await self._conn.rollback()
        return rows

    async def run(self, statements: Sequence[str]) -> None:
        await self._conn.execute(script(statements))


def _is_idle(conn: Any) -> bool:
    from psycopg.pq import TransactionStatus

    return conn.info.transaction_status == TransactionStatus.IDLE and not conn.autocommit


def _tuple_row() -> Any:
    from psycopg.rows import tuple_row

    return tuple_row


class _Psycopg2:
    engine: Engine = "postgres"

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def fetch(self, query: str) -> Rows:
        from psycopg2 import extensions

        idle = self._conn.status == extensions.STATUS_READY and not self._conn.autocommit
        with self._conn.cursor(cursor_factory=extensions.cursor) as cursor:
            cursor.execute(query)
            rows: Rows = cursor.fetchall()
        if idle:
            self._conn.rollback()
        return rows

    def run(self, statements: Sequence[str]) -> None:
        with self._conn.cursor() as cursor:
            cursor.execute(script(statements))


class _Asyncpg:
    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def engine(self) -> Engine:
        return "postgres"

    async def fetch(self, query: str) -> Rows:
        return [tuple(row) for row in await self._conn.fetch(query)]

    async def run(self, statements: Sequence[str]) -> None:
        await self._conn.execute(script(statements))


class _Django:
    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @property
    def engine(self) -> Engine:
        return engine_of(self._conn.vendor)

    def fetch(self, query: str) -> Rows:
        with self._conn.cursor() as cursor:
            cursor.execute(query)
            rows: Rows = cursor.fetchall()
        return rows

    def run(self, statements: Sequence[str]) -> None:
        with self._conn.cursor() as cursor:
            for statement in [script(statements)] if self.engine == "postgres" else statements:
                cursor.execute(statement)


class _SqlAlchemy:
    """A Connection. Statements go one by one: its asyncpg dialect prepares each."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    @property
    def engine(self) -> Engine:
        return engine_of(self._conn.dialect.name)

    def fetch(self, query: str) -> Rows:
        idle = not self._conn.in_transaction()
        rows = [tuple(row) for row in self._execute(query)]
        if idle:
            self._conn.rollback()
        return rows

    def run(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._execute(statement)

    def _execute(self, statement: str) -> Any:
        return self._conn.exec_driver_sql(statement, execution_options={"no_parameters": True})


class _SqlAlchemySession:
    """Looks through a connection beside it while no transaction is open: to end one would expire every object it has."""

    def __init__(self, session: Any) -> None:
        self._session = session() if callable(session) else session  # a scoped session is called for the real one

    @property
    def engine(self) -> Engine:
        return engine_of(self._session.get_bind().dialect.name)

    def fetch(self, query: str) -> Rows:
        from sqlalchemy import Engine as Bind

        if self._session.in_transaction():
            return _SqlAlchemy(self._session.connection()).fetch(query)
        bind = self._session.get_bind()
        if not isinstance(bind, Bind):  # the connection of a test, in whose transaction the session's are
            return _SqlAlchemy(bind).fetch(query)
        with bind.connect() as connection:
            return _SqlAlchemy(connection).fetch(query)

    def run(self, statements: Sequence[str]) -> None:
        _SqlAlchemy(self._session.connection()).run(statements)


class _SqlAlchemyAsync:
    """Its sync side, run as SQLAlchemy runs it."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn() if callable(conn) else conn

    async def engine(self) -> Engine:
        engine: Engine = await self._conn.run_sync(lambda conn: handle(conn).engine)
        return engine

    async def fetch(self, query: str) -> Rows:
        rows: Rows = await self._conn.run_sync(lambda conn: handle(conn).fetch(query))
        return rows

    async def run(self, statements: Sequence[str]) -> None:
        await self._conn.run_sync(lambda conn: handle(conn).run(statements))


# By the package and the names of its classes.
_SYNC: dict[tuple[str, str], Any] = {
    ("sqlite3", "Connection"): _Sqlite,
    ("psycopg", "Connection"): _Psycopg,
    ("psycopg2", "connection"): _Psycopg2,
    ("sqlalchemy", "Connection"): _SqlAlchemy,
    ("sqlalchemy", "Session scoped_session"): _SqlAlchemySession,
    ("django", "BaseDatabaseWrapper ConnectionProxy"): _Django,
}
_ASYNC: dict[tuple[str, str], Any] = {
    ("psycopg", "AsyncConnection"): _AsyncPsycopg,
    ("asyncpg", "Connection PoolConnectionProxy"): _Asyncpg,
    ("sqlalchemy", "AsyncConnection AsyncSession async_scoped_session"): _SqlAlchemyAsync,
}
