"""The alert watch. Any one process of the fleet evaluates the rules, and the next one continues from the state in the
database."""

from __future__ import annotations

import asyncio
import random
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from hookline.engine.alerting.watch import Watch, WatchSettings
from hookline.errors import InvalidInput, StoreUnavailable
from hookline.model.alerts import EarlierChecks
from hookline.rules.guard import Guard
from hookline.store import PARTS, Page, Store
from tests.support import factory
from tests.support.alerts import EVERY, Fleet, only
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

AT = datetime(2026, 1, 1, tzinfo=UTC)


# ── one process of the fleet ──


async def test_one_of_many_concurrent_checks_fires_the_alert(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    fleets = [Fleet(scene, only(dead_letters=1), store=store) for store in (scene.store, second, scene.store, second)]
    await fleets[0].attempt(2, factory.dead)
    for _ in range(3):
        await scene.age(EVERY)
        with capture_logs() as logs:
            await asyncio.gather(*(fleet.watch.check() for fleet in fleets))
        assert [line["event"] for line in logs] in (["alert_firing"], [])
        assert len(await fleets[0].firing()) == 1
    assert await scene.raw.count("alert_look") == 3


async def test_no_process_checks_before_the_interval_is_over(scene: Scene, second: Store) -> None:
    one, other = Fleet(scene), Fleet(scene, store=second)
    assert await one.watch.check() == EVERY
    left = await other.watch.check()
    assert 0 < left <= EVERY
    assert await scene.raw.count("alert_look") == 1


async def test_the_next_process_continues_from_the_stored_state(scene: Scene, second: Store) -> None:
    """The next process keeps pending alerts, does not repeat firing ones, and resolves them."""
    await scene.endpoint()
    await scene.send(3)
    await Fleet(scene, only(backlog=2)).check_for(60)
    assert await scene.raw.count("alert_pending") == 1
    heir = Fleet(scene, only(backlog=2), store=second)
    with capture_logs() as logs:
        await heir.check()
        assert await heir.names() == ["backlog"]
        await Fleet(scene, only(backlog=2)).check()
        await heir.work(factory.delivered)
        await heir.check()
        await scene.age(120)
        await Fleet(scene, only(backlog=2), store=second).check()
    assert [line["event"] for line in logs] == ["alert_firing", "alert_resolved"]
    assert logs[0]["text"].startswith("3 deliveries are due and not sent")
    assert re.match(r"it lasted \d+ min .*; last value: 3 deliveries are due and not sent", logs[1]["text"])
    assert await scene.raw.count("alert_pending") == 0


@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_process_that_dies_during_a_check_leaves_nothing_behind(scene: Scene, database_url: str) -> None:
    await scene.endpoint()
    fleet = Fleet(scene, only(dead_letters=1))
    await fleet.attempt(2, factory.dead)
    dying = await RawPostgres.connect(database_url)
    await dying.execute("BEGIN")
    await dying.execute("SELECT pg_advisory_xact_lock(1214543, 7)")
    await dying.execute(
        "INSERT INTO alert (name, subject, severity, began_at, fired_at, value, threshold, text)"
        " VALUES ('dead_letters', '', 'warning', now(), now(), 2, 1, 'half done')"
    )
    await fleet.check()
    assert await fleet.firing() == []
    await scene.raw.execute("SELECT pg_terminate_backend($1)", dying.connection.get_server_pid())
    await until_free(scene)
    dying.connection.terminate()  # the event loop may not have read yet that the server closed the connection
    await fleet.watch.check()
    (alert,) = await fleet.firing()
    assert alert.text != "half done"


async def until_free(scene: Scene) -> None:
    """Poll until the ended session has released its locks. There is no event for it."""
    async with asyncio.timeout(60):
        while await scene.raw.count("pg_locks", "locktype = 'advisory' AND classid = 1214543 AND objid = 7"):
            await asyncio.sleep(0.01)  # there is no event for a released lock


async def test_a_clock_that_was_set_back_does_not_stop_the_checks(scene: Scene) -> None:
    fleet = Fleet(scene)
    await fleet.check()
    await scene.age(-3600)
    assert await fleet.watch.check() == EVERY
    assert await scene.raw.count("alert_look") == 1  # the check with the time in the future is deleted


async def test_old_checks_and_alerts_are_deleted_but_not_firing_alerts(scene: Scene) -> None:
    await scene.endpoint()
    fleet = Fleet(scene, only(dead_letters=1, circuits=True))
    endpoint = await scene.endpoint()
    await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await fleet.attempt(2, factory.dead)
    await fleet.check()
    await scene.store.catalogue.reset_circuit(endpoint.no, "by hand")
    await fleet.check()
    assert [alert.name for alert in await fleet.resolved()] == ["circuit_open"]
    await scene.age(31 * 86_400)
    await fleet.check()
    assert await fleet.resolved() == []
    assert await fleet.names() == ["dead_letters"]
    assert await scene.raw.count("alert_look") == 1


class Away:
    """The monitoring part of a store whose database is unavailable for the first calls."""

    def __init__(self, store: Store, calls: int) -> None:
        self._store = store
        self._calls = calls

    async def alert_checks(self, seconds: float) -> EarlierChecks:
        self._calls -= 1
        if self._calls >= 0:
            raise StoreUnavailable("away")
        return await self._store.monitoring.alert_checks(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.monitoring, name)


async def test_the_watch_waits_for_an_unavailable_database(scene: Scene) -> None:
    settings = WatchSettings(guard=Guard(), every=0.01)
    parts = {part: getattr(scene.store, part) for part in PARTS}
    away: Any = SimpleNamespace(**parts | {"monitoring": Away(scene.store, 2)})
    watch = Watch(away, settings, random.Random(1))
    stop = asyncio.Event()
    with capture_logs() as logs:
        running = asyncio.create_task(watch.run(stop))
        async with asyncio.timeout(60):
            while not await scene.raw.count("alert_look"):
                await asyncio.sleep(0.01)  # the store has no event for a check
        stop.set()
        await running
    assert [line for line in logs if line["log_level"] == "error"] == []


async def test_pending_alerts_of_another_release_are_deleted(scene: Scene) -> None:
    await scene.raw.execute(
        "INSERT INTO alert_pending (name, subject, began_at) VALUES ('a rule of tomorrow', 'x', $1)", AT
    )
    fleet = Fleet(scene)
    await fleet.check()
    assert await scene.raw.count("alert_pending") == 0


# ── listing ──


async def test_alerts_are_listed_newest_first_in_pages(scene: Scene) -> None:
    fleet = Fleet(scene, only(circuits=True))
    endpoints = [await scene.endpoint() for _ in range(5)]
    for endpoint in endpoints:
        await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
        await fleet.check()
    await scene.store.catalogue.reset_circuit(endpoints[1].no, "by hand")
    await fleet.check()

    async def subjects(firing: bool | None = None, **page: Any) -> list[int]:
        found = await scene.store.monitoring.alerts(Page(**page), firing=firing)
        names = [endpoint.id for endpoint in endpoints]
        return [names.index(alert.subject) for alert in found]

    assert await subjects() == [4, 3, 2, 1, 0]
    assert await subjects(firing=True) == [4, 3, 2, 0]
    assert await subjects(firing=False) == [1]
    first = (await scene.store.monitoring.alerts(Page(limit=2)))[-1]
    assert await subjects(limit=2, iterator=str(first.id)) == [2, 1]
    assert await subjects(limit=3, iterator=str(first.id - 2), backwards=True) == [4, 3, 2]
    with pytest.raises(InvalidInput):
        await scene.store.monitoring.alerts(Page(iterator="x"))
