"""Hookline runs as another user than the application. The application could not use files that Hookline created beside
its own."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hookline.engine.sources import sqlite_file, sqlite_foreign
from hookline.engine.sources.sqlite_file import SqliteFile, TemporarilyUnreadable
from hookline.errors import SourceUnavailable
from tests.support.appfile import AppFile


@pytest.fixture
def shop(tmp_path: Path) -> AppFile:
    return AppFile(tmp_path / "shop.db").make()


@pytest.fixture(autouse=True)
def _as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "is_foreign", lambda _: True)


def beside(shop: AppFile) -> dict[str, int]:
    """Return names and inodes of the database file and of the files beside it. A file that was created again has
    another inode."""
    return {path.name: path.stat().st_ino for path in shop.path.parent.glob("shop.db*")}


def keep_inodes(shop: AppFile) -> None:
    """Keep the inodes in use. Otherwise the next new file would get one of them."""
    for path in list(shop.path.parent.glob("shop.db-*")):
        path.with_name(f"kept-{path.name}").hardlink_to(path)


def read(shop: AppFile) -> int:
    return len(SqliteFile(shop.path).read(None, 10).rows)


def test_the_owner_and_root_are_not_foreign(shop: AppFile, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = shop.path.stat().st_uid
    for user, foreign in ((0, False), (owner, False), (owner + 1, True)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert sqlite_foreign.is_foreign(shop.path) == foreign


def test_a_file_that_is_open_is_read(shop: AppFile) -> None:
    with closing(shop.connect()) as conn:
        conn.execute("SELECT * FROM orders").fetchall()
        shop.publish("acme", 3)
        before = beside(shop)
        assert read(shop) == 3
        assert beside(shop) == before


def test_an_application_that_closes_meanwhile_finds_its_own_files_or_none(
    shop: AppFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last connection of the application removes the WAL and its index when it closes. Here it closes after
    Hookline has seen both files and before SQLite opens them."""
    conn = shop.connect()
    conn.execute("SELECT * FROM orders").fetchall()
    shop.publish("acme", 3)
    keep_inodes(shop)
    before = beside(shop)
    connect = SqliteFile._connect

    def closes_first(file: SqliteFile, how: str) -> sqlite3.Connection:
        conn.close()
        return connect(file, how)

    monkeypatch.setattr(SqliteFile, "_connect", closes_first)
    assert read(shop) == 3
    assert beside(shop).items() <= before.items()
    assert shop.publish("acme")


def test_an_application_that_is_just_opening_the_file_makes_its_index_itself(
    shop: AppFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.path.with_name("shop.db-wal").touch()
    before = beside(shop)
    with pytest.raises(TemporarilyUnreadable):
        read(shop)
    monkeypatch.setattr(sqlite_file, "_MAX_LOCKED", 0.0)
    with pytest.raises(SourceUnavailable, match="the application repairs the file"):
        read(shop)
    assert beside(shop) == before


def test_reading_does_not_disturb_a_writer(tmp_path: Path) -> None:
    shop = AppFile(tmp_path / "shop.db", mode="delete").make()
    with closing(shop.connect(isolation_level=None)) as conn:
        conn.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TemporarilyUnreadable):
            read(shop)
        conn.execute("COMMIT")
    assert read(shop) == 0


def test_a_missing_or_unreadable_file_is_reported(shop: AppFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(error: type[OSError]) -> None:
        def refused(_: Path) -> None:
            raise error

        monkeypatch.setattr(sqlite_file, "shared_lock", refused)

    fails(FileNotFoundError)
    with pytest.raises(TemporarilyUnreadable):
        read(shop)
    fails(PermissionError)
    with pytest.raises(SourceUnavailable, match="may this user read it"):
        read(shop)
