"""Plans: store methods that are written once and run on both engines.

A plan is a generator. It yields steps and gets the rows of each. A step is a statement's name in `store/sql` and its
values:

    class ApiKeys(Plans):
        @changes
        def revoke_api_key(self, org_id: str, key_id: str, *, note: Note[None] | None = None) -> Plan[None]:
            if not (yield Step("api_key_revoke", org_id=org_id, key_id=key_id)):
                raise NotFound("no such API key")
            yield from noted(note, None)

The decorators (`@reads`, `@searches`, `@snapshots`, `@changes`, `@searches_and_changes`) turn such a generator into
the async method that callers use. A part of the store (`store/parts.py`) lists the classes of its theme. The engine's
database runs the steps: SQLite's in the thread of the writer or of a reader, PostgreSQL's on one connection. A plan
that changes something is one transaction, and an exception rolls it back. PostgreSQL may run a plan twice if it lost a
deadlock, and SQLite if a text that it reads is not UTF-8. So a plan has no effects besides its steps.

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
    """A statement that is run once for each set of values. It returns no rows."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.values = values


class Bulk(Batch):
    """A `Batch` of many sets of values. PostgreSQL runs the statement once, with one array per name. It may return
    rows."""


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
        """Run every step of a plan and return its result. `plan` starts the plan, and may be called twice."""


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
    """As `reads`, for plans that read history: PostgreSQL must not use a sequential scan."""
    return _method(Run.SEARCH, written)


def snapshots(written: Written[S, P, T]) -> Method[S, P, T]:
    """As `reads`, for plans whose reads must all see the same state of the database."""
    return _method(Run.SNAPSHOT, written)


def changes(written: Written[S, P, T]) -> Method[S, P, T]:
    """Turn a plan into an async method that runs it in one transaction."""
    return _method(Run.CHANGE, written)


def searches_and_changes(written: Written[S, P, T]) -> Method[S, P, T]:
    """As `changes`, for plans that also read history: PostgreSQL must not use a sequential scan."""
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


def by_text(name: str, page: Page, /, **values: Any) -> Plan[list[Row]]:
    """Return a page of a listing whose iterator is a text, from the statement `name`, or `name_back` if read
    backwards. Rows are always in the listing's order."""
    against = page.backwards != page.descending
    start = page.iterator if page.iterator is not None else _LAST if against else _FIRST
    found = yield Step(f"{name}_back" if against else name, iterator=start, limit=page.limit, **values)
    return found[::-1] if page.backwards else found


def by_number(name: str, page: Page, /, *, newest_first: bool = False, **values: Any) -> Plan[list[Row]]:
    """Return a page of a listing whose iterator is a number. A page that is read backwards has the same order of rows
    as one that is read forwards."""
    number = after_number(page.iterator)
    start = number if number is not None else LAST_NUMBER if newest_first != page.backwards else 0
    found = yield Step(f"{name}_back" if page.backwards else name, iterator=start, limit=page.limit, **values)
    return found[::-1] if page.backwards else found
