"""The marker file `<database>-hookline` beside a SQLite database: it names the last row that was relayed.

Hookline writes the file. The application's `publish` reads it and deletes relayed rows. A file that cannot
be read or decoded is ignored: the rows then stay in the outbox until Hookline writes the file again.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from secrets import token_hex

import msgspec
from msgspec import Struct

from hookline.model.outbox import OutboxPlace

_SUFFIX = "-hookline"
_LONGEST = 512  # maximum bytes of the file
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class _Marker(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    relayed_id: int
    relayed_uid: str


_decoder = msgspec.json.Decoder(_Marker)


def path_of(database: str | os.PathLike[str]) -> Path:
    """Return the path of the marker file, which names the last relayed row. It is beside the real database file, like
    the WAL, and not beside a symbolic link to the database."""
    return Path(os.path.realpath(database) + _SUFFIX)


def read(database: str | os.PathLike[str]) -> OutboxPlace | None:
    try:
        text = _content(path_of(database))
        marker = None if text is None else _decoder.decode(text)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return None if marker is None else OutboxPlace(row_id=marker.relayed_id, row_uid=marker.relayed_uid)


def write(database: str | os.PathLike[str], place: OutboxPlace) -> None:
    """Write `place` to the marker file. The file is replaced atomically: a reader sees the old content or the new.

    Every user may read the file, because it has no secret.
    """
    path = path_of(database)
    beside = path.with_name(f"{path.name}-{token_hex(8)}")  # a unique name: another process may write at the same time
    content = msgspec.json.encode(_Marker(relayed_id=place.row_id, relayed_uid=place.row_uid))
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def remove(database: str | os.PathLike[str]) -> None:
    path_of(database).unlink(missing_ok=True)


def _content(path: Path) -> bytes | None:
    """Return the content of the marker file. Return None if the file is too long or not a regular file.

    This does not follow a symbolic link, and does not wait if the path is a pipe.
    """
    fd = os.open(path, os.O_RDONLY | _FLAGS)
    try:  # not `os.fdopen`, which refuses a directory and leaves its descriptor open
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        content = os.read(fd, _LONGEST + 1)
    finally:
        os.close(fd)
    return content if len(content) <= _LONGEST else None
