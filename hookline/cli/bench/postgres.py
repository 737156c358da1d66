"""PostgreSQL for the benchmark: an empty database of the user, or a temporary server on loopback.

The temporary server keeps PostgreSQL's defaults of durability: a commit is on disk before it is acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from hookline import clock
from hookline.cli.bench.ground import Child, Engine, running
from hookline.cli.bench.model import BenchFailed
from hookline.errors import Conflict, StoreUnavailable

SUPERUSER = "hookline"
STARTED = 30.0  # maximum seconds until a new server accepts connections
POLL = 0.05  # the server offers no event when it is ready
SETTINGS = {"listen_addresses": "127.0.0.1", "shared_buffers": "256MB", "max_wal_size": "4GB"}
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")

_TABLES = """
SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
"""


class Postgres(Engine):
    """One database. Each measurement begins with an empty one: the schema of Hookline is dropped at its end."""

    name = "postgres"

    def __init__(self, url: str, version: str) -> None:
        self._url = url
        self.version = version

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        try:
            yield self._url
        finally:
            session = await asyncpg.connect(self._url)
            await session.execute("DROP SCHEMA IF EXISTS hookline CASCADE")
            await session.close()


async def given(url: str) -> Postgres:
    """Return the user's database. Raise `Conflict` unless it is empty, because the benchmark deletes what is in it."""
    try:
        session = await asyncpg.connect(url)
    except (OSError, asyncpg.PostgresError, ValueError) as error:
        raise StoreUnavailable(f"--database-url: cannot connect: {error}") from None
    try:
        if await session.fetchval("SELECT to_regnamespace('hookline') IS NOT NULL"):
            raise Conflict("--database-url: the database has a schema hookline: give an empty database")
        if await session.fetchval(_TABLES):
            raise Conflict("--database-url: the database has tables: give an empty database")
        return Postgres(url, _version(session))
    finally:
        await session.close()


def _version(session: Any) -> str:
    found = session.get_server_version()
    return f"PostgreSQL {found.major}.{found.minor}"


# ── a temporary server ────────────────────────────────────────────────────────────────────────────────────────────


def binaries() -> Path | None:
    """Return the directory with `postgres` and `initdb`. None if this user cannot run them, or there are none."""
    return next((place for place in _places() if _runs(place)), None)


def _places() -> Iterator[Path]:
    found = shutil.which("postgres")
    if found is not None:
        yield Path(found).resolve().parent
    for pattern in PLACES:
        newest_first = sorted(Path("/").glob(pattern[1:]), key=lambda path: _number(str(path)), reverse=True)
        yield from newest_first


def _number(text: str) -> int:
    found = re.search(r"\d+", text)
    return int(found[0]) if found else 0


def _runs(place: Path) -> bool:
    try:
        for program in ("postgres", "initdb"):
            subprocess.run([place / program, "--version"], capture_output=True, check=True, cwd="/", **_account())  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _account() -> dict[str, Any]:
    """Return the arguments of `subprocess` that choose the user. PostgreSQL refuses to run as root."""
    entry = _unprivileged()
    return {} if entry is None else {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    return None


@asynccontextmanager
async def temporary(place: Path) -> AsyncIterator[Postgres]:
    """Start a server with a new cluster. Stop it and delete the cluster at the end."""
    home = Path(tempfile.mkdtemp(prefix="hookline-bench-pg-"))
    try:
        entry = _unprivileged()
        if entry is not None:
            os.chown(home, entry.pw_uid, entry.pw_gid)
        password = secrets.token_urlsafe(24)
        await asyncio.to_thread(_initialise, place, home, password)
        async with _server(place, home, password) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _initialise(place: Path, home: Path, password: str) -> None:
    file = home / "password"
    file.write_text(password)
    if (entry := _unprivileged()) is not None:
        os.chown(file, entry.pw_uid, entry.pw_gid)
    options = ["-U", SUPERUSER, "--auth=scram-sha-256", f"--pwfile={file}", "--encoding=UTF8", "--no-locale"]
    made = subprocess.run(  # noqa: S603
        [place / "initdb", "-D", home / "data", *options],
        cwd=home,
        env=_environment(home),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        **_account(),
    )
    if made.returncode != 0:
        raise BenchFailed(f"initdb failed; try --engines sqlite: {made.stderr}")


@asynccontextmanager
async def _server(place: Path, home: Path, password: str) -> AsyncIterator[Postgres]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = SETTINGS | {"port": str(port), "unix_socket_directories": ""}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = [str(place / "postgres"), "-D", str(home / "data"), *options]
    url = f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{port}/postgres"
    async with running(command, _environment(home), home / "log", ends_by=signal.SIGQUIT, account=_account()) as child:
        yield await _ready(url, child)


async def _ready(url: str, child: Child) -> Postgres:
    """Wait until the server accepts connections."""
    give_up = clock.monotonic() + STARTED
    while True:
        child.check()
        try:
            return await given(url)
        except StoreUnavailable:
            if clock.monotonic() > give_up:
                raise BenchFailed(f"PostgreSQL did not start; try --engines sqlite: {child.output()[-2000:]}") from None
        await asyncio.sleep(POLL)


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "HOOKLINE_"))}
    return kept | {"LC_ALL": "C", "HOME": str(home)}
