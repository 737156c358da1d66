"""Depths: counts of open deliveries, circuits, dead letters and outbox rows, and how long a count is cached."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.states import EndpointStatus
from hookline.store import Store
from hookline.store.plans import depths
from hookline.store.sql import load
from tests.support import bulk, factory
from tests.support.scene import Scene


async def test_an_empty_store_has_every_name_with_zero(scene: Scene) -> None:
    found = await scene.store.monitoring.depths()
    assert found.states == {"pending": 0, "scheduled": 0, "delivering": 0, "queued": 0}
    assert set(found.dead.values()) == {0}
    assert "attempts_exhausted" in found.dead
    assert found.circuits == {"closed": 0, "open": 0, "half_open": 0, "recovering": 0}
    assert found.lanes == {"paused": 0, "disabled": 0, "held": 0, "slowed": 0}
    assert (found.due, found.oldest_due, found.held, found.backlog_age) == (0, None, 0, 0.0)
    assert (found.outbox_waiting, found.outbox_oldest, found.outbox_set_aside, found.outbox_lag) == (0, None, 0, 0.0)
    assert found.alerts == {}
    assert found.seconds > 0


async def test_deliveries_are_counted_by_state(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(6)
    one, two, three, _four = await scene.claim(4)
    await scene.record(factory.delivered(one), factory.retry(two, after=500), factory.dead(three))
    found = await scene.store.monitoring.depths()
    assert found.states == {"pending": 2, "scheduled": 1, "delivering": 1, "queued": 0}
    assert found.due == 2  # the scheduled delivery does not count as due
    assert found.held == 0


async def test_deliveries_behind_the_first_of_their_key_are_queued(scene: Scene) -> None:
    await scene.endpoint()
    await scene.ingest([factory.new_message(scene.app.no, ordering_key="k") for _ in range(3)])
    await scene.claim()
    assert (await scene.store.monitoring.depths()).states == {
        "pending": 0,
        "scheduled": 0,
        "delivering": 1,
        "queued": 2,
    }


async def test_the_oldest_due_delivery_is_reported(scene: Scene) -> None:
    await scene.endpoint()
    (first,) = await scene.send()
    await scene.age(100)
    await scene.send(2)
    found = await scene.store.monitoring.depths()
    assert found.oldest_due == (await scene.delivery(first)).due_at
    assert 100 <= found.backlog_age < 200
    assert found.due == 3


async def test_deliveries_that_are_not_due_are_no_backlog(scene: Scene) -> None:
    await scene.endpoint()
    later = await scene.store.now() + timedelta(hours=1)
    await scene.ingest([factory.new_message(scene.app.no, deliver_at=later)])
    found = await scene.store.monitoring.depths()
    assert (found.states["pending"], found.due, found.oldest_due) == (1, 0, None)


async def test_deliveries_behind_an_open_circuit_are_held(scene: Scene) -> None:
    sick = await scene.endpoint()
    await scene.trip(sick)
    found = await scene.store.monitoring.depths()
    assert found.circuits == {"closed": 0, "open": 1, "half_open": 0, "recovering": 0}
    assert (found.due, found.oldest_due, found.held) == (0, None, 5)
    await scene.endpoint()  # the new endpoint gets only later messages
    await scene.send(1)
    found = await scene.store.monitoring.depths()
    assert (found.due, found.held) == (1, 6)
    assert found.oldest_due is not None
    assert found.circuits["closed"] == 1


async def test_a_half_open_circuit_holds_deliveries_and_a_recovering_one_does_not(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    job = await scene.half_open(endpoint)
    found = await scene.store.monitoring.depths()
    assert (found.circuits["half_open"], found.held, found.due) == (1, 4, 0)
    await scene.record(factory.delivered(job))
    found = await scene.store.monitoring.depths()
    assert (found.circuits["recovering"], found.held, found.due) == (1, 0, 4)


async def test_paused_disabled_held_and_slowed_lanes_are_counted(scene: Scene) -> None:
    paused, disabled, held, slowed, deleted = [await scene.endpoint() for _ in range(5)]
    await scene.send(1)
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "by a test")
    await scene.store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.DISABLED, "by a test")
    await scene.store.catalogue.delete_endpoint(deleted.no)
    until = await scene.store.now() + timedelta(seconds=60)
    await scene.raw.execute("UPDATE lane SET held_until = $1 WHERE endpoint_no = $2", until, held.no)
    await scene.raw.execute("UPDATE lane SET pace = 5.0 WHERE endpoint_no = $1", slowed.no)
    await scene.raw.execute("UPDATE lane SET circuit = 1 WHERE endpoint_no = $1", disabled.no)
    found = await scene.store.monitoring.depths()
    assert found.lanes == {"paused": 1, "disabled": 1, "held": 1, "slowed": 1}
    assert (found.circuits["closed"], found.circuits["open"]) == (2, 0)  # only active endpoints count
    assert (found.due, found.held) == (1, 4)  # the slowed lane is not held
    await scene.age(100)
    assert (await scene.store.monitoring.depths()).lanes["held"] == 0


async def test_dead_letters_are_counted_until_they_are_resolved(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    await scene.record(*(factory.dead(job) for job in await scene.claim()))
    dead = (await scene.store.monitoring.depths()).dead
    assert sum(dead.values()) == 3
    assert dead["permanent_failure"] == 3
    await scene.store.repair.resolve(DeadFilter(), "seen to")
    assert sum((await scene.store.monitoring.depths()).dead.values()) == 0


async def test_outbox_rows_of_this_database_are_counted(scene: Scene) -> None:
    await publish(scene, "no-such-application")
    await scene.store.pipeline.relay(10)
    await publish(scene, scene.app.id)
    await publish(scene, scene.app.id)
    found = await scene.store.monitoring.depths()
    assert (found.outbox_waiting, found.outbox_set_aside) == (2, 1)
    assert found.outbox_oldest is not None
    assert 0.0 <= found.outbox_lag < 60.0


async def test_a_count_is_cached_for_as_long_as_the_caller_allows(scene: Scene) -> None:
    await scene.endpoint()
    first = await scene.store.monitoring.depths(fresh=3600)
    await scene.send(2)
    assert await scene.store.monitoring.depths(fresh=3600) == first
    assert (await scene.store.monitoring.depths()).due == 2
    assert await scene.store.monitoring.depths(fresh=3600) == first  # a forced count does not change the cached one


async def test_an_old_count_is_repeated(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depths, "COUNTING", 0)  # otherwise a slow count on a busy machine would be cached for longer
    await scene.endpoint()
    await scene.store.monitoring.depths(fresh=1e-9)
    await scene.send(2)
    assert (await scene.store.monitoring.depths(fresh=1e-9)).due == 2


def test_a_count_is_valid_for_fifty_times_its_own_duration() -> None:
    assert [depths.cached_for(took, 5.0) for took in (0.0, 0.1, 2.0)] == [5.0, 5.0, 100.0]


async def publish(scene: Scene, app: str) -> None:
    await scene.raw.execute(
        "INSERT INTO outbox (org_id, app, event_type, payload, created_at) VALUES ($1, $2, 'order.paid', $3, $4)",
        *(scene.organization.id, app, b"{}", await scene.store.now()),
    )


@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_count_is_shared_by_all_processes(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    first = await scene.store.monitoring.depths(fresh=3600)
    await scene.send(2)
    assert await second.monitoring.depths(fresh=3600) == first


@pytest.mark.parametrize("engine", ["postgres"])
async def test_while_one_process_counts_the_others_get_the_last_count(scene: Scene, second: Store) -> None:
    first = await scene.store.monitoring.depths(fresh=1)
    await scene.age(3600)
    await scene.endpoint()
    await scene.send(2)
    await scene.raw.execute("SELECT pg_advisory_lock(1214547, 1)")  # the lock that a counting process holds
    assert await second.monitoring.depths(fresh=1) == first
    await scene.raw.execute("SELECT pg_advisory_unlock(1214547, 1)")
    assert (await second.monitoring.depths(fresh=1)).due == 2


@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_count_of_another_release_is_repeated(scene: Scene) -> None:
    await scene.store.monitoring.depths(fresh=3600)
    await scene.endpoint()
    await scene.send(2)
    await scene.raw.execute("UPDATE depths SET data = $1", b'{"other": 1}')
    assert (await scene.store.monitoring.depths(fresh=3600)).due == 2


# ── cost ──


def test_history_is_never_counted(engine: str) -> None:
    sql = load(engine)
    asked = [text for name, text in sql.items() if name.startswith("depths")]
    if engine == "sqlite":
        asked.append(sql["outbox"])
    assert len(asked) >= 4
    for text in asked:
        tables = set(re.findall(r"\b(?:FROM|JOIN)\s+(?:hookline\.)?(\w+)", text))
        assert not tables & {"message", "attempt", "delivery_done", "lane_event", "pulse"}, text


async def test_dead_letters_that_were_resolved_are_not_read(scene: Scene) -> None:
    await bulk.load(scene.raw, [await scene.endpoint()])
    await scene.raw.execute("UPDATE dead_letter SET resolved_at = died_at WHERE id > 3000010")
    await scene.raw.execute("ANALYZE")
    if scene.store.engine == "sqlite":
        plan = await scene.raw.rows(f"EXPLAIN QUERY PLAN {load('sqlite')['depths_dead']}")
    else:
        plan = await scene.raw.rows("EXPLAIN " + load("postgres")["depths"].replace("$1", "10"))
    found = [line for line in (str(row.values()) for row in plan) if "dead_letter" in line]
    assert found
    assert not any(re.search(r"(Seq Scan|SCAN) (on )?dead_letter", line) for line in found), found
    scene.broken_on_purpose = True  # some of the loaded deliveries have no token
