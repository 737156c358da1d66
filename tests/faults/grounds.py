"""The databases of special drills: on a small disk, with a replica, behind PgBouncer, with a clock that can be set."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg

from hookline.clock import monotonic
from tests.faults.drill import NotRun
from tests.faults.scene import Database, Scene
from tests.support import debian
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import SUPERUSER, PostgresServer, Standby, private_server
from tests.support.proxy import Proxy

# ── a small disk ──────────────────────────────────────────────────────────────────────────────────────────────────

DISK = "1g"


@contextmanager
def small_disk(engine: str, directory: Path) -> Iterator[Database]:
    """A database on a disk of its own (tmpfs), which `fill_disk` can fill."""
    with _mounted() as disk:
        if engine == "sqlite":
            url = f"sqlite:///{disk}/hookline.db"
            yield Database(engine=engine, url=url, direct=url, directory=disk)
            return
        with private_server(durable=True, settings={"max_wal_size": "128MB"}, under=disk) as server:
            url = server.url("postgres")
            yield Database(engine=engine, url=url, direct=url, server=server, directory=disk)


@contextmanager
def own_disk(engine: str, directory: Path) -> Iterator[Database]:
    """A SQLite file on a disk of its own, which `mount_read_only` can make read-only. The shop is elsewhere."""
    with _mounted() as disk:
        url = f"sqlite:///{disk}/hookline.db"
        yield Database(engine=engine, url=url, direct=url, directory=disk, extra={"shop": directory})


def mount_read_only(scene: Scene) -> None:
    """Stop the processes, start them on a read-only disk, and make it writable after some seconds.

    A disk cannot be made read-only while a process has a file open for writing.
    """
    disk = scene.database.directory
    assert disk is not None
    with scene.fault("file read-only"):
        for member in scene.members:
            member.wanted = False
            member.process.stop()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for member in scene.members:
            member.start()
        time.sleep(scene.chance.uniform(3.0, 5.0))  # the length of the fault
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    scene.ready()


@contextmanager
def _mounted() -> Iterator[Path]:
    disk = Path(tempfile.mkdtemp(prefix="hookline-disk-"))
    options = f"size={DISK},mode=1777"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        disk.rmdir()
        raise NotRun("no right to mount a small disk (tmpfs)")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
        disk.rmdir()


def fill_disk(scene: Scene) -> None:
    """Fill the disk for some seconds. PostgreSQL stops if it cannot write its WAL, and is then started again."""
    assert scene.database.directory is not None
    ballast = scene.database.directory / "ballast"
    with scene.fault("disk full", excuse=scene.engine == "postgres"):
        until = monotonic() + scene.chance.uniform(2.0, 4.0)
        with ballast.open("wb") as file:
            while monotonic() < until:
                _fill(file.fileno(), scene.database.directory)
                time.sleep(0.05)  # other processes free some space: fill that too
        ballast.unlink()
        if scene.database.server is not None and not scene.server.running:
            scene.notes.append("PostgreSQL stopped on the full disk and was started again")
            scene.server.start()


def _fill(file: int, disk: Path) -> None:
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    size = os.fstat(file).st_size
    with suppress(OSError):
        os.posix_fallocate(file, size, max(free, 1))


# ── a replica ─────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def replicated(engine: str, directory: Path) -> Iterator[Database]:
    """A server with a synchronous standby. Clients connect through a proxy, which a failover turns to the standby."""
    with private_server(durable=True) as primary, Proxy(None) as proxy:
        proxy.to = primary.port
        url = f"postgresql://{SUPERUSER}@127.0.0.1:{proxy.port}/postgres"
        replica = Replica(primary, proxy)
        try:
            replica.follow()
            yield Database(
                engine=engine, url=url, direct=primary.url("postgres"), server=primary, extra={"replica": replica}
            )
        finally:
            replica.close()


class Replica:
    def __init__(self, primary: PostgresServer, proxy: Proxy) -> None:
        self.primary, self._proxy = primary, proxy
        self.standby: Standby | None = None
        self._promoted: list[Standby] = []

    def follow(self) -> None:
        """Start a standby, and let the primary wait for it at each commit."""
        self.standby = Standby(self.primary)
        self.standby.start()
        asyncio.run(_synchronous(self.primary.url("postgres")))

    def fail_over(self) -> None:
        """Crash the primary, promote the standby and send clients there."""
        assert self.standby is not None
        self.primary.crash()
        asyncio.run(_promoted(self.standby.url("postgres")))
        self._promoted.append(self.standby)
        self.primary, self.standby = self.standby, None
        self._proxy.to = self.primary.port

    def close(self) -> None:
        for server in filter(None, [self.standby, *self._promoted]):
            server.close()


async def _synchronous(url: str) -> None:
    db = await asyncpg.connect(url)
    try:
        await db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await db.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(60):
            while not await db.fetchval("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"):
                await asyncio.sleep(0.05)  # the server reloads its settings: there is no event to wait for
    finally:
        await db.close()


async def _promoted(url: str) -> None:
    db = await asyncpg.connect(url)
    try:
        assert await db.fetchval("SELECT pg_promote(true, 60)")
    finally:
        await db.close()


def fail_over(scene: Scene) -> None:
    """Crash the primary and promote its standby; then start another standby for the next failover."""
    replica: Replica = scene.database.extra["replica"]
    scene.until_sending()
    with scene.fault("failover", excuse=True):
        replica.fail_over()
    scene.database.server = replica.primary
    scene.database.direct = replica.primary.url("postgres")
    replica.follow()


# ── PgBouncer ─────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def behind_pgbouncer(engine: str, directory: Path) -> Iterator[Database]:
    """A server behind PgBouncer in session mode. Hookline refuses the other modes (tests/store_postgres)."""
    with private_server(durable=True) as server:
        pooler = PgBouncer.find(server, "session", download=True)
        if pooler is None:
            raise NotRun("pgbouncer is not installed")
        try:
            pooler.start()
            direct = server.url("postgres")
            yield Database(engine=engine, url=pooler.url, direct=direct, server=server, extra={"pooler": pooler})
        finally:
            pooler.stop()


def kill_pgbouncer(scene: Scene) -> None:
    """Kill PgBouncer, so that every connection is lost, and start it again."""
    pooler: PgBouncer = scene.database.extra["pooler"]
    with scene.fault("PgBouncer killed"):
        pooler.stop()
        time.sleep(scene.chance.uniform(0.0, 1.0))  # the length of the outage
        pooler.start()


# ── clocks ────────────────────────────────────────────────────────────────────────────────────────────────────────


SHIFTED = Path(__file__).with_name("shifted")


@contextmanager
def settable_clock(engine: str, directory: Path) -> Iterator[Database]:
    """A database and processes whose clock `set_clock` can set. The clock of the drill stays as it is.

    libfaketime shifts the clock of PostgreSQL. Python's own sleep fails under libfaketime, so a module that Python loads
    at its start shifts the clock of Hookline's processes.
    """
    with tempfile.TemporaryDirectory(prefix="hookline-clock-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user reads it
        hand, servers = Path(folder) / "time", Path(folder) / "database"
        _turn(hand, 0)
        _turn(servers, 0)
        path = os.pathsep.join([str(SHIFTED), os.environ.get("PYTHONPATH", str(Path.cwd()))])
        extra = {"clocks": (hand, servers), "variables": {"PYTHON_DRILL_CLOCK": str(hand), "PYTHONPATH": path}}
        if engine == "sqlite":
            url = f"sqlite:///{directory}/hookline.db"
            yield Database(engine=engine, url=url, direct=url, extra=extra)
            return
        with private_server(durable=True, variables=_faketime(servers)) as server:
            url = server.url("postgres")
            yield Database(engine=engine, url=url, direct=url, server=server, extra=extra)


def _faketime(hand: Path) -> dict[str, str]:
    library = debian.library("libfaketime.so.1", "libfaketime")
    if library is None:
        raise NotRun("libfaketime is not installed")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(hand),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


def _turn(hand: Path, seconds: int) -> None:
    """Write `seconds` into the file `hand`. The file is replaced, so that no process reads half of it."""
    new = hand.with_suffix(".new")
    new.write_text(f"{seconds:+d}")
    new.replace(hand)


def set_clock(scene: Scene) -> None:
    """Set the clock of Hookline, of the database or of both an hour ahead or back, and set it right after a while."""
    hookline, database = scene.database.extra["clocks"]
    names = {"clock": [hookline]}
    if scene.engine == "postgres":
        names = {"both clocks": [hookline, database], "database's clock": [database], "Hookline's clock": [hookline]}
    turn = len(scene.faults)
    name, hands = list(names.items())[turn // 2 % len(names)]
    with scene.fault(f"{name} set {('ahead', 'back')[turn % 2]}", excuse=True):
        for hand in hands:
            _turn(hand, (3600, -3600)[turn % 2])
        time.sleep(scene.chance.uniform(2.0, 4.0))  # the length of the fault
        for hand in hands:
            _turn(hand, 0)


# ── releases ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def earlier_release(scene: Scene) -> Iterator[str]:
    """Start the processes with the code from before the newest migration, out of the repository's history."""
    root = Path(__file__).parents[2]
    folder = "hookline/store/migrations"
    newest = max(file.name for file in (root / folder / "postgres").glob("*.sql"))
    added = _git(root, "log", "-1", "--diff-filter=A", "--format=%H", "--", f"{folder}/postgres/{newest}").strip()
    archive = scene.directory / "earlier.tar"
    _git(root, "archive", f"--output={archive}", f"{added}^", "hookline")
    with tarfile.open(archive) as packed:
        packed.extractall(scene.directory / "earlier", filter="data")
    # Without PYTHONSAFEPATH, Python would find this checkout in the current directory first.
    scene.variables = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(scene.directory / "earlier")}
    yield f"http://127.0.0.1:{scene.witness.port}"


def _git(root: Path, *arguments: str) -> str:
    if shutil.which("git") is None:
        raise NotRun("git is not installed")
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotRun("the history of the repository does not have the release before the newest migration")
    return done.stdout


def upgrade(scene: Scene) -> None:
    """Replace one process of the earlier release by one of this release. The first of these migrates the database."""
    older = [member for member in scene.members if "PYTHONSAFEPATH" in member.env]
    if not older:
        return
    member = older[-1]  # workers first, the API last
    with scene.fault(f"{member.name} upgraded".replace("second ", "")):
        member.wanted = False
        member.process.stop()
        member.env = scene.env
        member.start()
