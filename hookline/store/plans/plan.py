"""Plans: store methods that are written once and run on both engines.

A plan is a generator. It yields steps and gets the rows of each step. A step is the name of a statement in `store/sql`
and the values for the statement:

    class ApiKeys(Plans):
        @changes
        def revoke_api_key(self, org_id: str, key_id: str, *, note: Note[None] | None = None) -> Plan[None]:
            if not (yield Step("api_key_revoke", org_id=org_id, key_id=key_id)):
                raise NotFound("no such API key")
            yield from noted(note, None)

The decorators (`@reads`, `@searches`, `@snapshots`, `@changes`, `@searches_and_changes`) turn such a generator into
the async method that callers use. A part of the store (`store/parts.py`) lists the classes of its theme. The
engine runs the steps of a plan: the SQLite engine in the thread of the writer or of a reader, the PostgreSQL engine on
one connection. A plan that changes something is one transaction, and an exception rolls it back. The PostgreSQL engine
runs a plan again if PostgreSQL cancels its transaction because of a deadlock. The SQLite engine runs a reading plan
again if a text in a row is not UTF-8. So a plan has no effects besides its steps.

A plan never catches a database error, because a failed statement aborts a PostgreSQL transaction. If the database may
refuse a statement, the statement's rows must show this (`ON CONFLICT DO NOTHING RETURNING ...`). A plan must not
assume that it is the only writer. Values are Python values (instants, lists, enums) and the engine converts them.
`Plans._reading` converts the values of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from hookline.model.audit import Note
from hookline.security.vault import Vault
from hookline.store.bounds import LAST_NUMBER
from hookline.store.options import StoreOptions
from hookline.store.pages import Page, after_number
from hookline.store.rows import Reading, Row, audit_columns

T = TypeVar("T")
P = ParamSpec("P")

_FIRST, _LAST = "", "\U0010ffff"  # sort before and after every text


class Step:
    """A statement that is run once."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, /, **values: Any) -> None:
        self.name = name
        self.values: Mapping[str, Any] = values


class Batch:
    """A statement that is run once for each set of values. The plan gets no rows."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.values = values


class Bulk(Batch):
    """A statement for many sets of values. SQLite runs it once for each set. PostgreSQL runs it once, with an array of
    the values of all sets for each parameter. The plan gets the rows of all sets."""


Plan = Generator[Step | Batch, list[Row], T]


class LockTimeout(Exception):
    """A plan waited too long for a lock. It changed nothing."""


class Run(Enum):
    """How an engine runs a plan. SQLite only distinguishes reads from changes."""

    READ = "read"
    SEARCH = "search"  # reads history, so PostgreSQL must not use a sequential scan
    SNAPSHOT = "snapshot"  # only reads; PostgreSQL runs all steps of the plan in one transaction
    CHANGE = "change"
    SEARCH_AND_CHANGE = "search_and_change"


class Database(Protocol):
    """The database of either engine, as plans use it."""

    vault: Vault
    options: StoreOptions
    reading: Reading

    async def run_plan(self, plan: Callable[[], Plan[T]], run: Run) -> T:
        """Run every step of a plan and return its result. `plan` starts the plan. It is called again if the plan must run
        again."""


class Plans:
    """Plans of one theme. The decorators below turn each plan into an async method."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._vault = database.vault
        self._options = database.options
        self._reading = database.reading


S = TypeVar("S", bound=Plans)
Written = Callable[Concatenate[S, P], Plan[T]]
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


def _method(run: Run, written: Written[S, P, T]) -> Method[S, P, T]:
    @wraps(written)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.run_plan(lambda: written(self, *args, **kwargs), run)

    return method


def reads(written: Written[S, P, T]) -> Method[S, P, T]:
    """Turn a plan that changes nothing into an async method."""
    return _method(Run.READ, written)


def searches(written: Written[S, P, T]) -> Method[S, P, T]:
    """Do the same as `reads`, for plans that read history. PostgreSQL then avoids sequential scans."""
    return _method(Run.SEARCH, written)


def snapshots(written: Written[S, P, T]) -> Method[S, P, T]:
    """Do the same as `reads`, for plans whose statements must all see the same state of the database.

    On PostgreSQL, the plan's first step must set the isolation level REPEATABLE READ.
    """
    return _method(Run.SNAPSHOT, written)


def changes(written: Written[S, P, T]) -> Method[S, P, T]:
    """Turn a plan into an async method that runs it in one transaction."""
    return _method(Run.CHANGE, written)


def searches_and_changes(written: Written[S, P, T]) -> Method[S, P, T]:
    """Do the same as `changes`, for plans that also read history. PostgreSQL then avoids sequential scans."""
    return _method(Run.SEARCH_AND_CHANGE, written)


# ── steps that many plans take ────────────────────────────────────────────────────────────────────────────────────


def noted(note: Note[T] | None, result: T) -> Plan[T]:
    """Return the result of a change after writing its audit entry in the same transaction. Writing the entry is the
    last step of a change."""
    entry = None if note is None else note(result)
    if entry is not None:
        yield Step("audit_add", **audit_columns(entry))
    return result


def row(name: str, /, **values: Any) -> Plan[Row | None]:
    """Return the first row of a statement, or None."""
    found = yield Step(name, **values)
    return found[0] if found else None


def value(name: str, /, **values: Any) -> Plan[Any]:
    """Return the first column of the first row, or None if there is no row."""
    found: list[Any] = yield Step(name, **values)
    return found[0][0] if found else None


def in_direction(name: str, page: Page) -> str:
    """Return the name of the statement that reads the listing `name` in the direction of the page."""
    return f"{name}_back" if page.backwards else name


def by_text(name: str, page: Page, /, **values: Any) -> Plan[list[Row]]:
    """Return a page of a listing that is ordered by a text. `page.iterator` is the text after which the page begins
    (see `Page`).

    The statement `name` reads in ascending order, and the statement `name_back` in descending order. The returned rows
    are always in the order of the listing.
    """
    against = page.backwards != page.descending
    start = page.iterator if page.iterator is not None else _LAST if against else _FIRST
    found = yield Step(f"{name}_back" if against else name, iterator=start, limit=page.limit, **values)
    return found[::-1] if page.backwards else found


def by_number(name: str, page: Page, /, *, newest_first: bool = False, **values: Any) -> Plan[list[Row]]:
    """Return a page of a listing that is ordered by a number. `page.iterator` is the number after which the page
    begins (see `Page`).

    The statement `name` reads in the order of the listing, and the statement `name_back` in the reverse order. The
    returned rows are always in the order of the listing.
    """
    number = after_number(page.iterator)
    start = number if number is not None else LAST_NUMBER if newest_first != page.backwards else 0
    found = yield Step(in_direction(name, page), iterator=start, limit=page.limit, **values)
    return found[::-1] if page.backwards else found
