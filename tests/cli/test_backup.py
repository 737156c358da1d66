"""`hookline backup` and `hookline restore`, run as real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path

import pytest

from hookline.security.vault import new_key
from hookline.store import SCHEMA_VERSION
from hookline.store.sqlite.migrate import scripts, statements
from tests.cli.conftest import JWT_SECRET, both_engines
from tests.faults.load import Client
from tests.support.appfile import AppFile
from tests.support.cli import COMMAND, Cli, Done, Running
from tests.support.ports import free_port
from tests.support.processes import QUICK
from tests.support.receiver import OK, Behaviour, Receiver

BIG = 40  # MiB, so that a backup takes some time


@pytest.fixture
async def small(alone: Cli, tmp_path: Path) -> Cli:
    """A deployment with an endpoint, one message and a backup of both in `saved.db`. The keys of the deployment
    are in a file."""
    cli = alone.using(**QUICK)
    await cli("apps", "add", "acme")
    assert (await cli("endpoints", "add", "acme", "http://127.0.0.1:8073/")).code == 0
    await cli("send", "acme", "order.paid", "--data", "{}")
    assert (await cli("backup", "saved.db")).code == 0
    return cli


def ids(file: Path) -> list[str]:
    return [row for (row,) in query(file, "SELECT id FROM message ORDER BY seq")]


def query(file: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as conn, conn:
        return conn.execute(statement).fetchall()


def matching(directory: Path, pattern: str) -> list[Path]:
    return list(directory.glob(pattern))


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


# ── under load ────────────────────────────────────────────────────────────────────────────────────────────────────


class Publishing:
    """A thread that publishes messages until its `with` block ends, and keeps the ids that were acknowledged."""

    def __init__(self, address: str, token: str) -> None:
        self._client = Client(int(address.rpartition(":")[2]), token)
        self._over = threading.Event()
        self._news = threading.Condition()
        self._acknowledged: list[str] = []
        self._thread = threading.Thread(target=self._publish)

    def __enter__(self) -> Publishing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _publish(self) -> None:
        for number in count():
            body = b'{"eventType": "order.paid", "payload": {"number": %d}}' % number
            answer = self._client.post("/api/v1/app/acme/msg", body, None, self._over)
            with self._news:
                if answer is None:  # the server was killed, or the `with` block has ended
                    return
                self._acknowledged.append(answer["id"])
                self._news.notify_all()

    async def more(self, wanted: int) -> list[str]:
        """Wait for `wanted` further acknowledgements, and return all ids that were acknowledged so far."""

        def wait() -> list[str]:
            with self._news:
                have = len(self._acknowledged)
                assert self._news.wait_for(lambda: len(self._acknowledged) >= have + wanted, 60)
                return list(self._acknowledged)

        return await asyncio.to_thread(wait)


@asynccontextmanager
async def serving(cli: Cli) -> AsyncIterator[tuple[Running, str]]:
    async with cli.using(HOOKLINE_PORT=free_port()).running("serve", "--json") as server:
        yield server, (await server.json_line())["address"]


async def test_what_was_acknowledged_before_a_backup_is_delivered_after_its_restore(alone: Cli, tmp_path: Path) -> None:
    """The server writes while the backup runs, is killed, and leaves requests in flight, leases and a WAL."""
    cli = alone.using(**QUICK, HOOKLINE_RETRY_MAX_ATTEMPTS="100")
    with Receiver() as receiver:
        receiver.behave(Behaviour(status=503, delay=0.02))
        await cli("apps", "add", "acme")
        await cli("endpoints", "add", "acme", receiver.url)
        token = (await cli("token")).out.strip()
        async with serving(cli) as (server, address):
            with Publishing(address, token) as publishing:
                before = await publishing.more(30)
                report = await cli.json("backup", "saved.db")
                after = (await publishing.more(10))[len(before) :]
                server.process.kill()
        assert report["messages"] >= len(before)
        assert report["missingKeys"] == []
        assert set(before) <= set(ids(tmp_path / "saved.db"))
        restored = await cli.json("restore", "saved.db", "--force")
        assert set(ids(tmp_path / restored["replaced"])) >= {*before, *after}
        assert ids(tmp_path / "hookline.db") == ids(tmp_path / "saved.db")
        receiver.behave(OK)
        first = len(receiver.requests)
        async with serving(cli):
            seen = first
            while not set(before) <= {request.headers["webhook-id"] for request in receiver.requests[first:]}:
                seen = len(await receiver.arrived(seen + 1))


async def test_a_backup_that_is_killed_leaves_no_file_with_its_name(small: Cli, tmp_path: Path) -> None:
    query(tmp_path / "hookline.db", f"CREATE TABLE big AS SELECT zeroblob({BIG} << 20) AS room")
    interrupted = 0
    for number in range(4):
        file = tmp_path / f"killed{number}.db"
        async with small.running("backup", file.name) as command:
            while not matching(tmp_path, f"{file.name}.partial-*") and command.process.returncode is None:
                await asyncio.sleep(0.001)  # another process creates the file: there is no event to wait for
            command.process.send_signal(signal.SIGKILL)
        if file.exists():  # the machine was so busy that the backup ended first
            assert len(ids(file)) == 1
        else:
            interrupted += 1
    assert interrupted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("arguments", [("backup", "again.db"), ("restore", "big.db", "--force")])
async def test_a_signal_leaves_no_partial_file(
    small: Cli, tmp_path: Path, number: signal.Signals, arguments: tuple[str, ...]
) -> None:
    query(tmp_path / "hookline.db", f"CREATE TABLE big AS SELECT zeroblob({BIG} << 20) AS room")
    assert (await small("backup", "big.db")).code == 0
    interrupted = 0
    for _ in range(4):
        (tmp_path / "again.db").unlink(missing_ok=True)
        async with small.running(*arguments) as command:
            while not matching(tmp_path, "*.partial-*") and command.process.returncode is None:
                await asyncio.sleep(0.001)  # another process creates the file: there is no event to wait for
            done = await command.stop(number)
        assert matching(tmp_path, "*.partial-*") == []
        assert done.code in (130, 0, -number), done  # not 130: the machine was so busy that the work ended first
        interrupted += done.code == 130
    assert interrupted


# ── backup ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_backup_says_what_it_contains_and_what_to_keep(small: Cli, tmp_path: Path) -> None:
    done = await small("backup", "again.db")
    assert done.code == 0
    for words in ("messages", "open deliveries", f"Keep {tmp_path}/hookline.db.keys too, in another place"):
        assert words in done.out, done
    report = await small.json("backup", "again.db", "--force")
    assert report["newestMessage"] is not None
    assert {name: report[name] for name in ("version", "messages", "openDeliveries", "deadLetters")} == {
        "version": SCHEMA_VERSION,
        "messages": 1,
        "openDeliveries": 1,
        "deadLetters": 0,
    }
    assert (tmp_path / "again.db").stat().st_mode & 0o777 == 0o600
    assert report["bytes"] == (tmp_path / "again.db").stat().st_size
    assert names(tmp_path) == {"again.db", "saved.db", "hookline.db", "hookline.db.keys"}


async def test_a_backup_without_its_keys_is_made_with_a_warning(small: Cli, tmp_path: Path) -> None:
    (tmp_path / "hookline.db.keys").unlink()
    done = await small("backup", "again.db")
    assert done.code == 0
    assert "does not decrypt some secrets" in done.err
    assert "hookline.db.keys" not in names(tmp_path)


async def test_a_backup_replaces_no_other_file(small: Cli, tmp_path: Path) -> None:
    keys = (tmp_path / "hookline.db.keys").read_bytes()
    (await small("backup", "saved.db")).refused(5, "saved.db exists", "--force")
    (await small("backup", "hookline.db", "--force")).refused(2, "is the database itself")
    (await small("backup", "hookline.db.keys", "--force")).refused(2, "is not a backup")
    (await small("backup", "nowhere/saved.db")).refused(2, "nowhere does not exist")
    assert (tmp_path / "hookline.db.keys").read_bytes() == keys
    assert names(tmp_path) == {"saved.db", "hookline.db", "hookline.db.keys"}


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("replaced", [True, False])
async def test_a_backup_has_no_leftover_of_another_database_beside_it(
    small: Cli, tmp_path: Path, suffix: str, replaced: bool
) -> None:
    """SQLite would write a leftover WAL or journal into the backup when it opens the backup."""
    file = "saved.db" if replaced else "new.db"
    stale = tmp_path / f"{file}{suffix}"
    stale.write_bytes(b"left by a killed process")
    (await small("backup", file)).refused(5, f"{file} exists" if replaced else f"{file}{suffix} exists", "--force")
    assert stale.exists()
    assert (await small("backup", file, "--force")).code == 0
    assert not stale.exists()
    assert len(ids(tmp_path / file)) == 1


async def test_a_wal_beside_a_replaced_backup_does_not_change_the_new_backup(small: Cli, tmp_path: Path) -> None:
    saved, kept = tmp_path / "saved.db", tmp_path / "kept"
    with closing(sqlite3.connect(saved)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        with conn:
            conn.execute("DELETE FROM message")
        kept.write_bytes((tmp_path / "saved.db-wal").read_bytes())
    kept.rename(tmp_path / "saved.db-wal")  # as if the process was killed before it closed the database
    assert (await small("backup", "saved.db", "--force")).code == 0
    assert ids(saved) == ids(tmp_path / "hookline.db")
    assert query(saved, "PRAGMA integrity_check") == [("ok",)]


async def test_a_backup_replaces_no_database_of_another_program(small: Cli, tmp_path: Path) -> None:
    shop = tmp_path / "shop.db"
    query(shop, "CREATE TABLE message (id integer)")
    before = shop.read_bytes()
    (await small("backup", "shop.db", "--force")).refused(2, "shop.db is not a backup")
    assert shop.read_bytes() == before
    (tmp_path / "empty.db").touch()
    assert (await small("backup", "empty.db", "--force")).code == 0


async def test_a_backup_replaces_no_database_that_is_in_use(small: Cli, tmp_path: Path) -> None:
    other = small.using(HOOKLINE_DATABASE_URL=f"sqlite:///{tmp_path}/other.db")
    async with serving(other):
        before = (tmp_path / "other.db").stat().st_ino
        (await small("backup", "other.db", "--force")).refused(5, "other.db is in use")
        assert (tmp_path / "other.db").stat().st_ino == before


async def test_a_backup_to_a_symbolic_link_writes_the_file_that_it_names(small: Cli, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "latest.db", tmp_path / "disk" / "monday.db"
    link.symlink_to(target)
    for force in ([], ["--force"]):
        target_before = target.stat().st_ino if target.exists() else None
        assert (await small("backup", "latest.db", *force)).code == 0
        assert link.is_symlink()
        assert target.stat().st_ino != target_before
        assert len(ids(target)) == 1
    assert names(tmp_path / "disk") == {"monday.db"}


@pytest.mark.parametrize("file", [".", ""])
async def test_a_backup_is_a_file(small: Cli, tmp_path: Path, file: str) -> None:
    for force in ([], ["--force"]):
        (await small("backup", file, *force)).refused(2, f"{tmp_path} is not a file")


async def test_a_backup_that_cannot_be_written_names_its_file(small: Cli, tmp_path: Path) -> None:
    for arguments, words in (
        (("backup", "again.db"), "again.db.partial-"),
        (("restore", "saved.db", "--force"), "hookline.db.partial-"),
    ):
        done = await limited(small, *arguments)
        done.refused(4, f"{tmp_path}/{words}", "cannot be read or written")
    assert names(tmp_path) == {"saved.db", "hookline.db", "hookline.db.keys"}


async def limited(cli: Cli, *arguments: str) -> Done:
    """Run the command with a limit on the size of files, which acts like a full disk. SQLite's `-shm` file fits."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'ulimit -f 128; exec "$@"', "sh", *COMMAND, *arguments),
        env=cli.environment,
        cwd=cli.directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


async def test_there_must_be_a_database(alone: Cli, tmp_path: Path) -> None:
    (await alone("backup", "saved.db")).refused(4, "no database at")
    assert names(tmp_path) == set()


async def test_a_damaged_database_gets_no_backup(small: Cli, tmp_path: Path) -> None:
    damage(tmp_path / "hookline.db")
    (await small("backup", "again.db")).refused(2, "hookline.db is damaged")
    assert "again.db" not in names(tmp_path)


def damage(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2 // 4096 * 4096)
        opened.write(b"\xff" * 4096 * 3)


@both_engines
async def test_postgresql_has_its_own_tools(cli: Cli, engine: str, tmp_path: Path) -> None:
    if engine == "sqlite":
        assert (await cli("backup", "saved.db")).code == 0
        return
    for command in ("backup", "restore"):
        (await cli(command, "saved.db")).refused(2, "is for SQLite", "pg_dump", "back-up-and-restore.md")
    assert names(tmp_path) == set()


# ── restore ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_restore_needs_a_usable_file(small: Cli, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but longer than the header of one " * 50)
    query(tmp_path / "other.db", "CREATE TABLE orders (id integer)")
    (tmp_path / "empty.db").touch()
    (tmp_path / "damaged.db").write_bytes((tmp_path / "saved.db").read_bytes())
    damage(tmp_path / "damaged.db")
    (tmp_path / "newer.db").write_bytes((tmp_path / "saved.db").read_bytes())
    query(tmp_path / "newer.db", "INSERT INTO migration VALUES (9999, 0)")
    (tmp_path / "cut.db").write_bytes((tmp_path / "saved.db").read_bytes()[:-8192])
    before, files = ids(tmp_path / "hookline.db"), names(tmp_path)
    for file, code, words in (
        ("missing.db", 3, "no file"),
        (".", 2, "is not a file"),
        ("hookline.db", 2, "is the database itself"),
        ("text.db", 2, "text.db is not a SQLite database"),
        ("other.db", 2, "other.db is not a database of Hookline"),
        ("empty.db", 2, "empty.db is not a database of Hookline"),
        ("damaged.db", 2, "damaged.db is damaged"),
        ("cut.db", 2, "cut.db is damaged"),
        ("newer.db", 4, "newer.db is at version 9999, newer than this release"),
    ):
        (await small("restore", file, "--force")).refused(code, words)
    (await small("restore", "saved.db")).refused(5, "hookline.db exists", "--force")
    assert ids(tmp_path / "hookline.db") == before
    assert names(tmp_path) == files


async def test_a_restore_finds_a_damaged_index(small: Cli, tmp_path: Path) -> None:
    """One bit of an index is wrong. `quick_check` does not compare an index with its table."""
    saved = tmp_path / "saved.db"
    ((root,),) = query(saved, "SELECT rootpage FROM sqlite_schema WHERE name = 'message_id'")
    ((size,),) = query(saved, "PRAGMA page_size")
    content = bytearray(saved.read_bytes())
    content[int(str(root)) * int(str(size)) - 1] ^= 1  # SQLite fills a page from its end
    saved.write_bytes(content)
    assert query(saved, "PRAGMA quick_check") == [("ok",)]
    (await small("restore", "saved.db", "--force")).refused(2, "saved.db is damaged", "index")


async def test_a_database_that_is_in_use_is_not_replaced(small: Cli, tmp_path: Path) -> None:
    """A running server has open connections, also when it does nothing."""
    async with serving(small):
        (await small("restore", "saved.db", "--force")).refused(5, "is in use", "stop every process")
        (await small("restore", "saved.db")).refused(5, "is in use")
    assert (await small("restore", "saved.db", "--force")).code == 0


async def test_the_replaced_database_is_kept_with_what_its_wal_has(small: Cli, tmp_path: Path) -> None:
    database = tmp_path / "hookline.db"
    async with serving(small) as (server, _):
        await small("send", "acme", "order.paid", "--data", '{"second": true}')
        server.process.kill()
    assert {"hookline.db-wal", "hookline.db-shm"} <= names(tmp_path)
    database.chmod(0o640)
    done = await small("restore", "saved.db", "--force")
    assert done.code == 0, done
    for words in ("accepted after the backup is gone", "same webhook-id", "The replaced database is"):
        assert words in done.out, done
    (aside,) = matching(tmp_path, "hookline.db.replaced-*")
    assert names(tmp_path) == {"hookline.db", "hookline.db.keys", "saved.db", aside.name}
    assert (len(ids(database)), len(ids(aside))) == (1, 2)
    assert database.stat().st_mode & 0o777 == 0o640
    assert (await small("doctor", "--json")).code == 0


async def test_a_damaged_database_can_be_replaced(small: Cli, tmp_path: Path) -> None:
    (tmp_path / "hookline.db").write_bytes(b"\xff" * 5000)
    (tmp_path / "hookline.db-wal").write_bytes(b"left by a killed process")
    report = await small.json("restore", "saved.db", "--force")
    aside = report["replaced"]
    assert (tmp_path / aside).read_bytes() == b"\xff" * 5000
    assert (tmp_path / f"{aside}-wal").read_bytes() == b"left by a killed process"
    assert "hookline.db-wal" not in names(tmp_path)
    assert len(ids(tmp_path / "hookline.db")) == 1


async def test_a_restore_on_a_new_machine_needs_the_keys(small: Cli, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    there = small.using(HOOKLINE_DATABASE_URL=f"sqlite:///{new}/hookline.db")
    refused = await there("restore", "saved.db")
    refused.refused(2, f"{new}/hookline.db.keys has no key that decrypts some secrets", "--lost-keys")
    assert names(new) == set()
    (new / "hookline.db.keys").write_bytes((tmp_path / "hookline.db.keys").read_bytes())
    (new / "hookline.db.keys").chmod(0o600)
    (new / "hookline.db-wal").write_bytes(b"of a database that somebody has deleted")
    report = await there.json("restore", "saved.db")
    assert (report["replaced"], report["missingKeys"]) == (None, [])
    assert (new / "hookline.db").stat().st_mode & 0o777 == 0o600
    assert "hookline.db-wal" not in names(new)
    assert (await there("doctor", "--json")).code == 0


async def test_lost_keys_must_be_said(small: Cli, tmp_path: Path) -> None:
    (tmp_path / "hookline.db.keys").unlink()
    (await small("restore", "saved.db", "--force")).refused(2, "has no key")
    done = await small("restore", "saved.db", "--force", "--lost-keys")
    assert done.code == 0
    assert "warning: no key decrypts some secrets" in done.err


async def test_a_database_of_an_older_release_is_restored_and_then_migrated(alone: Cli, tmp_path: Path) -> None:
    cli = alone.using(HOOKLINE_SECRET_KEY=new_key(), HOOKLINE_JWT_SECRET=JWT_SECRET)
    with closing(sqlite3.connect(tmp_path / "hookline.db")) as conn, conn:
        for statement in statements(scripts()[1]):
            conn.execute(statement)
        conn.execute("CREATE TABLE migration (number integer PRIMARY KEY, applied_at integer NOT NULL) STRICT")
        conn.execute("INSERT INTO migration VALUES (1, 0)")
    assert (await cli.json("backup", "saved.db"))["version"] == 1
    (tmp_path / "hookline.db").unlink()
    assert (await cli.json("restore", "saved.db"))["version"] == 1
    assert (await cli.json("migrate"))["applied"] == list(range(2, SCHEMA_VERSION + 1))


async def test_rows_that_are_still_in_an_outbox_are_relayed_again(alone: Cli, tmp_path: Path) -> None:
    """The marker file of the application names a row that the restored database does not have. The application would
    delete this row at its next publish."""
    shop = AppFile(tmp_path / "shop.db").make()
    cli = alone.using(HOOKLINE_OUTBOX_URLS=shop.url)
    await cli("apps", "add", "acme")
    first = shop.publish("acme", 3)
    assert (await cli("relay", "--once")).code == 0
    assert (await cli("backup", "saved.db")).code == 0
    second = shop.publish("acme", 2)  # deletes the first three rows
    assert (await cli("relay", "--once")).code == 0
    assert shop.marker.exists()
    assert (await cli("restore", "saved.db", "--force")).code == 0
    third = shop.publish("acme", 1)
    assert (await cli("relay", "--once")).code == 0
    stored = [row for (row,) in query(tmp_path / "hookline.db", "SELECT event_id FROM message ORDER BY seq")]
    assert stored == [*first, *second, *third]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_database_that_root_restores_keeps_its_owner(small: Cli, tmp_path: Path) -> None:
    os.chown(tmp_path / "hookline.db", 65534, 65534)
    assert (await small("restore", "saved.db", "--force")).code == 0
    assert (tmp_path / "hookline.db").stat().st_uid == 65534
