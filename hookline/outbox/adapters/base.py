"""The interface of all adapters: a connection or session of one library, with awaitable methods.

The methods of an adapter for a synchronous library may block, but they never suspend. So `run_sync` can run code that
uses them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Literal

from hookline.outbox.coroutines import settled
from hookline.outbox.errors import UnknownConnection

Engine = Literal["postgres", "sqlite"]
Rows = list[tuple[Any, ...]]
Values = Mapping[str, Any]

_ENGINES: dict[str, Engine] = {"postgresql": "postgres", "sqlite": "sqlite"}
_NAME = re.compile(r":([a-z_]+)")

_SAVE = "SAVEPOINT hookline_inbox"
_ROLL_BACK = "ROLLBACK TO SAVEPOINT hookline_inbox"
_RELEASE = "RELEASE SAVEPOINT hookline_inbox"
_ENDED = "Do not commit or roll back the transaction inside the block of `once`. End it after the block."


def engine_of(vendor: str) -> Engine:
    """Return the engine for `vendor`, the name that SQLAlchemy and Django use."""
    try:
        return _ENGINES[vendor]
    except KeyError:
        raise UnknownConnection(f"Hookline needs PostgreSQL or SQLite, not {vendor}") from None


class Statement:
    """One SQL statement, with its parameters written in the style of each driver.

    `text` has parameters as `:name`. It has no percent sign, and no other colons.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._names = _NAME.findall(text)
        self._distinct = list(dict.fromkeys(self._names))
        self.percent = _NAME.sub("%s", text)
        self.numbered = _NAME.sub(lambda name: f"${self._distinct.index(name[1]) + 1}", text)

    def for_percent(self, values: Values) -> list[Any] | None:
        """Return the values for `percent`, or None if the statement has no parameters."""
        return [values[name] for name in self._names] or None

    def for_numbered(self, values: Values) -> list[Any]:
        """Return the values of the parameters in `numbered`: of `$1`, `$2` and so on."""
        return [values[name] for name in self._distinct]


class Adapter(ABC):
    """A connection or session of the application."""

    engine: Engine = "postgres"

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @abstractmethod
    async def check(self) -> None:
        """Raise `NotInTransaction` if the connection commits each statement by itself."""

    @abstractmethod
    async def fetch(self, statement: Statement, values: Values) -> Rows:
        """Run a statement and return its rows, as tuples."""

    @abstractmethod
    async def run(self, statements: Sequence[str]) -> None:
        """Run statements without parameters. PostgreSQL runs them in one transaction, even in autocommit mode."""

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Begin a transaction.

        Commit it after the block, or roll it back if the block raises. The connection must have no open transaction.
        """

    async def peek(self, query: str) -> Rows:
        """Return the rows of a query. If the query opens a transaction, end it again.

        Otherwise the transaction that the application begins next would only be a savepoint.
        """
        opens = self._opens_transaction()
        rows = await self.fetch(Statement(query), {})
        if opens:
            await settled(self._conn.rollback())
        return rows

    async def prune(self) -> None:
        """Delete relayed events from the outbox of a SQLite file. Only adapters for SQLite can do it."""
        raise NotImplementedError

    @asynccontextmanager
    async def nested(self) -> AsyncIterator[None]:
        """Set a savepoint, in a new transaction if none is open. If the block raises, roll back to the savepoint."""
        savepoint = await self._save()
        try:
            yield
        except BaseException:
            with suppress(Exception):  # if the rollback fails, the transaction cannot be committed either
                await self._roll_back(savepoint)
            raise
        try:
            await self._release(savepoint)
        except Exception as error:
            error.add_note(_ENDED)
            raise

    def _opens_transaction(self) -> bool:
        """Return whether a query would begin a transaction that stays open after it."""
        return False

    async def _save(self) -> Any:
        await self.run([_SAVE])

    async def _roll_back(self, _savepoint: Any) -> None:
        await self.run([_ROLL_BACK])
        await self.run([_RELEASE])

    async def _release(self, _savepoint: Any) -> None:
        await self.run([_RELEASE])


def script(statements: Sequence[str]) -> str:
    """Join statements. PostgreSQL runs the result in one transaction, even in autocommit mode."""
    return "\n;\n".join(statements)
