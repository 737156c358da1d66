"""The scene of a drill: a database, the processes of Hookline, a receiver and publishers, all real."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from bench import witness
from bench.witness import Answer, Witness, digest
from hookline import clock
from hookline.clock import monotonic
from hookline.engine.sources import setup
from hookline.ids import DEFAULT_ORG
from hookline.security import tokens
from tests.faults.history import Arrival, Attempt, Delivery, Fault, History, Published, Restore, Stored
from tests.faults.load import APP, FLAKY, SHOP, STEADY, TYPES, Load, Size, call
from tests.support import shop
from tests.support.names import NameServer
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.processes import Process, children, environment
from tests.support.raw import Raw, open_raw

LEASE = 12.0
LATENCY = 0.05  # seconds until the receiver answers, so that faults hit requests in flight
SETTINGS = {
    "HOOKLINE_REQUEST_TIMEOUT": "2s",
    "HOOKLINE_CONNECT_TIMEOUT": "2s",
    "HOOKLINE_LEASE": f"{LEASE:.0f}s",
    "HOOKLINE_RETRY_MAX_ATTEMPTS": "100",
    "HOOKLINE_PAUSE_DEAD_PER_DAY": "1000000",
    "HOOKLINE_LOG_ATTEMPTS": "failures",
}
LAYOUTS = {
    "split": {"api": ["serve", "--role", "api"], "worker": ["worker"]},
    "single": {"server": ["serve"]},
    "supervised": {"server": ["serve", "--processes", "2"]},
}
SENDER = "hookline.engine.sender.child"
VALIDATOR = "hookline.services.schemas.child"
WORKER = "--supervised"


class Missed(Exception):
    """The fault came too late: everything is published, and the process that it would hit is needed no more."""


class Database(Struct, kw_only=True):
    """Where Hookline's data is. `url` is what the processes use, `direct` is what the checker reads."""

    engine: str
    url: str
    direct: str
    server: PostgresServer | None = None
    directory: Path | None = None  # the directory with the data, if it has a disk of its own
    extra: dict[str, Any] = {}  # what the faults of this kind of database need


class Member:
    """One command of the deployment. It is started again when it ends by itself, as systemd would."""

    def __init__(self, name: str, arguments: list[str], env: Mapping[str, str], log: Path) -> None:
        self.name, self.arguments, self.env, self.log = name, arguments, env, log
        self.wanted = True  # False while a fault keeps this command stopped
        self.process = self._started()

    def _started(self) -> Process:
        return Process(self.arguments, self.env, self.log, group=True)

    def start(self) -> None:
        self.process = self._started()
        self.wanted = True

    def kill(self) -> None:
        """Kill the process alone. Its child processes notice that it is gone."""
        self.wanted = False
        self.process.kill()

    def child(self, mark: str) -> int | None:
        """Return the process id of a child process whose command line contains `mark`."""
        with suppress(OSError):
            for pid in children(self.process.pid):
                if mark in Path(f"/proc/{pid}/cmdline").read_text():
                    return pid
        return None

    def end(self) -> None:
        self.wanted = False
        with suppress(OSError):
            self.process.end()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)


class Scene:
    """Everything that a fault can act on."""

    def __init__(self, database: Database, directory: Path, chance: random.Random, witness: Witness) -> None:
        self.database, self.directory, self.chance, self.witness = database, directory, chance, witness
        self.port = int(free_port())
        self.settings: dict[str, str] = {}  # settings for what the drill adds around Hookline, such as a name server
        self.variables: dict[str, str] = {}  # environment variables of the processes at their first start
        self.validation: dict[str, Any] = {}  # fields of the event types
        self.seconds = 0.0  # time over which the load is spread
        self.short = False
        self.published: list[Published] = []  # events that the faults themselves have published
        self.members: list[Member] = []
        self.faults: list[Fault] = []
        self.excused: list[Fault] = []  # the faults that may cause a second copy
        self.restores: list[Restore] = []  # backups that were restored
        self.ended: list[str] = []  # names of the commands that ended by themselves
        self.notes: list[str] = []
        self.names: NameServer | None = None
        self.hostile: dict[str, str] = {}  # URLs of endpoints that misbehave
        self.more_arrivals: Callable[[], list[Arrival]] = list  # requests to receivers other than the witness
        self._closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)

    @property
    def engine(self) -> str:
        return self.database.engine

    @property
    def server(self) -> PostgresServer:
        assert self.database.server is not None
        return self.database.server

    @property
    def sqlite_file(self) -> Path:
        return Path(self.database.url.removeprefix("sqlite:///"))

    @property
    def shop_url(self) -> str:
        """The database of the shop: Hookline's own on PostgreSQL, a file beside it on SQLite."""
        folder = self.database.extra.get("shop", self.sqlite_file.parent)
        return self.database.url if self.engine == "postgres" else f"sqlite:///{folder}/shop.db"

    # ── start and end ─────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, settings: Mapping[str, str]) -> None:
        """Make the environment of the processes, and the shop's database."""
        outbox = {"HOOKLINE_OUTBOX_URLS": self.shop_url} if self.engine == "sqlite" else {}
        given = SETTINGS | outbox | {"HOOKLINE_PORT": str(self.port)} | dict(settings) | self.settings
        self.env = environment(self.database.url, **given) | self.database.extra.get("variables", {})
        # Some drills set clocks back. The token must be valid then too.
        issued = clock.wall() - timedelta(hours=3)
        self.token = tokens.issue(self.env["HOOKLINE_JWT_SECRET"], DEFAULT_ORG, now=issued)
        if self.engine == "sqlite":
            shop.prepare(self.shop_url)
            asyncio.run(setup.install(self.shop_url))

    def open(self, layout: str, base: str) -> None:
        """Start the processes, and create applications with endpoints at the witness."""
        for name, arguments in LAYOUTS[layout].items():
            self._join(name, arguments)
            if name == "api":
                self.ready()  # the API migrates the database before workers start
        if layout == "split" and self.engine == "postgres":
            self._join("second worker", ["worker"])
        self._keeper.start()
        self.ready()
        self._subscribe(base)

    def _join(self, name: str, arguments: list[str]) -> None:
        log = self.directory / f"{name.replace(' ', '-')}.log"
        self.members.append(Member(name, arguments, self.env | self.variables, log))

    def _subscribe(self, base: str) -> None:
        if self.engine == "postgres":
            shop.prepare(self.shop_url)
        for app in (APP, SHOP):
            self.call("/api/v1/app", {"name": app, "uid": app})
        for kind in TYPES.values():
            self.call("/api/v1/event-type", {"name": kind, "description": ""} | self.validation)
        for part in (STEADY, FLAKY):
            self.call(f"/api/v1/app/{APP}/endpoint", {"url": f"{base}/{part}", "filterTypes": [TYPES[part]]})
        self.call(f"/api/v1/app/{SHOP}/endpoint", {"url": f"{base}/{SHOP}"})
        closes = self.names is not None  # True: each request needs a new connection, and so a lookup
        for part, fails in ((STEADY, 0), (FLAKY, 5), (SHOP, 0)):
            self.witness.answer(Answer(part=part, delay=LATENCY, closes=closes, fails_every=fails))

    def call(self, path: str, body: object) -> dict[str, Any]:
        return call(self.port, self.token, path, body)

    def load(self, size: Size) -> Load:
        self.publishers = Load(self.port, self.token, self.shop_url, size)
        return self.publishers

    def close(self) -> None:
        self._closing.set()
        if self._keeper.is_alive():
            self._keeper.join(60)
        for member in self.members:
            member.end()

    def _keep(self) -> None:
        """Start each command again that ended by itself."""
        while not self._closing.wait(0.25):
            for member in self.members:
                if member.wanted and not member.process.running:
                    now = monotonic()
                    self.ended.append(member.name)
                    self.record(Fault(kind="process ended by itself", start=now, end=now), excuse=True)
                    member.start()

    # ── for faults ────────────────────────────────────────────────────────────────────────────────────────────────

    def workers(self) -> list[Member]:
        return [member for member in self.members if member.name != "api"]

    def member(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    @contextmanager
    def fault(self, kind: str, *, excuse: bool = False) -> Iterator[None]:
        """Note a fault for the time of the block. `excuse`: it may cause a second copy of a message."""
        start = monotonic()
        try:
            yield
        finally:
            self.record(Fault(kind=kind, start=start, end=monotonic()), excuse=excuse)

    def record(self, fault: Fault, *, excuse: bool) -> None:
        self.faults.append(fault)
        if excuse:
            self.excused.append(fault)

    def until_sending(self, patience: float = 10.0) -> None:
        """Wait until the receiver gets requests, so that the next fault hits work."""
        before, deadline = self._seen(), monotonic() + patience
        while monotonic() < deadline and self._seen() <= before:
            time.sleep(0.02)  # other processes do the work: there is no event to wait for

    def _seen(self) -> int:
        return sum(self.witness.count(part) for part in (STEADY, FLAKY, SHOP))

    def ready(self, patience: float = 90.0) -> None:
        """Wait until the API says that it is ready."""
        deadline = monotonic() + patience
        while monotonic() < deadline:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=10).close()
                return
            time.sleep(0.05)  # another process starts: there is no event to wait for
        raise TimeoutError(f"the API was not ready in {patience} s\n{self.logs()}")

    def logs(self, most: int = 3000) -> str:
        return "\n".join(f"── {each.name}\n{each.process.output()[-most:]}" for each in self.members)

    # ── the end of the history ────────────────────────────────────────────────────────────────────────────────────

    def drain(self, load: Load, patience: float) -> bool:
        """Wait until every message is delivered or dead. Return False if this takes more than `patience` seconds."""
        deadline = monotonic() + patience
        while monotonic() < deadline:
            with suppress(Exception):  # the database may be starting
                if asyncio.run(self._drained(load)):
                    return True
            time.sleep(0.3)  # counting slows the workers down
        return False

    async def _drained(self, load: Load) -> bool:
        raw = await open_raw(self.database.direct)
        try:
            if await raw.count("delivery"):
                return False
            if self.restores:  # the restored database lacks some orders, so their number says nothing
                return await _all_relayed(raw, self.engine, self.shop_url)
            relayed = "app_no IN (SELECT no FROM application WHERE uid = $1)"
            return await raw.count("message", relayed, SHOP) >= load.committed()
        finally:
            await raw.close()

    def history(self, load: Load) -> History:
        return asyncio.run(self._history(load))

    async def _history(self, load: Load) -> History:
        raw = await open_raw(self.database.direct)
        try:
            parts = {row["no"]: _part(row["url"]) for row in await raw.rows("SELECT no, url FROM endpoint")}
            return History(
                published=[*load.events(), *self.published],
                arrivals=[*self.more_arrivals(), *map(_arrival, self.witness.account().arrivals)],
                stored=await _stored(raw),
                deliveries=await _deliveries(raw, parts),
                attempts=[
                    Attempt(
                        delivery_id=row["delivery_id"],
                        number=row["number"],
                        status=row["status_code"],
                        error=row["error"],
                    )
                    for row in await raw.rows("SELECT delivery_id, number, status_code, error FROM attempt")
                ],
                faults=self.excused,
                restores=self.restores,
            )
        finally:
            await raw.close()


async def _all_relayed(raw: Raw, engine: str, shop_url: str) -> bool:
    """Return whether every row that is in the shop's outbox is a message."""
    if engine == "postgres":
        return not await raw.count("outbox")
    known = {row["event_id"] for row in await raw.rows("SELECT event_id FROM message")}
    with closing(sqlite3.connect(shop_url.removeprefix("sqlite:///"))) as file:
        return known.issuperset(row for (row,) in file.execute("SELECT event_id FROM hookline_outbox"))


def _part(url: str) -> str:
    return urlsplit(url).path.split("/")[1]


def _arrival(one: witness.Arrival) -> Arrival:
    return Arrival(
        part=one.part,
        message_id=one.message_id,
        digest=one.digest,
        number=one.attempt,
        at=one.at,
        accepted=200 <= one.status < 300,
    )


async def _stored(raw: Raw) -> list[Stored]:
    rows = await raw.rows("SELECT id, payload FROM message")
    return [Stored(message_id=row["id"], digest=digest(bytes(row["payload"]))) for row in rows]


async def _deliveries(raw: Raw, parts: dict[int, str]) -> list[Delivery]:
    found = []
    for state, table, reason in (
        ("open", "delivery", "''"),
        ("delivered", "delivery_done", "''"),
        ("dead", "dead_letter", "reason"),
    ):
        for row in await raw.rows(f"SELECT id, message_id, endpoint_no, {reason} AS reason FROM {table}"):
            found.append(
                Delivery(
                    id=row["id"],
                    message_id=row["message_id"],
                    part=parts[row["endpoint_no"]],
                    state=state,
                    reason=row["reason"],
                )
            )
    return found
