"""What things are called, for pages that have their ids: what both engines share. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.store.rows import Row

LOOKED = 2_000  # applications whose names one search goes through: no index knows a part of a name


def matching(found: Sequence[Row], text: str, limit: int) -> tuple[list[str], str | None]:
    """Ids of those that have the text in their name or uid, whatever its case; and, where that is no whole page, behind
    which one to go on, if there may be more."""
    wanted = text.casefold()
    ids = [
        row["id"]
        for row in found
        if wanted in row["name"].casefold() or (row["uid"] is not None and wanted in row["uid"].casefold())
    ]
    if len(ids) >= limit:
        return ids[:limit], None
    return ids, found[-1]["id"] if len(found) == LOOKED else None
