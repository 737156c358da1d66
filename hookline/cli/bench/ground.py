"""What a measurement needs: a new durable database, a store on it, and processes of `hookline` that work on it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from hookline import clock, ids
from hookline.cli.bench.model import BenchFailed, Size
from hookline.cli.bench.receiver import Receiver
from hookline.config import PREFIX
from hookline.config.urls import sqlite_path
from hookline.security import tokens
from hookline.security.vault import Vault, new_key
from hookline.services import organizations
from hookline.store import Store, StoreOptions, open_store

HOOKLINE = (sys.executable, "-P", "-m", "hookline.cli")
STOPPED = 15.0  # seconds after the stop signal until a process is killed
POLL = 0.01  # another process does the work, so there is no event to wait for

# The defaults of Hookline, except where a child process must end soon, or could disturb another program.
SETTINGS = {"HOST": "127.0.0.1", "ALLOW_NETS": "127.0.0.0/8", "SHUTDOWN_TIMEOUT": "1s"}


# ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Child(Struct, frozen=True):
    """A child process. Its output is in a file."""

    process: subprocess.Popen[bytes]
    log: Path
    ends_by: signal.Signals

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        if (code := self.process.poll()) is not None:
            raise BenchFailed(f"a process ended with exit code {code}: {self.output()[-2000:]}")

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    async def stop(self) -> None:
        self.process.send_signal(self.ends_by)
        try:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self.process.wait, STOPPED)
        finally:
            self.process.kill()
            self.process.wait()


@asynccontextmanager
async def running(
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    *,
    ends_by: signal.Signals = signal.SIGTERM,
    account: Mapping[str, Any] | None = None,
) -> AsyncIterator[Child]:
    """Run a command, as another user if `account` has the arguments of `subprocess` for one."""
    child = Child(_started(command, env, log, account or {}), log, ends_by)
    try:
        yield child
    except BenchFailed:
        child.check()  # raises the cause, if the child has ended
        raise
    finally:
        await child.stop()


def _started(
    command: Sequence[str], env: Mapping[str, str], log: Path, account: Mapping[str, Any]
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C reaches only this process, which then stops the
    child."""
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **account,
        )


def memory_of(pid: int) -> float | None:
    """Return the megabytes that a process and its child processes use together. None if the system does not say it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return own + sum(memory_of(int(child)) or 0.0 for child in children)


# ── databases ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Engine(ABC):
    name: str
    version: str

    @abstractmethod
    def database(self) -> AbstractAsyncContextManager[str]:
        """Return the URL of an empty database. Its content is deleted at the end."""


class Sqlite(Engine):
    name = "sqlite"
    version = f"SQLite {sqlite3.sqlite_version}"

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        with tempfile.TemporaryDirectory(prefix="hookline-bench-", ignore_cleanup_errors=True) as directory:
            yield f"sqlite:///{directory}/hookline.db"


class Raw(ABC):
    @abstractmethod
    async def value(self, sql: str) -> Any: ...

    @abstractmethod
    async def execute(self, sql: str) -> None: ...

    @abstractmethod
    async def columns(self, table: str) -> list[str]: ...


class RawSqlite(Raw):
    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file

    async def value(self, sql: str) -> Any:
        return self._file.execute(sql).fetchone()[0]

    async def execute(self, sql: str) -> None:
        self._file.execute(sql)

    async def columns(self, table: str) -> list[str]:
        return [column[0] for column in self._file.execute(f"SELECT * FROM {table} LIMIT 0").description]  # noqa: S608


class RawPostgres(Raw):
    def __init__(self, session: Any) -> None:
        self._session = session

    async def value(self, sql: str) -> Any:
        return await self._session.fetchval(sql)

    async def execute(self, sql: str) -> None:
        await self._session.execute(sql)

    async def columns(self, table: str) -> list[str]:
        prepared = await self._session.prepare(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608
        return [each.name for each in prepared.get_attributes()]


class Server(Struct, frozen=True, kw_only=True):
    """A process that serves the API."""

    port: int
    token: str
    child: Child | None = None


class Deployment:
    """One database with a store, and the processes that work on it."""

    def __init__(self, url: str, store: Store, env: Mapping[str, str], directory: Path) -> None:
        self.url = url
        self.store = store
        self.directory = directory
        self._env = env

    @asynccontextmanager
    async def worker(self, *options: str, **settings: str) -> AsyncIterator[Child]:
        env = {**self._env, **_prefixed(settings)}
        async with running([*HOOKLINE, "worker", *options], env, self.directory / "worker.log") as child:
            yield child

    @asynccontextmanager
    async def serve(self, *options: str) -> AsyncIterator[Server]:
        port, log = _free_port(), self.directory / "serve.log"
        env = {**self._env, **_prefixed({"PORT": str(port)})}
        async with running([*HOOKLINE, "serve", "--json", *options], env, log) as child:
            while '"address"' not in child.output():
                child.check()
                await asyncio.sleep(POLL)
            token = tokens.issue(self._env[f"{PREFIX}JWT_SECRET"], ids.DEFAULT_ORG, now=clock.wall())
            yield Server(port=port, token=token, child=child)

    async def recorded(self) -> None:
        """Wait until no delivery is in flight. A count of all open deliveries would slow down the worker."""
        async with self.raw() as raw:
            while True:
                if not await raw.value("SELECT count(*) FROM delivery WHERE state = 2"):
                    return
                await asyncio.sleep(POLL)

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Raw]:
        """Open a connection for SQL of the benchmark's own."""
        path = sqlite_path(self.url)
        if path is not None:
            with closing(sqlite3.connect(path, isolation_level=None, timeout=30.0)) as file:
                yield RawSqlite(file)
            return
        import asyncpg

        session = await asyncpg.connect(self.url, server_settings={"search_path": "hookline"})
        try:
            yield RawPostgres(session)
        finally:
            await session.close()


class Site(Struct, frozen=True, kw_only=True):
    """What a scenario gets: the engine to measure, the size of the run, and the receiver."""

    engine: Engine
    size: Size
    receiver: Receiver
    secret: str  # the signing secret of all endpoints

    @asynccontextmanager
    async def deployment(self, **settings: str) -> AsyncIterator[Deployment]:
        async with self.engine.database() as url:
            with tempfile.TemporaryDirectory(prefix="hookline-bench-", ignore_cleanup_errors=True) as directory:
                env = environment(url, settings)
                store = await _opened(url, env)
                try:
                    yield Deployment(url, store, env, Path(directory))
                finally:
                    await store.close()


def environment(url: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process: none of the user's own settings of Hookline, and made-up secrets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    made = {"DATABASE_URL": url, "JWT_SECRET": secrets.token_urlsafe(32), "SECRET_KEY": new_key()}
    return kept | _prefixed(SETTINGS | made | dict(settings))


def _prefixed(settings: Mapping[str, str]) -> dict[str, str]:
    return {PREFIX + name: value for name, value in settings.items()}


async def _opened(url: str, env: Mapping[str, str]) -> Store:
    store = await open_store(url, vault=Vault([env[f"{PREFIX}SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    await organizations.open_or_create(store, ids.DEFAULT_ORG, await store.now())
    return store


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
