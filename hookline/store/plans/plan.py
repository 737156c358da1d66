"""How a method of the store is written once and runs on both engines.

A plan is a generator. It yields steps (the name of a statement in `store/sql`, and its values) and gets the rows of each:

    class ApiKeys(Shared):
        @changes
        def revoke_api_key(self, org_id: str, key_id: str, *, note: Note[None] | None = None) -> Plan[None]:
            if not (yield Step("api_key_revoke", org_id=org_id, key_id=key_id)):
                raise NotFound("no such API key")
            yield from noted(note, None)

`@changes` and `@reads` turn such a generator into the async method that callers see. The engine runs its steps:
`sqlite/database.py` in the writer's or in a reader's thread, `postgres/database.py` on a calm connection. What changes
something is one transaction, and an exception undoes all of it. PostgreSQL may run a plan twice, if it lost a deadlock.

A plan never catches an error of the database, because a statement that failed ends a PostgreSQL transaction: a statement that
may be refused says so by the rows that it returns (`ON CONFLICT DO NOTHING RETURNING ...`). Nor may a plan assume that it is
the only writer. Values are ours (instants, lists, enums); the engine converts them. `Shared._reading` reads what comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from hookline.model.audit import Note
from hookline.security.vault import Vault
from hookline.store.protocols import LAST_NUMBER, Page, StoreOptions, after_number
from hookline.store.rows import Reading, Row, audit_columns

T = TypeVar("T")
P = ParamSpec("P")

_FIRST, _LAST = "", "\U0010ffff"  # before and after every text


class Step:
    """One statement, run once."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, /, **values: Any) -> None:
        self.name = name
        self.values: Mapping[str, Any] = values


class Batch:
    """One statement, run for each of these values. It returns no rows."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.values = values


class Bulk(Batch):
    """Likewise, of very many: PostgreSQL runs the statement once, with an array for each name. It may return rows."""


Plan = Generator[Step | Batch, list[Row], T]


class Shared:
    """What a shared method finds in the engine that it is part of."""

    _vault: Vault
    _options: StoreOptions
    _reading: Reading

    async def _run_read(self, plan: Callable[[], Plan[T]], *, hot: bool = False) -> T:
        raise NotImplementedError

    async def _run_change(self, plan: Callable[[], Plan[T]], *, hot: bool = False) -> T:
        raise NotImplementedError


S = TypeVar("S", bound=Shared)
Written = Callable[Concatenate[S, P], Plan[T]]
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


def reads(written: Written[S, P, T]) -> Method[S, P, T]:
    """The method that runs this plan, which changes nothing."""

    @wraps(written)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_read(lambda: written(self, *args, **kwargs))

    return method


def changes(written: Written[S, P, T]) -> Method[S, P, T]:
    """The method that runs this plan in one transaction."""

    @wraps(written)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_change(lambda: written(self, *args, **kwargs))

    return method


def searches(written: Written[S, P, T]) -> Method[S, P, T]:
    """As `reads`, for what goes through history: PostgreSQL then never reads a table from end to end."""

    @wraps(written)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_read(lambda: written(self, *args, **kwargs), hot=True)

    return method


def works(written: Written[S, P, T]) -> Method[S, P, T]:
    """As `changes`, for work that goes through history, likewise."""

    @wraps(written)
    async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_change(lambda: written(self, *args, **kwargs), hot=True)

    return method


# ── steps that many plans take ────────────────────────────────────────────────────────────────────────────────────


def noted(note: Note[T] | None, result: T) -> Plan[T]:
    """The last step of a change: its entry in the audit log, so that both are written or neither is. The change's result."""
    entry = None if note is None else note(result)
    if entry is not None:
        yield Step("audit_add", **audit_columns(entry))
    return result


def row(name: str, /, **values: Any) -> Plan[Row | None]:
    """The first row that a statement returns."""
    found = yield Step(name, **values)
    return found[0] if found else None


def value(name: str, /, **values: Any) -> Plan[Any]:
    """The first column of the first row; None without one."""
    found: list[Any] = yield Step(name, **values)
    return found[0][0] if found else None


def by_text(name: str, page: Page, /, **values: Any) -> Plan[list[Row]]:
    """A page of the statements `name` and `name_back`, in the listing's own order, also when it is read backwards."""
    against = page.backwards != page.descending
    start = page.iterator if page.iterator is not None else _LAST if against else _FIRST
    found = yield Step(f"{name}_back" if against else name, iterator=start, limit=page.limit, **values)
    return found[::-1] if page.backwards else found


def by_number(name: str, page: Page, /, *, newest_first: bool = False, **values: Any) -> Plan[list[Row]]:
    """Likewise, of a listing whose iterator is a number."""
    number = after_number(page.iterator)
    start = number if number is not None else LAST_NUMBER if newest_first != page.backwards else 0
    found = yield Step(f"{name}_back" if page.backwards else name, iterator=start, limit=page.limit, **values)
    return found[::-1] if page.backwards else found
