"""One module for each library. `of` and `of_async` find the right one by the class of a connection."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hookline.outbox.errors import UnknownConnection
from hookline.receive.inbox.adapters.base import AsyncConnection, Connection

# By the package that a connection's class comes from. Each module has `sync(conn)`, `asynchronous(conn)` or both: None for an
# object that is none of theirs.
_MODULES = {
    "sqlite3": "sqlite",
    "psycopg": "psycopg3",
    "psycopg2": "psycopg2",
    "asyncpg": "asyncpg",
    "sqlalchemy": "sqlalchemy",
    "django": "django",
}


def of(conn: Any) -> Connection:
    found: Connection | None = _made(conn, "sync")
    if found is None:
        raise _refused(conn, "asynchronous", "of another kind: it is for the async twin of this call")
    return found


def of_async(conn: Any) -> AsyncConnection:
    found: AsyncConnection | None = _made(conn, "asynchronous")
    if found is None:
        raise _refused(conn, "sync", "of another kind: it is for the twin of this call that is not async")
    return found


def is_known(conn: Any) -> bool:
    return _made(conn, "sync") is not None or _made(conn, "asynchronous") is not None


def _made(conn: Any, name: str) -> Any:
    package = _package(type(conn)) or _package(conn.__class__)  # a tracer's wrapper says which class it wraps
    if package is None:
        return None
    make = getattr(import_module(f"{__package__}.{_MODULES[package]}"), name, None)
    return None if make is None else make(conn)


def _refused(conn: Any, twin: str, hint: str) -> UnknownConnection:
    name = f"{type(conn).__module__.partition('.')[0]}.{type(conn).__qualname__}"
    if _made(conn, twin) is not None:
        return UnknownConnection(f"{name} is a connection {hint}")
    return UnknownConnection(f"{name} is not a connection or session of {', '.join(_MODULES)}")


def _package(kind: type) -> str | None:
    """Of the nearest class that is one of theirs: a subclass, a proxy of a pool or a scoped session is as good."""
    packages = (above.__module__.partition(".")[0] for above in kind.__mro__)
    return next((package for package in packages if package in _MODULES), None)
