"""Listings: rows after an iterator, or before it, always by an index."""

from __future__ import annotations

import sqlite3

from hookline.store.protocols import Page
from hookline.store.sqlite.transaction import Tx

_TEXT_ENDS = ("", "\U0010ffff")


def by_text(
    tx: Tx, name: str, of: object, page: Page, *, newest_first: bool = False, **more: object
) -> list[sqlite3.Row]:
    """A page of the statements `name` and `name_back`; backwards it comes in the same order as forwards."""
    against = page.backwards != page.descending  # the order of the statement `name`
    low, high = _TEXT_ENDS
    start = high if newest_first != against else low
    params = {"of": of, "iterator": page.iterator if page.iterator is not None else start, "limit": page.limit, **more}
    found = tx.rows(f"{name}_back" if against else name, params)
    return found[::-1] if page.backwards else found
