"""What to do about a database's error, told beside it: the error itself stays the driver's own."""

from __future__ import annotations

from types import TracebackType
from typing import Any

_MISSING = (
    "Hookline's inbox is not in this database: `hookline.receive.inbox.create_table(conn)` sets it up; "
    "`python -m hookline.receive.inbox postgres` (or sqlite) prints what it runs."
)
ENDED = "The transaction must not be committed or rolled back inside the block of `once`: end it afterwards."

_UNDEFINED_TABLE = "42P01"


class Explained:
    """Around a statement, and nothing else."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and _is_missing(_of_driver(error)):
            error.add_note(_MISSING)


explained = Explained()


def _is_missing(error: Any) -> bool:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state == _UNDEFINED_TABLE or str(error).startswith("no such table: hookline_inbox")


def _of_driver(error: BaseException) -> Any:
    """SQLAlchemy keeps the driver's error in `orig`, Django as the cause."""
    cause = error.__cause__ if type(error).__module__.startswith("django.") else None
    return getattr(error, "orig", None) or cause or error
