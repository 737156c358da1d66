"""What was acknowledged is on the disk: no test can cut the power, so the settings themselves are looked at."""

from __future__ import annotations

from hookline.store.sqlite import SqliteStore
from hookline.store.sqlite.transaction import Tx
from tests.support.scene import Scene

FULL = 2


async def test_the_writer_waits_for_the_disk(scene: Scene) -> None:
    """In the log's mode, anything less than FULL loses the last commits with the power."""

    def settings(tx: Tx) -> tuple[str, int]:
        (mode,) = tx.conn.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = tx.conn.execute("PRAGMA synchronous").fetchone()
        return mode, synchronous

    assert isinstance(scene.store, SqliteStore)
    assert await scene.store._write(settings) == ("wal", FULL)
