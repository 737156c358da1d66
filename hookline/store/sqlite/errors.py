"""Translate SQLite's errors into Hookline's, with a one-line message."""

from __future__ import annotations

import sqlite3

from hookline.errors import HooklineError, InvalidInput, MigrationNeeded, StoreUnavailable

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PASSING = {
    sqlite3.SQLITE_BUSY: "another process holds its lock",
    sqlite3.SQLITE_LOCKED: "another process holds its lock",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_PERM: "the file's permissions forbid it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_PROTOCOL: "another process holds its lock",
    sqlite3.SQLITE_INTERRUPT: "it was interrupted",
}
_CONSTRAINT_DATATYPE = 3091  # SQLITE_CONSTRAINT_DATATYPE: sqlite3 has this constant only since Python 3.13
_UNFIT = frozenset(
    {
        _CONSTRAINT_DATATYPE,
        sqlite3.SQLITE_CONSTRAINT_NOTNULL,
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
        sqlite3.SQLITE_CONSTRAINT_ROWID,
    }
)
_NOT_BOUND = (sqlite3.DataError, sqlite3.InterfaceError, OverflowError, UnicodeEncodeError)


class BadData(InvalidInput):
    """A value that SQLite cannot store: an integer over 64 bits, a lone surrogate in a text, or a blob that is too
    big."""


def code_of(error: BaseException) -> int:
    """Return the primary result code, or 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    return code_of(error) in _BUSY


def translate(error: BaseException) -> BaseException:
    """Return the error that the caller gets. Errors that SQLite did not raise, and programming errors, are returned
    unchanged."""
    if isinstance(error, HooklineError):
        return error
    if isinstance(error, _NOT_BOUND) or _is_unfit(error):
        return _caused(BadData(f"the database cannot hold this value: {error}"), error)
    if not isinstance(error, sqlite3.DatabaseError):
        return error
    code = code_of(error)
    if code == sqlite3.SQLITE_NOTADB:
        return _caused(InvalidInput("the file is not a SQLite database"), error)
    if code in _PASSING:
        return _caused(StoreUnavailable(f"the SQLite database is not available now: {_PASSING[code]}"), error)
    if code == sqlite3.SQLITE_ERROR and "no such" in str(error):
        return _caused(MigrationNeeded("the database is older than this release: run `hookline migrate`"), error)
    return error


def _is_unfit(error: BaseException) -> bool:
    """Return whether the data caused the error: a value of the wrong type, NULL where it is not allowed (SQLite stores
    NaN as NULL), a primary key that another row has, or a parameter of a type that SQLite does not support."""
    if isinstance(error, sqlite3.ProgrammingError):
        return "binding parameter" in str(error)
    return getattr(error, "sqlite_errorcode", 0) in _UNFIT


def _caused(fault: HooklineError, error: BaseException) -> HooklineError:
    fault.__cause__ = error
    return fault
