"""The next `publish` deletes relayed rows from the application's SQLite file. It deletes no other rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookline import outbox
from hookline.model.outbox import OutboxPlace
from hookline.outbox import marker
from hookline.outbox.adapters import prune
from tests.support.appfile import AppFile


@pytest.fixture
def shop(tmp_path: Path) -> AppFile:
    return AppFile(tmp_path / "shop.db").make()


def mark(shop: AppFile, row_id: int) -> OutboxPlace:
    """Write the mark that Hookline writes after it has relayed all rows up to `row_id`."""
    ((uid,),) = shop.execute("SELECT uid FROM hookline_outbox WHERE id = ?", row_id)
    place = OutboxPlace(row_id=row_id, row_uid=uid)
    marker.write(shop.path, place)
    return place


def test_rows_up_to_the_mark_are_deleted_and_later_rows_are_kept(shop: AppFile) -> None:
    shop.publish("acme", 5)
    mark(shop, 3)
    shop.publish("acme")
    assert shop.ids() == [4, 5, 6]
    shop.publish("acme")
    assert shop.ids() == [4, 5, 6, 7]


def test_a_rollback_brings_the_rows_back(shop: AppFile) -> None:
    shop.publish("acme", 3)
    mark(shop, 3)
    with closing(shop.connect()) as conn:
        outbox.publish(conn, "acme", "order.paid", {})
        conn.rollback()
    assert shop.ids() == [1, 2, 3]


def test_a_savepoint_that_is_rolled_back_brings_the_rows_back(shop: AppFile) -> None:
    shop.publish("acme", 2)
    mark(shop, 2)
    with closing(shop.connect(isolation_level=None)) as conn:
        conn.execute("BEGIN")
        conn.execute("SAVEPOINT inner")
        outbox.publish(conn, "acme", "order.paid", {})
        conn.execute("ROLLBACK TO inner")
        conn.execute("COMMIT")
    assert shop.ids() == [1, 2]


def test_a_long_backlog_is_deleted_in_batches_lowest_id_first(shop: AppFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of the last relayed event is deleted last. Without that row Hookline would relay the later rows again."""
    monkeypatch.setattr(prune, "MAX_ROWS", 4)
    shop.publish("acme", 10)
    mark(shop, 9)
    left = []
    for _ in range(4):
        shop.publish("acme")
        left.append(shop.ids()[0])
    assert left == [5, 9, 10, 10]


def test_large_rows_are_deleted_a_few_at_a_time(shop: AppFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting a thousand rows of one megabyte took seven seconds. The file was locked for the application's other
    connections in that time."""
    times = iter([0.0, prune.MAX_SECONDS])
    monkeypatch.setattr(prune, "monotonic", lambda: next(times))
    shop.publish("acme", 3 * prune.ROWS_PER_DELETE)
    mark(shop, 3 * prune.ROWS_PER_DELETE)
    shop.publish("acme")
    assert shop.ids()[0] == prune.ROWS_PER_DELETE + 1
    monkeypatch.setattr(prune, "monotonic", lambda: 0.0)
    shop.publish("acme")
    assert shop.ids()[0] == 3 * prune.ROWS_PER_DELETE + 1


def _elsewhere(shop: AppFile, marker_file: Path) -> None:
    other = AppFile(shop.path.with_name("other.db")).make()
    other.publish("acme", 3)
    mark(other, 3)
    other.marker.rename(marker_file)


def _link(shop: AppFile, marker_file: Path) -> None:
    mark(shop, 3)
    marker_file.rename(marker_file.with_name("real"))
    marker_file.symlink_to(marker_file.with_name("real"))


def _long(shop: AppFile, marker_file: Path) -> None:
    mark(shop, 3)
    marker_file.write_bytes(marker_file.read_bytes() + b" " * 1024)


IGNORED: dict[str, Callable[[AppFile, Path], Any]] = {
    "none": lambda shop, file: None,
    "empty": lambda shop, file: file.write_bytes(b""),
    "garbage": lambda shop, file: file.write_bytes(os.urandom(100)),
    "no object": lambda shop, file: file.write_bytes(b"[3]"),
    "cut off": lambda shop, file: file.write_bytes(b'{"relayed_id":3,"relayed_uid":"a'),
    "nested": lambda shop, file: file.write_bytes(b"[" * 500),
    "another uid": lambda shop, file: file.write_bytes(b'{"relayed_id":3,"relayed_uid":"a"}'),
    "below zero": lambda shop, file: file.write_bytes(b'{"relayed_id":-3,"relayed_uid":"a"}'),
    "over 64 bits": lambda shop, file: file.write_bytes(b'{"relayed_id":99999999999999999999,"relayed_uid":"a"}'),
    "a fraction": lambda shop, file: file.write_bytes(b'{"relayed_id":3.5,"relayed_uid":"a"}'),
    "half a surrogate": lambda shop, file: file.write_bytes(b'{"relayed_id":3,"relayed_uid":"\\ud800"}'),
    "a NUL": lambda shop, file: file.write_bytes(b'{"relayed_id":3,"relayed_uid":"\\u0000"}'),
    "too long": _long,
    "of another file": _elsewhere,
    "a link": _link,
    "a directory": lambda shop, file: file.mkdir(),
    "a pipe": lambda shop, file: os.mkfifo(file),
}


@pytest.mark.parametrize("make", IGNORED.values(), ids=IGNORED)
def test_an_invalid_mark_or_a_mark_of_another_file_is_ignored(
    shop: AppFile, make: Callable[[AppFile, Path], Any]
) -> None:
    shop.publish("acme", 3)
    make(shop, shop.marker)
    shop.publish("acme")
    assert shop.ids() == [1, 2, 3, 4]


def test_a_directory_at_the_path_of_the_mark_leaves_no_descriptor_open(shop: AppFile) -> None:
    """Every publish reads the mark. A descriptor that stays open each time would end the application's process."""
    shop.marker.mkdir()
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        assert marker.read(shop.path) is None
    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_a_mark_without_read_permission_is_ignored(shop: AppFile) -> None:
    shop.publish("acme", 3)
    mark(shop, 3)
    shop.marker.chmod(0)
    shop.publish("acme")
    assert shop.ids() == [1, 2, 3, 4]


def test_a_row_factory_of_the_application_does_not_matter(shop: AppFile) -> None:
    shop.publish("acme", 3)
    mark(shop, 3)
    with closing(shop.connect()) as conn, conn:
        conn.row_factory = lambda cursor, row: {"columns": len(row)}
        outbox.publish(conn, "acme", "order.paid", {})
    assert shop.ids() == [4]


def test_a_database_in_memory_has_no_mark() -> None:
    from hookline.outbox.setup import sql

    with closing(sqlite3.connect(":memory:")) as conn:
        conn.executescript(sql("sqlite"))
        for _ in range(2):
            outbox.publish(conn, "acme", "order.paid", {})
        assert conn.execute("SELECT count(*) FROM hookline_outbox").fetchone() == (2,)


def test_a_mark_is_written_atomically(shop: AppFile) -> None:
    places = [OutboxPlace(row_id=n, row_uid="u" * (n % 40 + 1)) for n in range(1, 50)]
    for place in places:
        marker.write(shop.path, place)
        assert marker.read(shop.path) == place
    names = {path.name for path in shop.path.parent.iterdir()}
    assert names == {"shop.db", "shop.db-hookline"}


def test_a_symbolic_link_at_the_path_of_the_mark_is_replaced_and_not_followed(shop: AppFile) -> None:
    precious = shop.path.with_name("precious")
    precious.write_text("as it was")
    shop.marker.symlink_to(precious)
    marker.write(shop.path, OutboxPlace(row_id=1, row_uid="u"))
    assert precious.read_text() == "as it was"


def test_a_file_at_the_temporary_path_of_the_mark_is_replaced_and_not_written_to(
    shop: AppFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = shop.path.with_name("precious")
    precious.write_text("as it was")
    monkeypatch.setattr(marker, "token_hex", lambda _: "guessed")
    beside = shop.marker.with_name(shop.marker.name + "-guessed")
    for lay in (beside.symlink_to, beside.hardlink_to):
        lay(precious)
        with pytest.raises(FileExistsError):
            marker.write(shop.path, OutboxPlace(row_id=2, row_uid="u"))
        assert precious.read_text() == "as it was"
        beside.unlink()


def test_several_processes_may_write_the_mark_at_once(shop: AppFile) -> None:
    """The threads of this test stand for processes. No process may move or overwrite the temporary file of another one."""

    def write(uid: str) -> None:
        for n in range(300):
            marker.write(shop.path, OutboxPlace(row_id=10 ** (n % 6), row_uid=uid))
            assert marker.read(shop.path) is not None

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, ("a", "b", "c")))
    assert {path.name for path in shop.path.parent.iterdir()} == {"shop.db", "shop.db-hookline"}


def test_a_mark_that_cannot_be_written_leaves_nothing_behind(shop: AppFile) -> None:
    shop.marker.mkdir()
    with pytest.raises(OSError, match="directory"):
        marker.write(shop.path, OutboxPlace(row_id=2, row_uid="u"))
    assert {path.name for path in shop.path.parent.iterdir()} == {"shop.db", "shop.db-hookline"}
