"""Copies that arrive at the same time: exactly one is the first."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from hookline.receive import inbox
from tests.receive.inbox.copier import arrive, copies
from tests.receive.inbox.shop import Shop

COPIES = 25
ROUNDS = 10


def test_one_of_25_copies_in_threads_is_first(any_shop: Shop) -> None:
    rounds = ROUNDS if any_shop.engine == "postgres" else 3  # SQLite allows one writer at a time, and the others wait.
    found: list[bool] = []
    for number in range(rounds):
        gate = threading.Barrier(COPIES)

        def copy(key: str = f"k{number}", gate: threading.Barrier = gate) -> None:
            gate.wait()
            found.append(arrive(any_shop, key))

        threads = [threading.Thread(target=copy) for _ in range(COPIES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (found.count(True), len(found)) == (rounds, rounds * COPIES)
    assert any_shop.payments() == sorted(f"k{number}" for number in range(rounds))
    report = any_shop.report()
    assert (report.arrivals, report.first, report.duplicates_stopped) == (25 * rounds, rounds, 24 * rounds)
    assert (report.effects, report.duplicate_effects) == (rounds, 0)


def test_one_of_several_copies_in_processes_is_first(any_shop: Shop) -> None:
    spawn = multiprocessing.get_context("spawn")
    gate = spawn.Barrier(5)
    processes = [spawn.Process(target=copies, args=(any_shop.url, gate, ROUNDS)) for _ in range(5)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 5
    assert any_shop.payments() == sorted(f"k{number}" for number in range(ROUNDS))
    assert any_shop.report().arrivals == 5 * ROUNDS


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_on_postgres_a_copy_waits_for_the_end_of_the_first(shop_of: Callable[[str], Shop], ends: str) -> None:
    shop = shop_of("postgres")
    found: list[bool] = []
    with closing(shop.connect()) as one, closing(shop.connect()) as other, closing(shop.connect()) as observer:

        def copy() -> None:
            with inbox.once(other, "k") as first:
                found.append(first)
            other.commit()

        with inbox.once(one, "k") as first:
            assert first
        waiting = threading.Thread(target=copy)
        waiting.start()
        _until_blocked(observer, other.info.backend_pid)
        assert found == []
        getattr(one, ends)()
        waiting.join(60)
    assert found == [ends == "rollback"]


def _until_blocked(observer: psycopg.Connection, pid: int) -> None:
    blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
    observer.autocommit = True
    while observer.execute(blocked, [pid]).fetchone() != (True,):
        pass  # Only the server's state shows the progress, so the test polls.


async def test_with_asyncpg_copies_in_tasks_wait_for_each_other(shop_of: Callable[[str], Shop]) -> None:
    shop = shop_of("postgres")
    pool = await asyncpg.create_pool(shop.url, min_size=5, max_size=5)

    async def copy(number: int) -> bool:
        async with pool.acquire() as conn, conn.transaction(), inbox.once_async(conn, "k") as first:
            if first:
                await conn.execute("INSERT INTO payments VALUES ('k')")
            if first and number % 2:
                raise RuntimeError("half of them fail if they are the first")
            return first

    found = await asyncio.gather(*(copy(number) for number in range(COPIES)), return_exceptions=True)
    await pool.close()
    assert found.count(True) == 1
    assert shop.payments() == ["k"]


def test_a_transaction_that_cannot_see_the_first_fails_instead_of_paying_twice(shop_of: Callable[[str], Shop]) -> None:
    shop = shop_of("postgres")
    with closing(shop.connect()) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("SELECT 1 FROM hookline_inbox")
        assert arrive(shop, "k") is True
        with pytest.raises(psycopg.errors.SerializationFailure), inbox.once(conn, "k"):
            pass
        conn.rollback()
        with inbox.once(conn, "k") as first:
            assert not first


def test_on_sqlite_a_transaction_that_has_read_before_fails_instead_of_paying_twice(
    shop_of: Callable[[str], Shop],
) -> None:
    shop = shop_of("sqlite")
    with closing(shop.connect()) as conn:
        conn.execute("BEGIN")
        conn.execute("SELECT count(*) FROM payments").fetchall()
        assert arrive(shop, "k") is True
        with pytest.raises(sqlite3.OperationalError, match="locked"), inbox.once(conn, "k"):
            pass
        conn.rollback()
    assert shop.payments() == ["k"]


def test_once_blocks_may_be_nested(any_shop: Shop) -> None:
    def fail(conn: Any) -> None:
        with inbox.once(conn, "inner"):
            raise RuntimeError

    with closing(any_shop.connect()) as conn:
        with inbox.once(conn, "outer"):
            with pytest.raises(RuntimeError):
                fail(conn)
            with inbox.once(conn, "second") as first:
                assert first
        conn.commit()
    assert [key for _, key in any_shop.recorded()] == ["outer", "second"]


# ── transactions in each library ──────────────────────────────────────────────────────────────────────────────────


def test_ending_the_transaction_inside_the_block_gives_a_clear_error(any_shop: Shop) -> None:
    with closing(any_shop.connect()) as conn:
        for end in (conn.commit, conn.rollback):
            with pytest.raises((sqlite3.Error, psycopg.Error)) as failed, inbox.once(conn, f"k-{end.__name__}"):
                end()
            assert "End it after the block" in failed.value.__notes__[0]
            conn.rollback()
    assert [key for _, key in any_shop.recorded()] == ["k-commit"]


def test_a_row_factory_of_the_application_does_not_matter(any_shop: Shop) -> None:
    with closing(any_shop.connect()) as conn:
        conn.row_factory = sqlite3.Row if any_shop.engine == "sqlite" else psycopg.rows.dict_row
        with inbox.once(conn, "k") as first:
            assert first
        inbox.accept(conn, b"{}", key="k")
        conn.commit()
        assert inbox.report(conn).first == 2


def test_a_connection_with_postgres_placeholders_works(shop_of: Callable[[str], Shop]) -> None:
    with psycopg.connect(shop_of("postgres").url, cursor_factory=psycopg.RawCursor) as conn:
        with inbox.once(conn, "k", "a") as first:
            assert first
        with inbox.once(conn, "k", "a") as first:
            assert not first


class _Base(DeclarativeBase):
    pass


class Payment(_Base):
    __tablename__ = "payments"
    key: Mapped[str] = mapped_column(primary_key=True)


@pytest.mark.parametrize("driver", ["sqlite", "postgresql+psycopg"])
def test_a_block_that_raises_discards_its_objects_of_the_session(shop_of: Callable[[str], Shop], driver: str) -> None:
    shop = shop_of("sqlite" if driver == "sqlite" else "postgres")
    url = f"sqlite:///{shop.url}" if driver == "sqlite" else shop.url.replace("postgresql", driver, 1)
    engine = sa.create_engine(url)

    def fail(session: Session) -> None:
        with inbox.once(session, "k"):
            session.add(Payment(key="undone"))  # The object is not written to the database yet.
            raise RuntimeError

    with Session(engine) as session, session.begin():
        session.add(Payment(key="earlier"))
        with pytest.raises(RuntimeError):
            fail(session)
        with inbox.once(session, "k") as first:
            assert first
            session.add(Payment(key="k"))
    engine.dispose()
    assert shop.payments() == ["earlier", "k"]


@pytest.mark.parametrize("mode", ["immediate", "implicit"])
def test_on_sqlite_nothing_is_committed_by_the_savepoint_itself(shop_of: Callable[[str], Shop], mode: str) -> None:
    """Releasing a savepoint outside a transaction would commit."""
    shop = shop_of("sqlite")
    conn: Any = sqlite3.connect(shop.url, isolation_level=None if mode == "immediate" else "")
    if mode == "immediate":
        conn.execute("BEGIN IMMEDIATE")
    with inbox.once(conn, "k"):
        pass
    assert conn.in_transaction
    conn.rollback()
    conn.close()
    assert shop.recorded() == []
