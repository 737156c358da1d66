"""The relay's loop over any outbox: no error ends it, and it logs an outage once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from hookline.engine import relay
from hookline.engine.relay import BATCH, OwnOutbox, Relay
from hookline.errors import SourceUnavailable, StoreUnavailable
from hookline.model.outbox import RelayReport
from hookline.observe.tally import Tally
from hookline.store import Store
from hookline.store.outage import Outage
from tests.store.test_relay import publish
from tests.support.scene import Scene

SOON = 30.0

Answer = RelayReport | Exception


class Scripted:
    """An outbox that follows a script, and is empty afterwards."""

    name = "shop"
    sampled = False

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.moves = 0
        self.waits = 0
        self.closed = False
        self.idle = asyncio.Event()

    async def move(self, limit: int) -> RelayReport:
        assert limit == BATCH
        self.moves += 1
        answer = self._answers.pop(0) if self._answers else RelayReport()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def wait(self, timeout: float) -> None:
        self.waits += 1
        if not self._answers:
            self.idle.set()
            await asyncio.Event().wait()  # until the wait is cancelled

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(relay, "AFTER_ERROR", 0.001)


@pytest.fixture
def logged() -> Iterator[Callable[[], list[str]]]:
    """Return the log events above the debug level."""
    with capture_logs() as entries:
        yield lambda: [entry["event"] for entry in entries if entry["log_level"] != "debug"]


async def run(outbox: Scripted) -> None:
    """Run the relay until it is idle, then stop it in the middle of its wait."""
    stop = asyncio.Event()
    running = asyncio.create_task(Relay(outbox, Outage(random.Random(5))).run(stop))
    await asyncio.wait_for(outbox.idle.wait(), SOON)
    stop.set()
    await asyncio.wait_for(running, SOON)
    assert outbox.closed


async def test_a_full_batch_is_followed_by_another_at_once(logged: Callable[[], list[str]]) -> None:
    outbox = Scripted(
        RelayReport(relayed=BATCH),
        RelayReport(relayed=BATCH - 2, repeated=1, set_aside=1, reasons=("why",)),
        RelayReport(relayed=BATCH - 1),
    )
    await run(outbox)
    assert (outbox.moves, outbox.waits) == (3, 1)
    assert logged() == ["outbox_rows_set_aside"]


async def test_an_outage_is_logged_once_and_its_end_once(logged: Callable[[], list[str]]) -> None:
    away = SourceUnavailable("shop.db is not there")
    outbox = Scripted(away, away, away, RelayReport(relayed=1), RelayReport(), away, RelayReport())
    await run(outbox)
    assert outbox.moves == 7
    assert logged() == ["outbox_away", "outbox_back", "outbox_away", "outbox_back"]


async def test_a_store_that_is_down_is_an_outage(logged: Callable[[], list[str]]) -> None:
    away = StoreUnavailable("refused")
    await run(Scripted(away, away, RelayReport()))
    assert logged() == ["database_away", "database_back"]


async def test_an_internal_error_does_not_end_the_relay(logged: Callable[[], list[str]]) -> None:
    outbox = Scripted(ValueError("a fault"), RelayReport(relayed=1))
    await run(outbox)
    assert outbox.moves == 2
    assert logged() == ["relay_failed"]


async def test_a_failed_wait_does_not_end_the_relay(logged: Callable[[], list[str]]) -> None:
    class FailingWait(Scripted):
        async def wait(self, timeout: float) -> None:
            if not self.waits:
                self.waits += 1
                raise SourceUnavailable("gone in its sleep")
            await super().wait(timeout)

    await run(FailingWait(RelayReport(relayed=1), RelayReport(relayed=1)))
    assert logged() == ["outbox_away", "outbox_back"]


class Watched(Scripted):
    """An outbox that notes before each move whether the relay counts as behind."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(*answers)
        self.tally = Tally()
        self.behind: list[bool] = []

    async def move(self, limit: int) -> RelayReport:
        self.behind.append(bool(self.tally.outbox_lag()))
        return await super().move(limit)


async def _behind(*answers: Answer, sampled: bool = False) -> list[bool]:
    outbox = Watched(*answers, RelayReport())
    outbox.sampled = sampled
    stop = asyncio.Event()
    running = asyncio.create_task(Relay(outbox, Outage(random.Random(5)), outbox.tally).run(stop))
    await asyncio.wait_for(outbox.idle.wait(), SOON)
    stop.set()
    await asyncio.wait_for(running, SOON)
    assert outbox.tally.outbox_lag() == 0  # the relay reached the end of the outbox
    return outbox.behind


async def test_an_outbox_is_behind_until_it_is_relayed_to_its_end() -> None:
    away, full = SourceUnavailable("shop.db is not there"), RelayReport(relayed=BATCH)
    assert await _behind(away, away, full, RelayReport(relayed=3)) == [False, True, True, True, False]
    assert await _behind(RelayReport(relayed=3), ValueError("a fault")) == [False, False, True]
    assert await _behind(StoreUnavailable("refused"), RelayReport(more=True)) == [False, True, True]


async def test_the_age_of_rows_in_the_own_outbox_is_known() -> None:
    full = RelayReport(relayed=BATCH)
    assert await _behind(full, StoreUnavailable("refused"), sampled=True) == [False, False, False]


async def test_pauses_grow_to_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_FIRST_PAUSE", 0.25)
    pauses: list[float] = []

    async def noted(seconds: float, _stop: asyncio.Event) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(relay, "pause", noted)
    await run(Scripted(*[SourceUnavailable("away")] * 40))
    assert pauses[:4] == [0.25, 0.5, 1.0, 2.0]
    assert set(pauses[7:]) == {30.0}


async def test_the_relay_can_be_cancelled_while_it_waits() -> None:
    outbox = Scripted()
    running = asyncio.create_task(Relay(outbox, Outage(random.Random(5))).run(asyncio.Event()))
    await asyncio.wait_for(outbox.idle.wait(), SOON)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert outbox.closed


# ── Hookline's own outbox ──


@asynccontextmanager
async def relaying(store: Store) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(Relay(OwnOutbox(store), Outage(random.Random(5))).run(stop))
    yield
    stop.set()
    await asyncio.wait_for(running, SOON)


async def test_rows_of_the_own_database_reach_a_worker_that_sleeps(scene: Scene) -> None:
    await scene.endpoint()
    async with relaying(scene.store):
        await scene.store.pipeline.arm()
        waiting = asyncio.create_task(scene.store.pipeline.wait(120))
        await publish(scene.raw, scene.app.id)
        await asyncio.wait_for(waiting, SOON)
        async with asyncio.timeout(SOON):
            await scene.store.pipeline.arm()
            while not (jobs := await scene.claim()):  # the new endpoint may have woken the worker earlier
                await scene.store.pipeline.wait(120)
                await scene.store.pipeline.arm()
        assert len(jobs) == 1
