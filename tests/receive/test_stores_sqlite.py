"""Stores of keys in SQLite: locks, unusual files and permissions."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hookline.errors import InvalidInput
from hookline.receive.idempotency.keys import Answer, Fresh, InProgress, KeyStoreUnavailable, Replay
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.receive.conftest import OpenStage
from tests.receive.stages import DONE, KEY, PRINT, verbs


async def test_a_locked_file_does_not_block_the_event_loop(keys_file: str, open_stage: OpenStage) -> None:
    """The event loop of the test releases the lock, so the test fails if the store blocks the loop."""
    stage = await open_stage("sqlite-async")
    await stage.copy().begin()
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        copy = stage.copy()
        beginning = asyncio.create_task(copy.begin())
        for _ in range(10):
            await asyncio.sleep(0.005)  # During these pauses a thread asks for the lock.
        assert not beginning.done()
        other.execute("COMMIT")
    assert await beginning == Fresh(1)


async def test_a_call_that_waits_too_long_for_its_turn_fails(keys_file: str) -> None:
    """Each earlier call has its own timeout for the lock. The last call must not wait for the sum of them."""
    keys = AsyncSqliteKeys(keys_file, timeout=0.2)
    await keys.begin(KEY, PRINT, token=b"0", lease=30)
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        copies = [keys.begin(b"%d" % n, PRINT, token=b"1", lease=30) for n in range(12)]
        first, *_, last = await asyncio.gather(*copies, return_exceptions=True)
    assert isinstance(first, KeyStoreUnavailable)
    assert isinstance(last, KeyStoreUnavailable)
    assert "database is locked" in str(first)
    assert "other calls keep it busy" in str(last)
    assert await keys.begin(b"3", PRINT, token=b"2", lease=30) == Fresh(1)
    await keys.aclose()


def test_a_key_that_another_process_claimed_during_the_wait_is_seen(keys_file: str) -> None:
    """This process finds the key free and waits for the lock. Another process holds the lock and claims the key
    meanwhile."""
    keys, waits = SqliteKeys(keys_file), threading.Event()
    keys.begin(KEY, PRINT, token=b"1", lease=30)
    conn = keys._own().conn
    assert conn is not None
    conn.set_trace_callback(lambda statement: waits.set() if statement.startswith("BEGIN") else None)
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as other, ThreadPoolExecutor(1) as thread:
        other.execute("BEGIN IMMEDIATE")
        beginning = thread.submit(keys.begin, b"another", PRINT, token=b"2", lease=30)
        assert waits.wait(60)
        other.execute("UPDATE hookline_idempotency SET key = CAST('another' AS BLOB)")
        other.execute("COMMIT")
        assert isinstance(beginning.result(60), InProgress)
    keys.close()


def test_several_stores_open_a_new_file_at_once(tmp_path: Path) -> None:
    for number in range(5):
        stores = [SqliteKeys(tmp_path / f"{number}.db") for _ in range(8)]
        barrier = threading.Barrier(len(stores))

        def begin(store: SqliteKeys, barrier: threading.Barrier = barrier) -> Answer:
            barrier.wait()
            return store.begin(KEY, PRINT, token=os.urandom(8), lease=30)

        with ThreadPoolExecutor(len(stores)) as threads:
            answers = list(threads.map(begin, stores))
        assert answers.count(Fresh(1)) == 1
        for store in stores:
            store.close()


def test_the_switch_to_wal_waits_for_a_writer(keys_file: str) -> None:
    """The switch to WAL mode finds the file locked, and SQLite's busy timeout does not cover that switch."""
    keys = SqliteKeys(keys_file)
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as other, ThreadPoolExecutor(1) as thread:
        other.execute("CREATE TABLE orders (n integer)")
        other.execute("BEGIN IMMEDIATE")
        beginning = thread.submit(keys.begin, KEY, PRINT, token=b"1", lease=30)
        with pytest.raises(TimeoutError):
            beginning.result(0.1)  # The call must still wait for the lock.
        other.execute("COMMIT")
        assert beginning.result(60) == Fresh(1)
    keys.close()


FORK = """
    import os, sys
    from hookline.receive.idempotency.keys import Fresh
    from hookline.receive.stores.sqlite import SqliteKeys

    keys = SqliteKeys(sys.argv[1], timeout=0.1)
    with keys._lent():
        child = os.fork()
        if child == 0:
            os._exit(0 if keys.begin(b"k", b"f", token=b"c", lease=30) == Fresh(1) else 1)
    assert os.waitpid(child, 0)[1] == 0
"""


FORK_ASYNC = """
    import asyncio, os, signal, sys
    from hookline.receive.idempotency.keys import Fresh
    from hookline.receive.stores.sqlite import AsyncSqliteKeys

    keys = AsyncSqliteKeys(sys.argv[1])

    async def begin(key):
        return await keys.begin(key, b"f", token=b"t", lease=30)

    assert asyncio.run(begin(b"1")) == Fresh(1)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if asyncio.run(begin(b"2")) == Fresh(1) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(begin(b"3")) == Fresh(1)
    asyncio.run(keys.aclose())
"""


@pytest.mark.parametrize("program", [FORK, FORK_ASYNC])
def test_a_fork_during_a_call_does_not_block_the_child(keys_file: str, program: str) -> None:
    """The test forks in a process without threads, because Python warns about a fork beside threads."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), keys_file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_file_that_stays_locked_is_unavailable_and_then_available(keys_file: str) -> None:
    keys = SqliteKeys(keys_file, timeout=0.05)
    keys.begin(KEY, PRINT, token=b"1", lease=30)
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for verb in verbs(keys):
            with pytest.raises(KeyStoreUnavailable, match="locked"):
                verb()
        # A copy of a running request only reads, so it needs no lock.
        assert isinstance(keys.begin(KEY, PRINT, token=b"2", lease=30), InProgress)
        other.execute("COMMIT")
    assert keys.renew(KEY, b"1", 30)
    keys.close()


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "keys.db").write_bytes(b"not a database, but longer than a header of SQLite has to be" * 10)
    keys = SqliteKeys(tmp_path / "keys.db", timeout=0.05)
    for verb in verbs(keys):
        with pytest.raises(KeyStoreUnavailable, match="not a database"):
            verb()
    (tmp_path / "keys.db").unlink()
    assert keys.begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
    keys.close()


def test_a_directory_that_went_away_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    keys = SqliteKeys(tmp_path / "inner" / "keys.db")
    (tmp_path / "inner").rmdir()
    with pytest.raises(KeyStoreUnavailable, match="cannot be made"):
        keys.begin(KEY, PRINT, token=b"1", lease=30)


@pytest.mark.parametrize("path", ["", ":memory:", "file:keys.db?mode=memory", "a\0b", "/no/such/directory/keys.db"])
def test_keys_need_a_file(path: str) -> None:
    with pytest.raises(InvalidInput):
        SqliteKeys(path)
    with pytest.raises(InvalidInput):
        AsyncSqliteKeys(path)


def test_only_the_owner_can_read_the_file_and_it_uses_wal(keys_file: str) -> None:
    keys = SqliteKeys(keys_file)
    keys.begin(KEY, PRINT, token=b"1", lease=30)
    for name in (keys_file, f"{keys_file}-wal"):
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    keys.close()
    assert keys.renew(KEY, b"1", 30)  # The store opens the file again.
    keys.close()


# ── a clock that is set back ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_lease_ends_in_time_after_the_clock_was_set_back(open_stage: OpenStage) -> None:
    """Without a limit, the key of a dead holder would stay claimed until the clock reaches the earlier time again."""
    stage = await open_stage("sqlite")
    dead, copy = stage.copies(2)
    await dead.begin(lease=30)
    await stage.age(dead.key, -86_400)
    refused = await copy.begin(lease=10)
    assert isinstance(refused, InProgress)
    assert refused.retry_after <= 30
    await stage.age(dead.key, 29)
    assert isinstance(await copy.begin(lease=10), InProgress)
    await stage.age(dead.key, 2)
    assert await copy.begin(lease=10) == Fresh(2)


async def test_a_live_holder_keeps_its_key_when_the_clock_is_set_back(open_stage: OpenStage) -> None:
    stage = await open_stage("sqlite")
    holder, copy = stage.copies(2)
    await holder.begin(lease=3600)
    await stage.age(holder.key, -86_400)
    assert isinstance(await copy.begin(lease=10), InProgress)
    assert await holder.renew(lease=3600)
    # 1800 seconds are longer than the copy's lease. Only the lease of the holder counts.
    await stage.age(holder.key, 1800)
    assert isinstance(await copy.begin(lease=10), InProgress)


async def test_the_keys_in_a_file_of_an_earlier_release_stay_valid(keys_file: str, open_stage: OpenStage) -> None:
    stage = await open_stage("sqlite")
    held, done, copy = stage.copy(), stage.copy(), stage.copy()
    await held.begin()
    await done.begin()
    await done.finish(DONE)
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as earlier:
        earlier.execute("ALTER TABLE hookline_idempotency DROP COLUMN lease")
    keys = AsyncSqliteKeys(keys_file)
    beginnings = [keys.begin(one.key, one.fingerprint, token=b"1", lease=30) for one in (held, done, copy)]
    found = [type(answer) for answer in await asyncio.gather(*beginnings)]
    assert found == [InProgress, Replay, Fresh]
    await keys.aclose()
