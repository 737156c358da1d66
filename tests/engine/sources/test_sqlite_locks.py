"""A busy Hookline beside an application on SQLite causes no "database is locked", and every order gets its message."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hookline.engine.sources.sqlite import SqliteSource
from hookline.model.outbox import RelayReport
from tests.support.appfile import AppFile
from tests.support.scene import Scene

ORDERS = 250


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def source(scene: Scene, shop: AppFile) -> AsyncIterator[SqliteSource]:
    opened = SqliteSource(shop.url, scene.store)
    yield opened
    await opened.close()


@pytest.fixture
def shop(tmp_path: Path, mode: str) -> AppFile:
    return AppFile(tmp_path / "shop.db", mode=mode).make()


async def run_publisher(
    shop: AppFile, app: str, enough: asyncio.Event, *, timeout: float, lifetime: str
) -> dict[str, Any]:
    """Run the publisher in its own process, because locks do not exclude the process that holds them."""
    arguments = ("-m", "tests.support.sqlite_publisher", str(shop.path), app, str(ORDERS), str(timeout), lifetime)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=pipe, stdout=pipe)
    await enough.wait()
    output, _ = await process.communicate(b"")  # the publisher ends when its input is closed
    printed: dict[str, Any] = json.loads(output)
    return printed


async def relay(
    source: SqliteSource, app: asyncio.Task[Any], enough: asyncio.Event, shop: AppFile, scene: Scene
) -> list[RelayReport]:
    """Relay without pauses, which no real relay does, until every committed event has arrived."""
    reports = []
    while not app.done() or await scene.raw.count("message") < len(app.result()["committed"]):
        reports.append(await source.move(50))
        # the relay has run, and the marker says how far the application may delete
        if len(reports) > 50 and shop.marker.exists():
            enough.set()
    return reports


@pytest.mark.parametrize(
    ("mode", "lifetime", "timeout"),
    [
        ("wal", "session", 0),  # no waiting time at all
        ("wal", "request", 5),  # 5 seconds, the default of sqlite3 and Django
        ("delete", "session", 5),
        ("delete", "request", 5),
    ],
)
async def test_a_transaction_that_reads_and_then_writes_never_fails_because_of_the_relay(
    scene: Scene, source: SqliteSource, shop: AppFile, lifetime: str, timeout: float
) -> None:
    enough = asyncio.Event()
    app = asyncio.create_task(run_publisher(shop, scene.app.id, enough, timeout=timeout, lifetime=lifetime))
    reports = await relay(source, app, enough, shop, scene)
    printed = await app
    assert printed["errors"] == []
    assert len(printed["committed"]) + len(printed["rolled_back"]) > ORDERS

    messages = {row["event_id"] for row in await scene.raw.rows("SELECT event_id FROM message")}
    assert messages == set(printed["committed"])
    assert await scene.raw.count("message") == len(printed["committed"])
    assert sum(report.repeated for report in reports) == 0
    assert len(shop.ids()) < len(printed["committed"]), "the application has not deleted the relayed rows"
