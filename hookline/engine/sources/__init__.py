"""Outboxes in other databases than Hookline's own: what `engine/relay.py` moves from."""

from __future__ import annotations

from hookline.config.urls import sqlite_path
from hookline.engine.relay import Outbox
from hookline.store.protocols import Store

__all__ = ["open_source"]


def open_source(url: str, store: Store, *, poll: float = 0.04) -> Outbox:
    """The outbox of the database that `url` names. Nothing is connected yet: it may be away still."""
    if sqlite_path(url) is not None:
        from hookline.engine.sources.sqlite import SqliteSource

        return SqliteSource(url, store)
    from hookline.engine.sources.postgres import PostgresSource

    return PostgresSource(url, store, poll=poll)
