"""Advice for database errors, added to the error as a note.

The error itself stays the driver's own, so that applications catch the class that they always caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

_MISSING = "Hookline's outbox is not in this database, or is older than this release."
_POSTGRES = (
    f"{_MISSING} `hookline migrate` sets it up beside Hookline's own tables. In another database, use "
    "`hookline.outbox.setup.create_table(conn)` or `hookline outbox install URL`. "
    "`hookline outbox sql postgres` prints the SQL."
)
_SQLITE = (
    f"{_MISSING} `hookline.outbox.setup.create_table(conn)` or `hookline outbox install URL` sets it up. "
    "`hookline outbox sql sqlite` prints the SQL."
)
_READ = "A role may publish without any right to the table, but this reads it: connect as the owner of the outbox."
_GRANT = "This role may not publish yet: `hookline outbox sql postgres --grant ROLE` prints the rights that it needs."

# SQLSTATEs: invalid_schema_name, undefined_function, undefined_table, undefined_column
_UNDEFINED = ("3F000", "42883", "42P01", "42703")
_FORBIDDEN = "42501"


@contextmanager
def explained(advice_for: Callable[[Any], str | None]) -> Iterator[None]:
    """Add a note to an error of the block. `advice_for` gets the driver's error and returns the note, or None
    to add no note."""
    try:
        yield
    except BaseException as error:
        advice = advice_for(_of_driver(error))
        if advice is not None:
            error.add_note(advice)
        raise


def sqlstate(error: Any) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _advice(error: Any, for_forbidden: str) -> str | None:
    state, text = sqlstate(error), str(error)
    if state in _UNDEFINED:
        return _POSTGRES
    if state == _FORBIDDEN:
        return for_forbidden
    return _SQLITE if "hookline_outbox" in text and text.startswith(("no such table", "table ")) else None


for_publish = partial(_advice, for_forbidden=_GRANT)
for_read = partial(_advice, for_forbidden=_READ)


def _of_driver(error: BaseException) -> Any:
    """Return the driver's own error. SQLAlchemy stores it in `orig`, and Django in `__cause__`."""
    cause = error.__cause__ if type(error).__module__.startswith("django.") else None
    return getattr(error, "orig", None) or cause or error
