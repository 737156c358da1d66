"""The relay from an application's SQLite file: each row becomes one message, whatever happens to the file."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from hookline import clock
from hookline.engine.relay import BATCH
from hookline.engine.sources import sqlite_file, sqlite_rows
from hookline.engine.sources.sqlite import SqliteSource
from hookline.engine.sources.sqlite_file import Batch, SqliteFile, TemporarilyUnreadable
from hookline.errors import SourceUnavailable, StoreUnavailable
from hookline.model.outbox import OutboxPlace, RelayReport
from hookline.model.policy import PolicyOverride
from hookline.store import Page, Store
from tests.support import factory
from tests.support.appfile import AppFile
from tests.support.scene import Scene

OpenSource = Callable[..., SqliteSource]


@pytest.fixture(params=["wal", "delete", "truncate", "persist"])
def mode(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """These tests need only one engine for Hookline's own database; `test_both_engines_keep_the_position` uses both."""
    name: str = request.param
    return name


@pytest.fixture
def shop(tmp_path: Path) -> AppFile:
    return AppFile(tmp_path / "shop.db").make()


@pytest.fixture
async def open_source(scene: Scene) -> AsyncIterator[OpenSource]:
    opened: list[SqliteSource] = []

    def open_(file: AppFile, store: Store | None = None) -> SqliteSource:
        opened.append(SqliteSource(file.url, store or scene.store))
        return opened[-1]

    yield open_
    for source in opened:
        await source.close()  # a source that the test has closed is closed a second time


@pytest.fixture
def source(open_source: OpenSource, shop: AppFile) -> SqliteSource:
    return open_source(shop)


async def moved(source: SqliteSource, limit: int = BATCH) -> RelayReport:
    """Move rows once the file has settled. The source does not trust a file that was written a moment ago."""
    async with asyncio.timeout(60):
        while True:
            report = await source.move(limit)
            if report.gone:
                return report
            await source.wait(1.0)


async def drained(source: SqliteSource) -> RelayReport:
    """Move rows until none is left, after the file has settled."""
    total = RelayReport()
    quiet = 0
    while quiet < 3:
        report = await source.move(BATCH)
        total = RelayReport(
            relayed=total.relayed + report.relayed,
            repeated=total.repeated + report.repeated,
            set_aside=total.set_aside + report.set_aside,
            reasons=total.reasons + report.reasons,
        )
        quiet = 0 if report.gone else quiet + 1
        await asyncio.sleep(0.03)  # in total longer than the time for which a file counts as just written
    return total


def beside(path: Path) -> set[str]:
    return {found.name for found in path.parent.glob(f"{path.name}*")}


async def reasons(store: Store) -> list[str]:
    return [one.reason for one in await store.repair.set_aside(Page())]


# ── normal operation ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_field_of_a_row_is_in_its_message(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    deliver_at = await scene.store.now() + timedelta(hours=3)
    with closing(shop.connect()) as conn, conn:
        from hookline import outbox

        event_id = outbox.publish(
            conn,
            scene.app.id,
            "order.shipped",
            {"größe": "XL"},
            channels=["eu", "us"],
            tags=["red"],
            ordering_key="customer-4",
            deliver_at=deliver_at,
            max_age=60.5,
            organization=scene.organization.id,
            trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
    assert (await moved(source)).relayed == 1
    found = await scene.store.history.message(scene.app.no, event_id)
    assert found is not None
    assert (found.event_type, found.payload) == ("order.shipped", '{"größe":"XL"}'.encode())
    assert (found.channels, found.tags, found.ordering_key) == (("eu", "us"), ("red",), "customer-4")
    assert (found.deliver_at, found.policy) == (deliver_at, PolicyOverride(max_age=60.5))


async def test_a_row_is_relayed_once_in_every_journal_mode(
    scene: Scene, open_source: OpenSource, tmp_path: Path, mode: str
) -> None:
    file = AppFile(tmp_path / "modes.db", mode=mode).make()
    source = open_source(file)
    for count in (1, 3, 2):
        file.publish(scene.app.id, count)
        assert (await drained(source)).relayed == count
    with closing(file.connect()) as held, held:
        held.execute("SELECT * FROM orders")
        file.publish(scene.app.id)
        assert (await drained(source)).relayed == 1
    assert await scene.raw.count("message") == 7


async def test_nothing_is_left_beside_the_file_but_the_marker(
    scene: Scene, source: SqliteSource, shop: AppFile, tmp_path: Path
) -> None:
    """A WAL or an index file of ours would belong to another user than the application's."""
    await drained(source)
    shop.publish(scene.app.id)
    await drained(source)
    await source.close()
    assert beside(shop.path) == {"shop.db", "shop.db-hookline"}


async def test_a_transaction_that_is_open_or_rolled_back_sends_nothing(
    scene: Scene, source: SqliteSource, shop: AppFile
) -> None:
    with closing(shop.connect()) as conn:
        conn.execute("BEGIN IMMEDIATE")
        conn.execute(
            "INSERT INTO hookline_outbox (app, event_type, payload) VALUES (?, 'order.paid', '{}')", (scene.app.id,)
        )
        assert (await drained(source)).gone == 0
        conn.rollback()
        assert (await drained(source)).gone == 0
        shop.publish(scene.app.id)
    assert (await moved(source)).relayed == 1


async def test_batches_follow_each_other(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    shop.publish(scene.app.id, 7)
    await moved(source, 3)
    await source.wait(60)  # more rows are left, so the source returns at once
    assert [(await source.move(3)).relayed for _ in range(3)] == [3, 1, 0]


async def test_a_batch_is_bounded_by_its_bytes(
    scene: Scene, source: SqliteSource, shop: AppFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "MAX_BYTES", 1000)
    for _ in range(3):
        shop.insert(app=scene.app.id, payload=f'"{"x" * 800}"')
    assert (await moved(source)).relayed == 2
    await source.wait(60)
    assert (await source.move(BATCH)).relayed == 1


async def test_a_commit_ends_the_wait(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    await drained(source)
    waiting = asyncio.create_task(source.wait(60))
    await asyncio.to_thread(shop.publish, scene.app.id)
    async with asyncio.timeout(60):
        await waiting
        assert (await moved(source)).relayed == 1


async def test_a_wait_that_is_cancelled_leaves_the_thread_free(source: SqliteSource) -> None:
    await drained(source)
    waiting = asyncio.create_task(source.wait(600))
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([waiting])
        await source.move(BATCH)


async def test_two_processes_of_hookline_share_the_file(
    scene: Scene, second: Store, open_source: OpenSource, shop: AppFile
) -> None:
    sources = [open_source(shop), open_source(shop, second)]
    shop.publish(scene.app.id, 60)
    reports = await asyncio.gather(*(source.move(7) for _ in range(12) for source in sources))
    reports += [await drained(source) for source in sources]
    assert sum(report.relayed for report in reports) == 60
    assert sum(report.repeated for report in reports) == 0
    assert await scene.raw.count("message") == 60


async def test_a_process_that_was_overtaken_does_not_report_an_empty_file(
    scene: Scene, second: Store, open_source: OpenSource, shop: AppFile
) -> None:
    sources = [open_source(shop), open_source(shop, second)]
    shop.publish(scene.app.id, 60)
    await moved(sources[0], 1)
    reports = await asyncio.gather(*(source.move(7) for _ in range(4) for source in sources))
    assert [report.more for report in reports] == [True] * 8


# ── invalid data ──────────────────────────────────────────────────────────────────────────────────────────────────

GARBAGE: dict[str, tuple[dict[str, Any], str]] = {
    "channels no JSON": ({"channels": "eu,us"}, "channels: is not a list of strings in JSON"),
    "channels no list": ({"channels": '{"eu": 1}'}, "channels: is not a list of strings in JSON"),
    "channels of numbers": ({"channels": "[1, 2]"}, "channels: is not a list of strings in JSON"),
    "tags half a surrogate": ({"tags": '["\\ud800"]'}, "tags: is not a list of strings in JSON"),
    "tags nested": ({"tags": "[" * 5000}, "tags: is not a list of strings in JSON"),
    "payload not UTF-8": ({"payload": b'"\xff"'}, "payload: is not UTF-8"),
    "payload no JSON": ({"payload": "{"}, "payload: is not JSON"),
    "payload too large": ({"payload": f'"{"x" * (1 << 20)}"'}, "payload: 1048578 bytes, more than 1048576"),
    "app not UTF-8": ({"app": b"\xffacme"}, "app: is not UTF-8"),
    "app with NUL": ({"app": "ac\x00me"}, "no such application"),
    "no such app": ({"app": "app_nobody"}, "no such application: app_nobody"),
    "event type for a header": ({"event_type": "a\r\nb"}, "event type: "),
    "event id of ours": ({"event_id": "msg_1"}, "event_id: must not begin with 'msg_'"),
    "deliver_at nonsense": ({"deliver_at": "tomorrow"}, "deliver_at: 'tomorrow' is not a time in ISO 8601"),
    "deliver_at without zone": ({"deliver_at": "2030-01-01T00:00:00"}, "deliver_at: needs a time zone"),
    "deliver_at far": ({"deliver_at": "9999-12-31T23:59:59-14:00"}, "deliver_at: "),
    "deliver_at at the dawn": ({"deliver_at": "0001-01-01T00:00:00+14:00"}, "deliver_at: "),
    "max_age a word": ({"max_age": "soon"}, "max_age: is not a number"),
    "max_age for ever": ({"max_age": 1e300}, "policy.max_age: "),
    "max_age infinite": ({"max_age": float("inf")}, "max_age: is not a number"),
    "key empty": ({"ordering_key": ""}, "ordering_key: must be 1 to 256"),
    "key not UTF-8": ({"ordering_key": b"\xed\xa0\x80"}, "ordering_key: is not UTF-8"),
    "organization of ours": ({"organization": "org_00000000000SvixManagement00"}, "no such application"),
}


async def test_unreadable_rows_are_set_aside_and_block_nothing(
    scene: Scene, source: SqliteSource, shop: AppFile
) -> None:
    await scene.endpoint()
    for bad, _ in GARBAGE.values():
        shop.insert(**({"app": scene.app.id} | bad))
    (good,) = shop.publish(scene.app.id)
    report = await drained(source)
    assert (report.relayed, report.set_aside) == (1, len(GARBAGE))
    assert await scene.store.history.message(scene.app.no, good) is not None
    for name, reason in zip(GARBAGE, await reasons(scene.store), strict=True):
        assert reason.startswith(GARBAGE[name][1]), name
    assert {one.source for one in await scene.store.repair.set_aside(Page())} == {source.name}

    assert await scene.store.repair.retry_set_aside(None) == len(GARBAGE)
    again = await scene.store.pipeline.relay(100)
    assert (again.relayed, again.set_aside) == (0, len(GARBAGE)), "a retry must not send a row without its invalid part"


async def test_a_table_made_by_hand_may_hold_anything(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    shop.execute("DROP TABLE hookline_outbox")
    shop.execute(
        "CREATE TABLE hookline_outbox (id integer PRIMARY KEY, uid, organization, app, event_type, payload, event_id, "
        "channels, tags, ordering_key, deliver_at, max_age, trace, created_at)"
    )
    rows: list[dict[str, Any]] = [
        {"app": None},
        {"event_type": None, "event_id": "e1"},
        {"payload": None, "event_id": "e2"},
        {"payload": 17, "event_id": "e3"},
        {"event_id": None},
        {"event_id": "e4", "max_age": "3.5"},
        {"event_id": "e5", "deliver_at": 1767225600},
        {"event_id": "e6", "channels": 1.5},
        {"event_id": "e7", "uid": None},
        {"event_id": "e8", "uid": b"\x00\xff" * 40},
        {"event_id": "e9", "trace": 5},
        {"event_id": "e10", "trace": b"\xff\x00\n"},
        {"event_id": "e12", "created_at": "yesterday"},
        {"event_id": "e13", "created_at": 17},
        {"event_id": "e14", "created_at": b"\xff"},
        {"event_id": "e15", "created_at": "2001-01-01T00:00:00"},
    ]
    for row in rows:
        shop.insert(**({"app": scene.app.id, "uid": f"u{factory.number()}"} | row))
    report = await drained(source)
    assert (report.relayed, report.set_aside) == (8, 8)
    for event_id in ("e7", "e8", "e9", "e10"):
        kept = await scene.store.history.message(scene.app.no, event_id)
        assert kept is not None
        assert kept.trace is None
    shop.insert(app=scene.app.id, event_id="e11", uid=None)
    assert (await moved(source)).relayed == 1


async def test_the_time_budget_counts_from_publish(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    await scene.endpoint()
    now = clock.wall()
    for event_id, age in (("new", 0), ("young", 200), ("old", 301), ("future", -5000)):
        created_at = (now - timedelta(seconds=age)).isoformat()
        shop.insert(app=scene.app.id, event_id=event_id, max_age=300.0, created_at=created_at)
    assert (await drained(source)).relayed == 4
    left = {}
    for event_id in ("new", "young", "old", "future"):
        message = await scene.store.history.message(scene.app.no, event_id)
        assert message is not None
        expires_at = (await scene.delivery(message.id)).expires_at
        assert expires_at is not None
        left[event_id] = (expires_at - now).total_seconds()
    assert left["new"] == pytest.approx(300, abs=30)
    assert left["young"] == pytest.approx(100, abs=30)
    assert left["old"] == pytest.approx(-1, abs=30)
    assert left["future"] == pytest.approx(300, abs=30)


async def test_nobody_reaches_the_management_organization_through_a_file(
    scene: Scene, source: SqliteSource, shop: AppFile
) -> None:
    from hookline.rules.operational_events import MANAGEMENT

    await scene.store.catalogue.save_organization(factory.organization(id=MANAGEMENT))
    own = await scene.store.catalogue.create_application(MANAGEMENT, factory.new_application(uid=scene.organization.id))
    shop.insert(app=own.id)
    shop.insert(app=own.id, organization=MANAGEMENT)
    shop.insert(app=scene.organization.id, organization=MANAGEMENT)
    assert (await drained(source)).set_aside == 3
    await scene.store.repair.retry_set_aside(None)
    assert (await scene.store.pipeline.relay(10)).set_aside == 3


# ── the file appears, disappears and changes ──────────────────────────────────────────────────────────────────────


async def test_a_file_or_table_that_is_not_there_yet_is_waited_for(
    scene: Scene, open_source: OpenSource, tmp_path: Path
) -> None:
    file = AppFile(tmp_path / "later.db")
    source = open_source(file)
    with structlog.testing.capture_logs() as logs:
        assert (await drained(source)).gone == 0
        assert not (await source.move(BATCH)).more  # the missing file has no rows to wait for
        file.execute("PRAGMA journal_mode = wal")
        assert (await drained(source)).gone == 0
        file.make()
        file.publish(scene.app.id)
        assert (await moved(source)).relayed == 1
    logged = [(entry["event"], entry.get("error", "")) for entry in logs]
    assert [event for event, _ in logged] == ["outbox_away", "outbox_away", "outbox_back"]
    assert "does not exist yet" in logged[0][1]
    assert "hookline migrate" in logged[1][1]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b"#!/bin/sh\n" * 100), "is not a SQLite database"),
        (lambda path: path.mkdir(), "odd.db"),
        (
            lambda path: AppFile(path).execute("CREATE TABLE hookline_outbox (id integer PRIMARY KEY)"),
            "is not Hookline's",
        ),
        (
            lambda path: (
                AppFile(path).execute(
                    "CREATE TABLE hookline_outbox (id, uid, organization, app, event_type, payload, event_id, channels, tags, "
                    "ordering_key, deliver_at, max_age, trace, created_at)"
                )
                or AppFile(path).insert(id="x")
            ),
            "INTEGER PRIMARY KEY",
        ),
    ],
    ids=["a script", "a directory", "another table", "ids of any type"],
)
async def test_a_file_that_is_no_outbox_is_reported_until_it_is_one(
    scene: Scene, open_source: OpenSource, tmp_path: Path, make: Callable[[Path], Any], reason: str
) -> None:
    path = tmp_path / "odd.db"
    make(path)
    source = open_source(AppFile(path))
    with pytest.raises(SourceUnavailable, match=reason):
        await source.move(BATCH)
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    AppFile(path).make().publish(scene.app.id)
    assert (await moved(source)).relayed == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_a_file_without_read_permission_is_reported(open_source: OpenSource, shop: AppFile) -> None:
    shop.path.chmod(0)
    with pytest.raises(SourceUnavailable, match="may this user read it"):
        await open_source(shop).move(BATCH)


async def test_a_file_that_stays_locked_is_reported(
    open_source: OpenSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_MAX_LOCKED", 0.0)
    monkeypatch.setattr(sqlite_file, "_BUSY", 0.0)
    file = AppFile(tmp_path / "held.db", mode="delete").make()
    source = open_source(file)
    with closing(file.connect()) as conn:
        conn.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SourceUnavailable, match="locked"):
            await source.move(BATCH)
        monkeypatch.setattr(sqlite_file, "_MAX_LOCKED", 600.0)
        assert (await source.move(BATCH)).more  # for a short time the lock only delays the reading
    assert not (await source.move(BATCH)).more


async def test_a_read_that_never_ends_is_given_up(
    open_source: OpenSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read without end would block the application's commits and Hookline's shutdown."""
    monkeypatch.setattr(sqlite_file, "MAX_READ", 0.05)
    file = AppFile(tmp_path / "endless.db").make()
    columns = ", ".join(f"NULL AS {name}" for name in sqlite_rows.COLUMNS if name != "id")
    file.execute("DROP TABLE hookline_outbox")
    file.execute(
        "CREATE VIEW hookline_outbox AS WITH RECURSIVE endless (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM endless) "
        f"SELECT id, {columns} FROM endless WHERE id < 0"
    )
    source = open_source(file)
    with pytest.raises(SourceUnavailable, match="took longer"):
        await drained(source)


async def test_the_file_is_replaced_by_another(
    scene: Scene, source: SqliteSource, shop: AppFile, tmp_path: Path
) -> None:
    shop.publish(scene.app.id, 3)
    await drained(source)
    AppFile(tmp_path / "new.db").make().publish(scene.app.id, 5)
    (tmp_path / "new.db").replace(shop.path)
    assert (await drained(source)).relayed == 5
    shop.publish(scene.app.id)
    assert (await drained(source)).relayed == 1


async def test_a_file_that_is_deleted_and_created_again_is_read(
    scene: Scene, source: SqliteSource, shop: AppFile
) -> None:
    shop.publish(scene.app.id, 3)
    await drained(source)
    shop.path.unlink()
    assert (await drained(source)).gone == 0
    assert (await source.move(BATCH)).more  # nobody knows which rows the deleted file had
    shop.make().publish(scene.app.id, 2)
    assert (await drained(source)).relayed == 2
    assert await scene.raw.count("message") == 5


async def test_an_older_backup_is_restored(scene: Scene, source: SqliteSource, shop: AppFile, tmp_path: Path) -> None:
    shop.publish(scene.app.id, 3)
    shutil.copy(shop.path, tmp_path / "backup.db")
    await drained(source)
    shop.publish(scene.app.id, 4)
    await drained(source)
    shop.path.unlink()
    shutil.copy(tmp_path / "backup.db", shop.path)
    # The marker may still name the third row, and this publish would delete the first three rows.
    shop.marker.unlink(missing_ok=True)
    later = shop.publish(scene.app.id, 4)  # these row numbers were used before by other rows
    report = await drained(source)
    assert (report.relayed, report.repeated) == (4, 3)
    assert [await scene.store.history.message(scene.app.no, one) is not None for one in later] == [True] * 4
    assert await scene.raw.count("message") == 11


async def test_a_vacuum_changes_nothing(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    shop.publish(scene.app.id, 5)
    await drained(source)
    shop.execute("DELETE FROM hookline_outbox WHERE id < 4")
    with closing(shop.connect(isolation_level=None)) as conn:
        conn.execute("VACUUM")
    shop.publish(scene.app.id)
    report = await drained(source)
    assert (report.relayed, report.repeated) == (1, 0)


async def test_a_file_whose_time_is_in_the_future_is_read(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    shop.publish(scene.app.id)
    os.utime(shop.path, (4_000_000_000, 4_000_000_000))
    assert (await moved(source)).relayed == 1


async def test_a_commit_that_is_as_old_as_the_last_one_is_found(
    scene: Scene, source: SqliteSource, shop: AppFile
) -> None:
    """File times are coarse, and a commit is visible only after its last write. The regular read finds such a commit."""
    await drained(source)
    with closing(shop.connect()) as held:
        held.execute("SELECT * FROM orders").fetchall()
        before = shop.path.stat()
        shop.publish(scene.app.id)
        os.utime(shop.path, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.utime(f"{shop.path}-wal", (1, 1))
        assert (await moved(source)).relayed == 1


async def test_a_wait_ends_regularly_even_if_the_file_times_do_not_change(source: SqliteSource) -> None:
    await drained(source)
    async with asyncio.timeout(60):
        await source.wait(600)


async def test_a_file_that_was_written_this_moment_is_read_a_moment_later(
    shop: AppFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process has the file open, so no lock shows that it is being written, and the next write may leave the
    times of the file unchanged."""
    written = clock.from_micros(shop.path.stat().st_mtime_ns // 1000)
    file = SqliteFile(shop.path)
    monkeypatch.setattr(sqlite_file, "wall", lambda: written + timedelta(milliseconds=40))
    with pytest.raises(TemporarilyUnreadable):
        file.read(None, 10)
    monkeypatch.setattr(sqlite_file, "wall", lambda: written + timedelta(milliseconds=60))
    assert file.read(None, 10).rows == []


async def test_a_file_that_is_written_while_it_is_read_as_it_lies_there_is_read_again(shop: AppFile) -> None:
    file = SqliteFile(shop.path)
    os.utime(shop.path, (1, 1))
    with pytest.raises(TemporarilyUnreadable), file.reading() as conn:  # noqa: PT012
        conn.execute("SELECT * FROM hookline_outbox").fetchall()
        os.utime(shop.path, (2, 2))


async def test_commits_of_a_killed_application_are_relayed(
    scene: Scene, source: SqliteSource, shop: AppFile, tmp_path: Path
) -> None:
    """The application leaves a WAL that no process has open. The test also relays a copy without the WAL index."""
    with closing(shop.connect()) as conn:
        conn.execute("SELECT * FROM orders").fetchall()
        shop.publish(scene.app.id, 2)
        for name in ("shop.db", "shop.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / name.replace("shop", "copy"))
    copy = AppFile(tmp_path / "copy.db")
    other = SqliteSource(copy.url, scene.store)
    try:
        assert (await moved(other)).relayed == 2
    finally:
        await other.close()
    assert (await moved(source)).repeated == 2


async def test_uncommitted_rows_of_a_killed_application_are_not_relayed(
    scene: Scene, open_source: OpenSource, tmp_path: Path
) -> None:
    """The pages of the uncommitted rows are already in the file. Only the application may play back the journal that
    removes them."""
    file = AppFile(tmp_path / "hot.db", mode="delete").make()
    file.publish(scene.app.id)
    source = open_source(file)
    await drained(source)
    script = (
        f"import os, sqlite3; conn = sqlite3.connect({str(file.path)!r}); conn.execute('PRAGMA cache_size = 1')\n"
        'for n in range(200): conn.execute("INSERT INTO hookline_outbox (app, event_type, payload) '
        f"VALUES ('{scene.app.id}', 'order.paid', '\\\"' || hex(randomblob(2000)) || '\\\"')\")\n"
        "os._exit(1)"
    )
    await (await asyncio.create_subprocess_exec(sys.executable, "-c", script)).wait()
    assert file.path.stat().st_size > 100_000
    with pytest.raises(SourceUnavailable, match="a transaction was not finished"):
        await drained(source)
    later = file.publish(scene.app.id)
    assert (await drained(source)).relayed == 1
    assert await scene.store.history.message(scene.app.no, later[0]) is not None
    assert await scene.raw.count("message") == 2


async def test_a_symbolic_link_leads_to_the_file(
    scene: Scene, open_source: OpenSource, shop: AppFile, tmp_path: Path
) -> None:
    (tmp_path / "link").mkdir()
    link = AppFile(tmp_path / "link" / "shop.db")
    link.path.symlink_to(shop.path)
    source = open_source(link)
    shop.publish(scene.app.id, 3)
    assert (await drained(source)).relayed == 3
    await source.close()
    shop.publish(scene.app.id)
    assert shop.ids() == [4], "the marker is where the application looks for it"


async def test_a_path_may_have_any_characters(scene: Scene, open_source: OpenSource, tmp_path: Path) -> None:
    file = AppFile(tmp_path / "a#b?c%20d 'e'.db").make()
    source = SqliteSource(f"sqlite:///{str(file.path).replace('%', '%25')}", scene.store)
    try:
        file.publish(scene.app.id)
        assert (await moved(source)).relayed == 1
    finally:
        await source.close()


# ── deletion of relayed rows ──────────────────────────────────────────────────────────────────────────────────────


async def test_the_next_publish_deletes_relayed_rows(
    scene: Scene, source: SqliteSource, open_source: OpenSource, shop: AppFile
) -> None:
    shop.publish(scene.app.id, 3)
    await drained(source)
    assert shop.ids() == [1, 2, 3]
    await source.close()
    shop.publish(scene.app.id, 2)
    assert shop.ids() == [4, 5]
    report = await drained(open_source(shop))
    assert (report.relayed, report.repeated) == (2, 0)


async def test_the_marker_is_never_ahead_of_the_stored_position(
    scene: Scene, source: SqliteSource, shop: AppFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker of an earlier Hookline database would delete rows that this one has not read, so it is removed before
    the first read."""
    read, marked = SqliteFile.read, []

    def noted(self: SqliteFile, place: OutboxPlace | None, limit: int) -> Batch:
        marked.append(shop.marker.exists())
        return read(self, place, limit)

    monkeypatch.setattr(SqliteFile, "read", noted)
    shop.publish(scene.app.id, 3)
    uid = shop.execute("SELECT uid FROM hookline_outbox WHERE id = 3")[0][0]
    from hookline.outbox import marker

    marker.write(shop.path, OutboxPlace(row_id=3, row_uid=uid))
    await source.move(1)
    assert marked == [False]
    found = marker.read(shop.path)
    assert found is None or found.row_id < 3
    await drained(source)
    assert await scene.raw.count("message") == 3


async def test_the_marker_waits_for_the_commit(scene: Scene, shop: AppFile) -> None:
    shop.publish(scene.app.id, 3)
    source = SqliteSource(shop.url, _Away())  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await moved(source)
    await source.close()
    assert not shop.marker.exists()


class _Away:
    """Hookline's own database fails between the reading and the copying of rows."""

    @property
    def pipeline(self) -> _Away:
        return self

    async def place(self, _source: str) -> None:
        return None

    async def take(self, *_: object, **__: object) -> RelayReport:
        raise StoreUnavailable("Hookline's database is away")


async def test_a_read_only_directory_is_reported_once(scene: Scene, source: SqliteSource, shop: AppFile) -> None:
    shop.marker.mkdir()
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            shop.publish(scene.app.id)
            assert (await drained(source)).relayed == 1
    assert [entry["event"] for entry in logs if "marked" in entry["event"]] == ["outbox_not_marked"]
    assert shop.ids() == [1, 2]


async def test_reading_is_not_done_on_the_event_loop(
    source: SqliteSource, shop: AppFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    connect = sqlite3.connect

    def noted(*args: Any, **options: Any) -> sqlite3.Connection:
        threads.add(threading.get_ident())
        conn: sqlite3.Connection = connect(*args, **options)
        return conn

    monkeypatch.setattr(sqlite3, "connect", noted)
    await source.move(BATCH)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
async def test_both_engines_keep_the_position(scene: Scene, open_source: OpenSource, shop: AppFile) -> None:
    shop.publish(scene.app.id, 5)
    shop.insert(app="nobody")
    assert (await drained(open_source(shop))).relayed == 5
    shop.publish(scene.app.id, 2)
    report = await drained(open_source(shop))
    assert (report.relayed, report.repeated, report.set_aside) == (2, 0, 0)
    assert len(await reasons(scene.store)) == 1
