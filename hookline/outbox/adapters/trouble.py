"""What to do about a database's error, told beside it: the error itself stays the driver's own, so that callers catch what
they always caught."""

from __future__ import annotations

from types import TracebackType
from typing import Any

_MISSING = "Hookline's outbox is not in this database, or is older than this release."
_POSTGRES = (
    f"{_MISSING} `hookline migrate` sets it up beside Hookline's own tables, `hookline.outbox.setup.create_table(conn)` or "
    "`hookline outbox install URL` in another database; `hookline outbox sql postgres` prints what they run."
)
_SQLITE = (
    f"{_MISSING} `hookline.outbox.setup.create_table(conn)` or `hookline outbox install URL` sets it up; "
    "`hookline outbox sql sqlite` prints what they run."
)
_READ = "To publish, a role needs no right to the table, but this reads it: connect as the outbox's owner, or a member of it."
_GRANT = "This role may not publish yet: `hookline outbox sql postgres --grant ROLE` prints what it needs."

# invalid_schema_name, undefined_function, undefined_table, undefined_column
_UNDEFINED = ("3F000", "42883", "42P01", "42703")
_FORBIDDEN = "42501"


class Explained:
    """Around an adapter's statement, and nothing else."""

    def __init__(self, forbidden: str) -> None:
        self._forbidden = forbidden  # what a role without rights is told

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        note = None if error is None else _note(error, self._forbidden)
        if error is not None and note is not None:
            error.add_note(note)


explained = Explained(_GRANT)
explained_read = Explained(_READ)  # the same around a look into the table


def _note(error: BaseException, forbidden: str) -> str | None:
    driver = _of_driver(error)
    state = getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)
    if state in _UNDEFINED:
        return _POSTGRES
    if state == _FORBIDDEN:
        return forbidden
    text = str(driver)
    return _SQLITE if "hookline_outbox" in text and text.startswith(("no such table", "table ")) else None


def _of_driver(error: BaseException) -> Any:
    """SQLAlchemy keeps the driver's error in `orig`, Django as the cause."""
    cause = error.__cause__ if type(error).__module__.startswith("django.") else None
    return getattr(error, "orig", None) or cause or error
