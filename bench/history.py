"""Loads a week of history in bulk: a million messages to twenty applications with three endpoints each.

Most messages were delivered, some of them at the second attempt. Of every hundred, two died and one waits for a paused
endpoint. Charts, audit log and pulses have the data of a whole week.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec
from rich.console import Console
from rich.progress import Progress

from hookline import ids
from hookline.model.activity import ALL, MINUTE, QUARTER
from hookline.model.catalogue import Application, EventType
from hookline.model.endpoints import Endpoint, Secret
from hookline.model.measures import SECONDS
from hookline.model.pulses import EVERY, Pulse
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.services import organizations
from hookline.signing import new_secret
from hookline.store import Store
from tests.support import factory
from tests.support.raw import Raw, RawPostgres, open_raw

APPLICATIONS, ENDPOINTS = 20, 3  # endpoints per application; the last one is paused
WEEK = timedelta(days=7)
CHUNK = 20_000
TYPES = ("order.created", "order.paid", "order.shipped", "invoice.created", "customer.created")
REASONS = (Reason.PERMANENT_FAILURE, Reason.ATTEMPTS_EXHAUSTED, Reason.BUDGET_EXHAUSTED)
PAYLOAD = msgspec.json.encode({"type": "order.paid", "data": {"order": "o_8271", "total": 4200, "note": "x" * 100}})

Row = tuple[object, ...]

_OF_MESSAGE = "app_no endpoint_no message_seq message_at message_id event_type"
COLUMNS = {
    "message": "seq id app_no event_type event_id channels tags payload created_at",
    "event_id": "app_no event_id message_id created_at",
    "delivery": f"id {_OF_MESSAGE} state due_at expires_at",
    "delivery_done": f"id {_OF_MESSAGE} attempts sent finished_at",
    "dead_letter": f"id {_OF_MESSAGE} attempts sent last_status reason detail died_at",
    "attempt": "id delivery_id app_no endpoint_no message_id event_type number trigger outcome probe started_at status_code"
    " detail address response_headers response_body truncated dns_us connect_us tls_us first_byte_us total_us recorded_at",
    "activity": "app_no endpoint_no grain at delivered retried dead",
    "org_activity": "org_id grain at delivered retried dead",
    "pulse": "grain at process data",
    "audit": "org_id at actor actor_name action subject detail address",
}


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One object of each kind from the loaded history, for pages that show a single object."""

    app: Application
    endpoint: Endpoint
    message_id: str
    event_id: str


async def load(store: Store, url: str, messages: int, console: Console) -> Past:
    raw = await open_raw(url)
    try:
        return await _load(store, raw, messages, console)
    finally:
        await raw.close()


async def _load(store: Store, raw: Raw, messages: int, console: Console) -> Past:
    endpoints = await _catalogue(store)
    now = await raw.now()
    if isinstance(raw, RawPostgres):
        await raw.execute("SELECT make_partitions($1, 8)", (now - WEEK - timedelta(days=1)).astimezone(UTC).date())
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{raw.engine}: loading {messages:,} messages", total=messages)
        for start in range(0, messages, CHUNK):
            numbers = range(start, min(start + CHUNK, messages))
            await _write(raw, _messages(raw.engine, numbers, messages, now, endpoints))
            progress.advance(task, len(numbers))
    await _write(raw, _week(raw.engine, now, endpoints))
    if isinstance(raw, RawPostgres):
        await raw.execute("ANALYZE")
    app = await store.catalogue.application(ids.DEFAULT_ORG, "application-0")
    assert app is not None
    last = await raw.row(
        "SELECT id, event_id FROM message WHERE app_no = $1 ORDER BY seq DESC LIMIT 1 OFFSET 3", app.no
    )
    return Past(app=app, endpoint=endpoints[0], message_id=last["id"], event_id=last["event_id"])


async def _catalogue(store: Store) -> list[Endpoint]:
    now = await store.now()
    await organizations.open_or_create(store, ids.DEFAULT_ORG, now)
    for name in TYPES:
        await store.catalogue.save_event_type(
            EventType(org_id=ids.DEFAULT_ORG, name=name, created_at=now, updated_at=now, schemas={"1": {}})
        )
    made = []
    for number in range(APPLICATIONS):
        new = factory.new_application(name=f"Application {number}", uid=f"application-{number}")
        app = await store.catalogue.create_application(ids.DEFAULT_ORG, new)
        for at in range(ENDPOINTS):
            fields = factory.new_endpoint(
                url=f"http://127.0.0.1:40009/{number}/{at}", uid=f"endpoint-{at}", secrets=(Secret(key=new_secret()),)
            )
            endpoint = await store.catalogue.create_endpoint(app.no, fields)
            if at == ENDPOINTS - 1:
                endpoint = await store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "they move")
            made.append(endpoint)
    return made


# ── messages and deliveries ───────────────────────────────────────────────────────────────────────────────────────


class SeededMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message and its endpoints."""

    number: int
    id: str
    kind: str
    at: datetime
    home: Endpoint
    paused: Endpoint  # the paused endpoint of the same application

    @property
    def turn(self) -> int:
        """The message's number within its application. It decides the outcome, so every application has all outcomes."""
        return self.number // APPLICATIONS

    @property
    def seq(self) -> int:
        return self.number + 1

    @property
    def of_message(self) -> Row:
        return (self.seq, self.at, self.id, self.kind)


def _messages(
    engine: str, numbers: range, total: int, now: datetime, endpoints: Sequence[Endpoint]
) -> Iterator[tuple[str, Row]]:
    chance = random.Random(numbers.start)
    for number in numbers:
        at = now - WEEK * (1 - (number + 1) / (total + 1))
        first, turn = number % APPLICATIONS * ENDPOINTS, number // APPLICATIONS
        message = SeededMessage(
            number=number,
            id=ids.mint(ids.MESSAGE, at, chance),
            kind=TYPES[turn % len(TYPES)],
            at=at,
            home=endpoints[first + turn % (ENDPOINTS - 1)],
            paused=endpoints[first + ENDPOINTS - 1],
        )
        yield from _accepted(engine, message)
        yield from _fate(message, chance)


def _accepted(engine: str, message: SeededMessage) -> Iterator[tuple[str, Row]]:
    number, event_id, app_no = message.number, f"evt-{message.number}", message.home.app_no
    lists = ([f"shop-{number % 7}"], ["eu" if number % 3 else "us"])
    kept = lists if engine == "postgres" else tuple(msgspec.json.encode(each).decode() for each in lists)
    yield "message", (message.seq, message.id, app_no, message.kind, event_id, *kept, PAYLOAD, message.at)
    yield "event_id", (app_no, event_id, message.id, message.at)


def _fate(message: SeededMessage, chance: random.Random) -> Iterator[tuple[str, Row]]:
    """Yield the rows of the message's delivery, with its attempts."""
    home, at = message.home, message.at
    if message.turn % 100 == 0:
        end = at + timedelta(days=30)
        waits = (message.seq, home.app_no, message.paused.no, *message.of_message, DeliveryState.PENDING.value, at, end)
        yield "delivery", waits
        return
    sent = 2 if message.turn % 10 == 3 else 1
    dies = message.turn % 100 in (1, 2)
    for tried in range(1, sent + 1):
        outcome = "retry" if tried < sent else "dead" if dies else "delivered"
        yield "attempt", _attempt(message, tried, outcome, chance)
    end = at + timedelta(seconds=sent)
    done = (message.seq, home.app_no, home.no, *message.of_message, sent, sent)
    if dies:
        reason = REASONS[message.turn // 100 % len(REASONS)]
        yield "dead_letter", (*done, 404, reason.value, "the endpoint answered 404 Not Found", end)
    else:
        yield "delivery_done", (*done, end)


def _attempt(message: SeededMessage, number: int, outcome: str, chance: random.Random) -> Row:
    started = message.at + timedelta(seconds=number - 1)
    status = {"delivered": 200, "retry": 503, "dead": 404}[outcome]
    head, body = b'{"content-type": "text/plain"}', b"as it was answered"
    times = (150, 400, 0, 9_000, 11_000)
    return (
        ids.mint(ids.ATTEMPT, started, chance),
        *(message.seq, message.home.app_no, message.home.no, message.id, message.kind, number, 0, outcome, False),
        *(started, status, "", "127.0.0.1", head, body, False, *times, started + timedelta(milliseconds=15)),
    )


# ── data of charts and the audit log ──────────────────────────────────────────────────────────────────────────────


def _week(engine: str, now: datetime, endpoints: Sequence[Endpoint]) -> Iterator[tuple[str, Row]]:
    yield from _activity(now, endpoints)
    yield from _pulses(now)
    for number in range(20_000):
        at = now - WEEK * (1 - number / 20_000)
        actor = ("key", f"key {number % 9}")
        yield "audit", (ids.DEFAULT_ORG, at, *actor, "endpoint.pause", endpoints[number % 60].id, "", "127.0.0.1")


def _activity(now: datetime, endpoints: Sequence[Endpoint]) -> Iterator[tuple[str, Row]]:
    homes = [(each.app_no, each.no) for each in endpoints] + [(app, ALL) for app in {each.app_no for each in endpoints}]
    for grain, steps in ((MINUTE, 120), (QUARTER, 672)):
        last = int(now.timestamp()) // grain * grain
        for step in range(steps):
            at = datetime.fromtimestamp(last - step * grain, UTC)
            did = (40 + step % 17, step % 5, step % 3)
            for app_no, endpoint_no in homes:
                yield "activity", (app_no, endpoint_no, grain, at, *did)
            apps = sum(endpoint_no == ALL for _, endpoint_no in homes)
            yield "org_activity", (ids.DEFAULT_ORG, grain, at, *(apps * number for number in did))


def _pulses(now: datetime) -> Iterator[tuple[str, Row]]:
    row = [0.0] * (len(SECONDS) + 2)
    row[3], row[-1] = 90.0, 4.0
    did = Pulse(
        at=now,
        accepted=90,
        attempts={"delivered": 90, "retry": 9, "dead": 2},
        results={"2xx": 90, "5xx": 9, "4xx": 2},
        dead={"permanent_failure": 2},
        latency=row,
        first_latency=row,
        lag=row,
        duration=row,
    )
    for grain, every, steps in ((0, EVERY, 720), (1, 60.0, 10_080)):
        for step in range(steps):
            did.at = now - timedelta(seconds=every * step)
            yield "pulse", (grain, did.at, "" if grain else "abcdef", msgspec.json.encode(did))


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _write(raw: Raw, rows: Iterable[tuple[str, Row]]) -> None:
    """Write the rows by table, some thousands at a time."""
    source = iter(rows)
    while chunk := list(islice(source, CHUNK * 4)):
        by_table: dict[str, list[Row]] = {}
        for table, row in chunk:
            by_table.setdefault(table, []).append(row)
        for table, found in by_table.items():
            await _insert(raw, table, found)


async def _insert(raw: Raw, table: str, rows: list[Row]) -> None:
    columns = COLUMNS[table].split()
    if isinstance(raw, RawPostgres):
        await raw.connection.copy_records_to_table(table, records=rows, columns=columns, schema_name="hookline")
        return
    marks = ", ".join(f"${at}" for at in range(1, len(columns) + 1))
    await raw.many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)
