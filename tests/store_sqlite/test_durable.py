"""Acknowledged data is on disk. No test can cut the power, so these tests check the settings of the connection."""

from __future__ import annotations

from hookline.store.sqlite import SqliteStore
from hookline.store.sqlite.transaction import Tx
from tests.support.scene import Scene

FULL = 2


async def test_the_writer_waits_for_the_disk(scene: Scene) -> None:
    """In WAL mode, any `synchronous` setting below FULL can lose the last commits when the power fails."""

    def settings(tx: Tx) -> tuple[str, int]:
        (mode,) = tx.conn.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = tx.conn.execute("PRAGMA synchronous").fetchone()
        return mode, synchronous

    assert isinstance(scene.store, SqliteStore)
    assert await scene.store._db.write(settings) == ("wal", FULL)
