"""The faults. Each function causes one and returns when it is over. `excuse` marks those that may cause a second copy."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import psycopg

from hookline.clock import monotonic
from tests.faults.scene import LEASE, SENDER, VALIDATOR, WORKER, Member, Missed, Scene
from tests.support.processes import Process, all_stopped, children

# ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────────


def kill_worker(scene: Scene) -> None:
    scene.until_sending()
    victim = scene.chance.choice(scene.workers())
    with scene.fault(f"{victim.name} killed".replace("second ", ""), excuse=True):
        victim.kill()
    victim.start()


def kill_api(scene: Scene) -> None:
    victim = scene.member("api")
    scene.ready()
    with scene.fault("API killed"):
        victim.kill()
    victim.start()


def kill_sender(scene: Scene) -> None:
    scene.until_sending()
    pid = _sender(scene, scene.chance.choice(scene.workers()))
    with scene.fault("sender killed", excuse=True), suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_supervised(scene: Scene) -> None:
    scene.until_sending()
    pid = _child(scene, scene.member("server"), WORKER)
    with scene.fault("supervised worker killed", excuse=True), suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_server(scene: Scene) -> None:
    scene.ready()
    scene.until_sending()
    victim = scene.member("server")
    with scene.fault("server killed", excuse=True):
        victim.kill()
    victim.start()


def kill_publisher(scene: Scene) -> None:
    """Kill the shop that publishes in its transactions. A transaction that was open is rolled back."""
    with scene.fault("publisher killed"):
        scene.publishers.kill_shop()


@contextmanager
def validating(scene: Scene) -> Iterator[str]:
    """Give the event types a schema. It is recursive, so the API validates payloads in separate processes."""
    schema = {"type": "object", "properties": {"inner": {"$ref": "#"}}}
    scene.validation = {"schemas": {"1": schema}, "validated": True}
    yield f"http://127.0.0.1:{scene.witness.port}"


def kill_validator(scene: Scene) -> None:
    """Kill a process of the API that validates payloads. A request that it was working on is repeated."""
    scene.until_sending()
    pid = _child(scene, scene.member("api"), VALIDATOR)
    with scene.fault("validator killed"), suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def stop_worker(scene: Scene) -> None:
    """Stop a worker with SIGSTOP, then continue it. Stops for longer than the lease and short stops alternate."""
    scene.until_sending()
    _stop_past_lease(scene, "worker", scene.chance.choice(scene.workers()).process.pid)


def stop_supervised(scene: Scene) -> None:
    scene.until_sending()
    _stop_past_lease(scene, "supervised worker", _child(scene, scene.member("server"), WORKER))


def _stop_past_lease(scene: Scene, name: str, pid: int) -> None:
    seconds = 1.5 if len(scene.faults) % 2 else LEASE + 3
    with scene.fault(f"{name} stopped", excuse=seconds > LEASE), stopped(pid):
        time.sleep(seconds)  # the length of the fault


def stop_sender(scene: Scene) -> None:
    """Stop a sender process. Its requests end later than their deadline, and their answers may come too late."""
    scene.until_sending()
    _stop_briefly(scene, "sender", _sender(scene, scene.chance.choice(scene.workers())), excuse=True)


def stop_api(scene: Scene) -> None:
    _stop_briefly(scene, "API", scene.member("api").process.pid)


def stop_validator(scene: Scene) -> None:
    _stop_briefly(scene, "validator", _child(scene, scene.member("api"), VALIDATOR))


def stop_supervisor(scene: Scene) -> None:
    """Stop the supervisor, which is also the API. The workers continue."""
    _stop_briefly(scene, "supervisor", scene.member("server").process.pid)


def stop_publisher(scene: Scene) -> None:
    """Stop the shop, perhaps during a transaction. The transaction then keeps its locks."""
    _stop_briefly(scene, "publisher", scene.publishers.shop_pid())


def _stop_briefly(scene: Scene, name: str, pid: int, *, excuse: bool = False) -> None:
    with scene.fault(f"{name} stopped", excuse=excuse), stopped(pid):
        time.sleep(scene.chance.uniform(1.0, 4.0))  # the length of the fault


def terminate_group(scene: Scene) -> None:
    """Send SIGTERM to the whole process group, as systemd does, wait for its end, and start it again."""
    scene.ready()
    scene.until_sending()
    victim = scene.member("server")
    with scene.fault("group terminated"):
        victim.wanted = False
        os.killpg(victim.process.pid, signal.SIGTERM)
        victim.process.stop()
    victim.start()


def use_up_descriptors(scene: Scene) -> None:
    """Stop a process and its sender from opening files or sockets, for some seconds."""
    _limited(scene, "no descriptors", resource.RLIMIT_NOFILE, _descriptors)


def limit_memory(scene: Scene) -> None:
    """Stop a process and its sender from getting more memory, for some seconds."""
    _limited(scene, "no memory", resource.RLIMIT_AS, _address_space)


def _limited(scene: Scene, kind: str, limit: int, used: Callable[[int], int]) -> None:
    scene.until_sending()
    member = scene.chance.choice(scene.members)
    senders = [_sender(scene, member)] if member in scene.workers() else []
    before = {pid: resource.prlimit(pid, limit) for pid in (member.process.pid, *senders)}
    with scene.fault(kind, excuse=True), suppress(ProcessLookupError):
        for pid, (_, hard) in before.items():
            resource.prlimit(pid, limit, (used(pid), hard))
        time.sleep(scene.chance.uniform(1.0, 3.0))  # the length of the fault
        for pid, limits in before.items():
            with suppress(ProcessLookupError):
                resource.prlimit(pid, limit, limits)


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _address_space(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def _sender(scene: Scene, member: Member) -> int:
    if (worker := member.child(WORKER)) is not None:  # a supervised worker is the parent of the sender
        return next(pid for pid in children(worker) if SENDER in Path(f"/proc/{pid}/cmdline").read_text())
    return _child(scene, member, SENDER)


def _child(scene: Scene, member: Member, mark: str) -> int:
    deadline = monotonic() + 60
    while monotonic() < deadline:
        pid = member.child(mark)
        if pid is not None:
            return pid
        if not scene.publishers.running:
            raise Missed
        time.sleep(0.02)  # the process is starting its child: there is no event to wait for
    raise TimeoutError(f"{member.name} has no child process {mark}\n{scene.logs()}")


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────────────────────────


def restart_database(scene: Scene) -> None:
    with scene.fault("database restarted"):
        scene.server.stop()
        time.sleep(scene.chance.uniform(0.0, 2.0))  # the length of the outage
        scene.server.start()


def crash_database(scene: Scene) -> None:
    """Crash the server. Claims commit without waiting for the disk, so a crash can undo the newest ones."""
    scene.until_sending()
    with scene.fault("database crashed", excuse=True):
        scene.server.crash()
        time.sleep(scene.chance.uniform(0.0, 2.0))  # the length of the outage
        scene.server.start()


def freeze_database(scene: Scene) -> None:
    """Stop every process of the server with SIGSTOP. Connections stay open, and nothing is answered."""
    with scene.fault("database frozen"), all_stopped(scene.server.pid):
        time.sleep(scene.chance.uniform(2.0, 6.0))  # the length of the fault


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    with suppress(ProcessLookupError):  # the process has ended
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def terminate_connections(scene: Scene) -> None:
    with scene.fault("connections terminated"):
        _sql(scene, lambda db: db.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}"))


def cancel_statements(scene: Scene) -> None:
    """Cancel every running statement, again and again for two seconds."""
    with scene.fault("statements cancelled"):
        _sql(scene, _cancel)


async def _cancel(db: asyncpg.Connection) -> None:
    until = monotonic() + 2.0
    while monotonic() < until:
        await db.execute(f"SELECT pg_cancel_backend(pid) {OTHERS} AND state = 'active'")
        await asyncio.sleep(0.02)  # let statements begin


def use_up_connections(scene: Scene) -> None:
    """Take every connection of the server, and close those of Hookline, so that it cannot connect again."""
    with scene.fault("no connections"):
        _sql(scene, lambda db: _hold_connections(scene, db))


async def _hold_connections(scene: Scene, db: asyncpg.Connection) -> None:
    held: list[asyncpg.Connection] = []
    until = monotonic() + scene.chance.uniform(2.0, 5.0)
    try:
        while monotonic() < until:
            with suppress(asyncpg.PostgresError, OSError):
                await db.execute(f"SELECT pg_terminate_backend(pid) {OTHERS} AND application_name <> 'drill'")
                while True:
                    named = {"application_name": "drill"}
                    held.append(await asyncpg.connect(scene.database.direct, server_settings=named, timeout=10))
            await asyncio.sleep(0.1)  # Hookline tries again
    finally:
        for connection in held:
            connection.terminate()


def _sql(scene: Scene, work: Callable[[asyncpg.Connection], Coroutine[Any, Any, Any]]) -> None:
    async def connected() -> None:
        db = await asyncpg.connect(scene.database.direct, server_settings={"application_name": "drill"})
        try:
            await work(db)
        finally:
            db.terminate()

    asyncio.run(connected())


def forbid_writes(scene: Scene) -> None:
    """Make PostgreSQL read-only, as managed servers do when their disk is nearly full."""
    with scene.fault("database read-only"):
        _sql(scene, lambda db: _read_only(db, scene.chance.uniform(2.0, 4.0)))


async def _read_only(db: asyncpg.Connection, seconds: float) -> None:
    await db.execute("SET default_transaction_read_only = off")
    await db.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    await db.execute("SELECT pg_reload_conf()")
    await asyncio.sleep(seconds)  # the length of the fault
    await db.execute("ALTER SYSTEM RESET default_transaction_read_only")
    await db.execute("SELECT pg_reload_conf()")


# ── both engines ──────────────────────────────────────────────────────────────────────────────────────────────────


def lock_database(scene: Scene) -> None:
    """Lock the whole file (SQLite) or the table of open deliveries (PostgreSQL) from another process."""
    seconds = scene.chance.uniform(1.0, 6.0)
    with scene.fault("database locked"):
        if scene.engine == "sqlite":
            _lock_file(scene.sqlite_file, seconds)
        else:
            _sql(scene, lambda db: _lock_table(db, seconds))


def _lock_file(file: Path, seconds: float) -> None:
    database = sqlite3.connect(file, timeout=30, isolation_level=None)
    try:
        database.execute("BEGIN IMMEDIATE")  # with a write-ahead log this keeps every writer out
        time.sleep(seconds)  # the length of the fault
        database.execute("ROLLBACK")
    finally:
        database.close()


async def _lock_table(db: asyncpg.Connection, seconds: float) -> None:
    async with db.transaction():
        await db.execute("LOCK TABLE hookline.delivery IN ACCESS EXCLUSIVE MODE")
        await asyncio.sleep(seconds)  # the length of the fault


def kill_migrations(scene: Scene) -> None:
    """Kill `hookline migrate` at random moments of its work, before any other process starts."""
    for _ in range(MIGRATIONS):
        migration = Process(["migrate"], scene.env, scene.directory / "migrate.log")
        while migration.running and not _migrating(scene):
            time.sleep(0.002)  # another process begins: there is no event to wait for
        time.sleep(scene.chance.uniform(0.0, 0.1))  # the kill must come at a random moment
        if not migration.running:
            scene.notes.append("a migration ended before it was killed")
        with scene.fault("migration killed"):
            migration.kill()


MIGRATIONS = 5
_LOCKED = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1214540 AND granted"


def _migrating(scene: Scene) -> bool:
    """Return whether a migration has begun: it holds its lock (PostgreSQL), or its file exists (SQLite)."""
    if scene.engine == "sqlite":
        return scene.sqlite_file.exists()
    with psycopg.connect(scene.database.direct, autocommit=True) as database:
        found = database.execute(_LOCKED).fetchone()
    return found is not None and found[0] > 0


def nothing(scene: Scene) -> None:
    """Let a second pass, in the drill without faults."""
    time.sleep(1.0)  # a drill without faults has no event to wait for
