"""The outbox in Hookline's own SQLite file. A text column can hold any bytes, and commits of other processes wake the
relay."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from hookline.store import Page
from hookline.store.sqlite import outbox
from tests.support.scene import Scene

_INSERT = "INSERT INTO outbox (app, event_type, payload, {}, created_at) VALUES (?, 'order.paid', '{{}}', {}, 1)"


def _written(scene: Scene, column: str, value: str) -> None:
    with closing(sqlite3.connect(scene.url.removeprefix("sqlite:///"), timeout=10)) as conn, conn:
        statement = _INSERT.format(column, value).replace("'{}'", "CAST('{}' AS blob)")
        conn.execute(statement, (scene.app.id,))


async def test_a_row_that_is_not_utf_8_is_set_aside_and_blocks_nothing(scene: Scene) -> None:
    await scene.endpoint()
    for column in ("event_id", "ordering_key", "channels", "tags", "policy", "org_id"):
        _written(scene, column, "CAST(x'ff41' AS text)")
    _written(scene, "event_id", "'good'")
    report = await scene.store.pipeline.relay(100)
    assert (report.relayed, report.set_aside) == (1, 6)
    shown = await scene.store.repair.set_aside(Page())
    assert [one.app for one in shown] == [scene.app.id] * 6
    assert shown[0].event_id == "\ufffdA"
    assert await scene.store.repair.discard_set_aside([one.id for one in shown]) == 6


async def test_a_commit_of_another_process_ends_the_wait(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_MAX_POLL", 60.0)
    await scene.store.pipeline.wait_outbox(0)
    waiting = asyncio.create_task(scene.store.pipeline.wait_outbox(60))
    await asyncio.to_thread(_written, scene, "event_id", "'one'")
    async with asyncio.timeout(60):
        await waiting
    assert (await scene.store.pipeline.relay(10)).relayed == 1
