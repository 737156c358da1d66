"""Fills a new database: applications with endpoints, a backlog, held deliveries and history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from hookline import clock, ids
from hookline.cli.bench.clients import payload
from hookline.cli.bench.ground import Raw
from hookline.cli.bench.model import EVENT_TYPE
from hookline.model.catalogue import Application, NewApplication
from hookline.model.endpoints import NewEndpoint, Secret
from hookline.model.messages import NewMessage
from hookline.model.states import EndpointStatus
from hookline.store import Store

BATCH, AT_ONCE = 500, 4  # messages in a transaction, and transactions at a time

CHUNK = 1_000  # copies of each row in one statement

# Tables with history, and the columns whose text ends with the number of the copy. The database itself numbers the
# columns of `_NUMBERED`.
_HISTORY = {"message": ("id",), "delivery_done": ("message_id",), "attempt": ("id", "message_id")}
_HELD: dict[str, tuple[str, ...]] = {"delivery": ()}
_NUMBERED = {"message": "seq", "delivery": "id"}


async def application(
    store: Store, urls: Iterable[str], secret: str, *, channels: bool = False, paused: bool = False
) -> Application:
    """Create an application with one endpoint for each URL. With `channels`, endpoint number N gets only messages with
    the channel N."""
    app = await store.catalogue.create_application(ids.DEFAULT_ORG, NewApplication(name="bench"))
    endpoints = [
        NewEndpoint(
            url=url,
            secrets=(Secret(key=secret),),
            channels=(str(number),) if channels else None,
            status=EndpointStatus.PAUSED if paused else EndpointStatus.ACTIVE,
        )
        for number, url in enumerate(urls)
    ]
    await asyncio.gather(*(store.catalogue.create_endpoint(app.no, endpoint) for endpoint in endpoints))
    return app


async def applications(store: Store, urls: Iterable[str], secret: str) -> list[Application]:
    """Create an application with one endpoint for each URL."""
    return await asyncio.gather(*(application(store, [url], secret) for url in urls))


def new_message(app: Application, number: int, channel: int | None = None) -> NewMessage:
    return NewMessage(
        id=ids.mint(ids.MESSAGE, clock.wall()),
        app_no=app.no,
        event_type=EVENT_TYPE,
        payload=payload(number),
        channels=None if channel is None else (str(channel),),
    )


async def ingest(store: Store, messages: Sequence[NewMessage]) -> None:
    """Accept messages in batches, several at a time, as the API does."""
    for start in range(0, len(messages), AT_ONCE * BATCH):
        firsts = range(start, min(start + AT_ONCE * BATCH, len(messages)), BATCH)
        await asyncio.gather(*(store.pipeline.ingest(messages[first : first + BATCH]) for first in firsts))


async def backlog(store: Store, apps: Sequence[Application], messages: int) -> None:
    """Accept messages for each application in turn."""
    await ingest(store, [new_message(apps[number % len(apps)], number) for number in range(messages)])


# ── held deliveries and history ───────────────────────────────────────────────────────────────────────────────────


async def multiply_history(raw: Raw, original: int, wanted: int) -> None:
    """Copy the delivered messages of the database, until there are `wanted`."""
    for table, texts in _HISTORY.items():
        await _multiply(raw, table, texts, wanted // original - 1)


async def multiply_held(raw: Raw, original: int, wanted: int) -> None:
    """Copy the open deliveries of the database, until there are `wanted`."""
    for table, texts in _HELD.items():
        await _multiply(raw, table, texts, wanted // original - 1)


async def _multiply(raw: Raw, table: str, texts: Sequence[str], copies: int) -> None:
    columns = [name for name in await raw.columns(table) if name != _NUMBERED.get(table)]
    values = [f"{name} || '-' || n" if name in texts else _quoted(name) for name in columns]
    names = ", ".join(map(_quoted, columns))
    await raw.execute(f"CREATE TEMP TABLE seed_{table} AS SELECT * FROM {table}")  # noqa: S608
    for first in range(1, copies + 1, CHUNK):
        last = min(copies, first + CHUNK - 1)
        numbers = f"WITH RECURSIVE copy (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM copy WHERE n < {last})"  # noqa: S608
        source = f"SELECT {', '.join(values)} FROM seed_{table} CROSS JOIN copy"  # noqa: S608
        await raw.execute(f"INSERT INTO {table} ({names}) {numbers} {source}")


def _quoted(name: str) -> str:
    return f'"{name}"'
