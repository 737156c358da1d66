"""The SQLite engine: one file, one writer thread, a few readers."""

from hookline.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
