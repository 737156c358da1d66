"""Outboxes in applications' own databases, from which `engine/relay.py` copies rows."""

from __future__ import annotations

from hookline.config.urls import sqlite_path
from hookline.engine.relay import Outbox
from hookline.store import Store

__all__ = ["open_source"]


def open_source(url: str, store: Store, *, poll: float = 0.04) -> Outbox:
    """Return the outbox of the database that `url` names. It connects later, so the database need not be reachable
    yet."""
    if sqlite_path(url) is not None:
        from hookline.engine.sources.sqlite import SqliteSource

        return SqliteSource(url, store)
    from hookline.engine.sources.postgres import PostgresSource

    return PostgresSource(url, store, poll=poll)
