"""One module for each database library. `of` and `of_async` choose the module by the class of a connection."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hookline.outbox.adapters.base import Adapter
from hookline.outbox.errors import UnknownConnection

# The key is the package that defines the class of a connection. Each module has `sync(conn)`, `asynchronous(conn)` or
# both. They return None for an object that the module cannot use.
_MODULES = {
    "sqlite3": "sqlite",
    "psycopg": "psycopg3",
    "psycopg2": "psycopg2",
    "asyncpg": "asyncpg",
    "sqlalchemy": "sqlalchemy",
    "django": "django",
}


def of(conn: Any) -> Adapter:
    """Return the adapter of a synchronous connection or session."""
    return _adapter(conn, "sync", "asynchronous", "is async: call the function whose name ends in _async")


def of_async(conn: Any) -> Adapter:
    """Return the adapter of an async connection or session."""
    return _adapter(conn, "asynchronous", "sync", "is not async: call the function whose name does not end in _async")


def is_known(conn: Any) -> bool:
    return _made(conn, "sync") is not None or _made(conn, "asynchronous") is not None


def _made(conn: Any, kind: str) -> Adapter | None:
    package = _package(type(conn)) or _package(conn.__class__)  # `__class__` of a tracing wrapper is the wrapped class
    if package is None:
        return None
    make = getattr(import_module(f"{__package__}.{_MODULES[package]}"), kind, None)
    made: Adapter | None = None if make is None else make(conn)
    return made


def _adapter(conn: Any, kind: str, other_kind: str, hint: str) -> Adapter:
    """Return the adapter that the function named `kind` (`sync` or `asynchronous`) makes for the connection.

    If only `other_kind` makes an adapter for the connection, the error contains `hint`.
    """
    found = _made(conn, kind)
    if found is not None:
        return found
    name = f"{type(conn).__module__.partition('.')[0]}.{type(conn).__qualname__}"
    if _made(conn, other_kind) is not None:
        raise UnknownConnection(f"{name} {hint}")
    advice = "give the connection itself, not its cursor, pool or engine"
    raise UnknownConnection(f"{name} is not a connection or session of {', '.join(_MODULES)}: {advice}")


def _package(kind: type) -> str | None:
    """Return the database package that defines the class or one of its base classes, or None if there is none."""
    packages = (above.__module__.partition(".")[0] for above in kind.__mro__)
    return next((package for package in packages if package in _MODULES), None)
