"""What things are called, for pages that have their ids: what both engines share. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import normalize

from hookline.store.rows import Row

LOOKED = 2_000  # applications whose names one search goes through: no index knows a part of a name


def matching(found: Sequence[Row], text: str, limit: int) -> tuple[list[str], str | None]:
    """Ids of those that have the text in their name or uid, whatever its case; and, where that is no whole page, behind
    which one to go on, if there may be more."""
    wanted = _folded(text)
    ids = [
        row["id"]
        for row in found
        if wanted in _folded(row["name"]) or (row["uid"] is not None and wanted in _folded(row["uid"]))
    ]
    if len(ids) >= limit:
        return ids[:limit], None
    return ids, found[-1]["id"] if len(found) == LOOKED else None


def _folded(text: str) -> str:
    """Whatever its case, and however its letters with marks are put together."""
    return text.casefold() if text.isascii() else normalize("NFKC", text).casefold()
