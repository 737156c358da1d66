"""The database file: its URL, its permissions, and the errors when it cannot be opened."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import sys
from pathlib import Path

import pytest

from hookline.errors import InvalidInput, MigrationNeeded, StoreUnavailable
from hookline.model.deliveries import SlotBudgets
from hookline.security.vault import Vault, new_key
from hookline.store import SCHEMA_VERSION, Store, StoreOptions, open_store
from hookline.store.sqlite import writer
from hookline.store.sqlite.connect import path_of
from tests.support import factory
from tests.support.counts import count
from tests.support.raw import Raw
from tests.support.scene import Scene


async def opened(path: Path) -> Store:
    return await open_store(f"sqlite:///{path}", vault=Vault([new_key()]), options=StoreOptions())


def modes_in(directory: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}


def size_of_log(database_url: str) -> int:
    return Path(database_url.removeprefix("sqlite:///") + "-wal").stat().st_size


def test_three_slashes_mean_a_relative_path_and_four_an_absolute_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert path_of("sqlite:///data/h%20k.db") == tmp_path / "data" / "h k.db"
    assert path_of("sqlite:////srv/hookline.db") == Path("/srv/hookline.db")


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite://", "sqlite:file.db", "sqlite:///a%00b"])
def test_other_url_forms_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"sqlite:///relative\.db"):
        path_of(url)


async def test_only_the_owner_can_read_a_new_database(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await opened(tmp_path / "new.db")
        await store.migrate()
        modes = modes_in(tmp_path)
        await store.close()
    finally:
        os.umask(before)
    assert modes.keys() >= {"new.db", "new.db-wal"}
    assert set(modes.values()) == {0o600}


async def test_the_error_names_a_file_that_is_not_a_database_and_leaves_it_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are notes, and more than a hundred bytes of them " * 40)
    before = file.read_bytes()
    with pytest.raises(InvalidInput, match="not a SQLite database"):
        await opened(file)
    assert file.read_bytes() == before


async def test_the_error_names_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"does not exist: .*nowhere"):
        await opened(tmp_path / "nowhere" / "hookline.db")
    assert modes_in(tmp_path) == {}


async def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a directory"):
        await opened(tmp_path)


async def test_the_error_names_a_sqlite_version_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StoreUnavailable, match=r"SQLite 3\.37\.0 or newer is needed"):
        await opened(tmp_path / "new.db")
    assert modes_in(tmp_path) == {}


async def test_a_database_of_another_application_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE message (subject text)")
    connection.close()
    store = await opened(file)
    with pytest.raises(InvalidInput, match="not Hookline's"):
        await store.migrate()
    assert await store.version() == 0
    await store.close()
    with sqlite3.connect(file) as connection:
        assert [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")] == ["message"]
    connection.close()


async def test_the_error_for_a_database_without_migrations_names_the_command_to_run(tmp_path: Path) -> None:
    store = await opened(tmp_path / "empty.db")
    assert await store.version() == 0
    with pytest.raises(MigrationNeeded, match="hookline migrate"):
        await store.catalogue.organization("org_1")
    with pytest.raises(MigrationNeeded, match="hookline migrate"):
        await store.catalogue.save_organization(factory.organization())
    await store.close()


async def test_a_migration_of_a_later_release_is_refused(store: Store, raw: Raw) -> None:
    await raw.execute("INSERT INTO migration (number, applied_at) VALUES (77, 1)")
    with pytest.raises(MigrationNeeded, match="migration 77, newer than this release"):
        await store.migrate()


async def test_processes_may_open_a_new_file_at_the_same_time(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from hookline.store import open_store, StoreOptions\n"
        "from hookline.security.vault import Vault, new_key\n"
        "async def main():\n"
        "    store = await open_store(sys.argv[1], vault=Vault([new_key()]), options=StoreOptions())\n"
        "    await store.migrate()\n"
        "    print(await store.version())\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    url = f"sqlite:///{tmp_path}/together.db"
    assert await asyncio.gather(*(run(code, url) for _ in range(4))) == [(0, b"%d\n" % SCHEMA_VERSION, b"")] * 4


async def run(code: str, *arguments: str) -> tuple[int | None, bytes, bytes]:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *arguments, stdout=pipe, stderr=pipe)
    out, err = await child.communicate()
    return child.returncode, out, err


async def test_a_large_wal_file_is_truncated_while_nobody_writes(
    scene: Scene, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.endpoint()
    await scene.ingest(factory.new_messages(scene.app.no, 50, payload=b'"%s"' % (b"x" * 10_000)))
    assert size_of_log(database_url) > 500_000
    monkeypatch.setattr(writer, "WAL_BYTES", 100_000)
    async with asyncio.timeout(60):
        while size_of_log(database_url) > 0:  # SQLite has no event for the truncation of the file
            await asyncio.sleep(0.01)
    assert len(await scene.claim(100)) == 50


async def test_a_closed_store_raises_an_error(database_url: str, vault: Vault) -> None:
    store = await open_store(database_url, vault=vault, options=StoreOptions())
    await store.migrate()
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await count(store)
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.pipeline.claim(1, SlotBudgets(lane_limit=1))
