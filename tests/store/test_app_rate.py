"""The rate limit of an application holds for all of its lanes together, over all workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from hookline.model.catalogue import Application, ApplicationChange
from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.endpoints import Endpoint
from hookline.model.states import Circuit, EndpointStatus
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

SLOW = 1  # one start per second is the slowest rate that can be set
TURN = 50  # seconds between two starts after `slowed`


async def limited(scene: Scene, rate: int | None = SLOW) -> Application:
    return await scene.store.catalogue.create_application(
        scene.organization.id, factory.new_application(throttle_rate=rate)
    )


async def fill(scene: Scene, app: Application, lanes: int, messages: int = 3, **fields: Any) -> list[Endpoint]:
    made = [await scene.endpoint(app, **fields) for _ in range(lanes)]
    await send(scene, app, messages)
    return made


async def send(scene: Scene, app: Application, messages: int = 1) -> None:
    await scene.ingest(factory.new_messages(app.no, messages))


async def turns(scene: Scene, endpoints: list[Endpoint]) -> list[datetime]:
    found = [(await scene.lane(one)).turn_at for one in endpoints]
    return sorted(at for at in found if at is not None)


async def slowed(scene: Scene) -> None:
    """Slow the rate down until it is changed again, so that a test sees one start even on a busy machine."""
    await scene.raw.execute("UPDATE lane SET app_rate = $1 WHERE app_rate IS NOT NULL", 1 / TURN)


async def start_for(scene: Scene, times: int, seconds: float = 1) -> list[LeasedDelivery]:
    """Let `seconds` pass and claim all due deliveries, `times` times. Return all claimed deliveries."""
    jobs: list[LeasedDelivery] = []
    for _ in range(times):
        await scene.age(seconds)
        jobs += await scene.claim_all()
    return jobs


async def test_the_lanes_of_an_application_share_one_rate(scene: Scene) -> None:
    app = await limited(scene)
    await fill(scene, app, lanes=5)
    begun = await scene.store.now()
    assert len(await scene.claim_all()) == 1
    jobs = await start_for(scene, 8)
    real = (await scene.store.now() - begun).total_seconds()
    assert 7 <= len(jobs) <= 9 + real
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


async def test_lanes_take_turns_and_none_twice_before_all(scene: Scene) -> None:
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=4, messages=9)
    jobs = await scene.claim_all() + await start_for(scene, 12)
    counts = Counter(job.endpoint_no for job in jobs)
    assert set(counts) == {one.no for one in endpoints}
    assert max(counts.values()) - min(counts.values()) <= 1


async def test_a_lane_with_new_messages_does_not_overtake_waiting_lanes(scene: Scene) -> None:
    app = await limited(scene)
    others = await fill(scene, app, lanes=3, messages=9)
    eager = await scene.endpoint(app, event_types=("fresh",))
    taken: list[LeasedDelivery] = []
    for _ in range(8):
        await scene.ingest(factory.new_messages(app.no, 2, event_type="fresh"))
        taken += await scene.claim_all()
        await scene.age(1)
    counts = Counter(job.endpoint_no for job in taken)
    assert counts[eager.no] <= min(counts[one.no] for one in others) + 1


async def test_each_waiting_lane_has_a_separate_turn(scene: Scene) -> None:
    """Forty lanes wait for one start at a time. Each lane has one token, for its turn or for an earlier check."""
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=40)
    await slowed(scene)
    (job,) = await scene.claim_all()
    given = await turns(scene, endpoints)
    assert len(given) == 40  # the lane that was served is the last in the queue
    assert (await scene.lane(next(one for one in endpoints if one.no == job.endpoint_no))).turn_at == given[-1]
    gaps = [(later - at).total_seconds() for at, later in pairwise(given)]
    assert min(gaps) >= 0.999 * TURN
    for endpoint in endpoints:
        (token,) = await scene.tokens(endpoint)
        turn_at = (await scene.lane(endpoint)).turn_at
        assert turn_at is not None
        assert token["at"] == turn_at or token["at"] <= turn_at - timedelta(seconds=1)


async def test_a_lane_keeps_its_turn_when_more_messages_arrive(scene: Scene) -> None:
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=6)
    await slowed(scene)
    await scene.claim_all()
    before = await turns(scene, endpoints)
    await send(scene, app)
    assert await scene.claim_all() == []
    assert await turns(scene, endpoints) == before


async def test_the_rate_of_one_application_does_not_delay_others(scene: Scene) -> None:
    app = await limited(scene)
    await fill(scene, app, lanes=3)
    await slowed(scene)
    await scene.endpoint()
    await scene.send(25)
    jobs = await scene.claim_all()
    assert Counter(job.app_no for job in jobs) == {scene.app.no: 25, app.no: 1}


async def test_claims_for_an_application_without_a_rate_do_not_read_paces(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    assert await scene.raw.count("app_pace") == 0
    await scene.raw.execute("DROP TABLE app_pace")  # a claim that reads the table fails now
    jobs = await scene.claim_all()
    assert (await scene.record(*factory.all_delivered(jobs))).recorded == 3


async def test_workers_share_the_rate(scene: Scene, second: Store) -> None:
    app = await limited(scene, rate=2)
    await fill(scene, app, lanes=12)
    begun = await scene.store.now()
    batches = await asyncio.gather(
        *(one.pipeline.claim(20, SlotBudgets(lane_limit=20)) for one in (scene.store, second) * 6)
    )
    real = (await scene.store.now() - begun).total_seconds()
    assert 1 <= sum(len(batch.jobs) for batch in batches) <= 2 + 2 * real
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


async def test_a_probe_is_a_start_like_any_other(scene: Scene) -> None:
    app = await limited(scene)
    sick, well = await scene.endpoint(app), await scene.endpoint(app)
    await scene.raw.execute(
        "UPDATE lane SET circuit = 1, probe_at = $1, opened_at = $1 WHERE endpoint_no = $2",
        await scene.store.now() - timedelta(seconds=5),
        sick.no,
    )
    await slowed(scene)
    await send(scene, app, 2)
    (first,) = await scene.claim_all()
    await scene.age(TURN)
    (second,) = await scene.claim_all()
    assert {first.endpoint_no, second.endpoint_no} == {sick.no, well.no}
    assert [job.endpoint_no for job in (first, second) if job.probe] == [sick.no]
    assert (await scene.lane(sick)).circuit == Circuit.HALF_OPEN


async def test_limits_of_one_lane_apply_too_and_cost_other_lanes_nothing(scene: Scene) -> None:
    app = await limited(scene, rate=50)
    narrow, held, wide = await fill(scene, app, lanes=3, messages=30)
    await scene.raw.execute("UPDATE lane SET concurrency = 1 WHERE endpoint_no = $1", narrow.no)
    await scene.store.catalogue.set_endpoint_status(held.no, EndpointStatus.PAUSED, "maintenance")
    jobs = await start_for(scene, 10)
    counts = Counter(job.endpoint_no for job in jobs)
    assert (counts[narrow.no], counts[held.no]) == (1, 0)
    assert counts[wide.no] >= 20
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


async def test_a_paused_lane_that_had_a_turn_sends_again_after_resume(scene: Scene) -> None:
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=3, messages=1)
    await slowed(scene)
    await scene.claim_all()
    waiting = [one for one in endpoints if (await scene.lane(one)).turn_at is not None]
    await scene.store.catalogue.set_endpoint_status(waiting[0].no, EndpointStatus.PAUSED, "maintenance")
    assert {job.endpoint_no for job in await start_for(scene, 5, TURN)} == {waiting[1].no}
    await scene.store.catalogue.set_endpoint_status(waiting[0].no, EndpointStatus.ACTIVE, "back")
    assert [job.endpoint_no for job in await scene.claim_all()] == [waiting[0].no]
    assert (await scene.lane(waiting[0])).turn_at is None


async def test_a_delivery_that_is_due_later_takes_no_turn_meanwhile(scene: Scene) -> None:
    app = await limited(scene)
    await scene.endpoint(app)
    busy = await scene.endpoint(app, event_types=("busy",))
    later = await scene.store.now() + timedelta(hours=2)
    await scene.ingest(factory.new_messages(app.no, 1, deliver_at=later, event_type="once"))
    await scene.ingest(factory.new_messages(app.no, 3, event_type="busy"))
    jobs = await scene.claim_all() + await start_for(scene, 6)
    assert Counter(job.endpoint_no for job in jobs)[busy.no] == 3
    assert len(jobs) == 6  # the three due messages, to both endpoints
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


# ── changed while it runs ──


async def test_a_raised_rate_applies_at_once(scene: Scene) -> None:
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=30)
    await slowed(scene)
    assert len(await scene.claim_all()) == 1
    changed = await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=400))
    assert changed.throttle_rate == 400
    assert {(await scene.lane(one)).app_rate for one in endpoints} == {400.0}
    first = await start_for(scene, 1)
    assert len(first) >= 20
    assert len(first + await start_for(scene, 5)) == 89


async def test_repeated_changes_of_the_rate_do_not_circumvent_it(scene: Scene) -> None:
    app = await limited(scene)
    await fill(scene, app, lanes=3, messages=9)
    begun = await scene.store.now()
    jobs: list[LeasedDelivery] = []
    for turn in range(12):
        jobs += await scene.claim_all()
        await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=SLOW + (turn + 1) % 2))
    real = (await scene.store.now() - begun).total_seconds()
    assert len(jobs) <= 1 + (SLOW + 1) * real
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


async def test_a_changed_rate_counts_recent_starts_within_its_own_burst(scene: Scene) -> None:
    app = await limited(scene, rate=4)
    await fill(scene, app, lanes=1)

    async def starts_again() -> datetime | None:
        found: datetime | None = await scene.raw.value("SELECT tat FROM app_pace")
        return found

    await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=3))
    assert await starts_again() is None  # no delivery was started yet
    await scene.claim_all()
    before = await starts_again()
    assert before is not None
    await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=2))
    assert await starts_again() == before
    await slowed(scene)
    await scene.age(3600)
    await scene.claim_all()
    await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=320))
    after = await starts_again()
    assert after is not None
    assert after <= await scene.store.now() + timedelta(seconds=1 / 16)


async def test_a_removed_rate_leaves_nothing_behind(scene: Scene) -> None:
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=8)
    await slowed(scene)
    assert len(await scene.claim_all()) == 1
    await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=None))
    assert len(await scene.claim_all()) == 23
    assert await scene.raw.count("app_pace") == 0
    assert {((await scene.lane(one)).app_rate, (await scene.lane(one)).turn_at) for one in endpoints} == {(None, None)}


async def test_a_rate_can_be_set_later(scene: Scene) -> None:
    app = await limited(scene, rate=None)
    await fill(scene, app, lanes=3)
    assert len(await scene.claim(2)) == 2
    await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=SLOW))
    await slowed(scene)
    assert len(await scene.claim_all()) == 1
    later = await scene.endpoint(app)
    assert (await scene.lane(later)).app_rate == SLOW
    await send(scene, app)
    assert len(await scene.claim_all()) <= 1


async def test_other_changes_of_the_application_do_not_touch_its_lanes(scene: Scene) -> None:
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=4)
    await scene.claim_all()
    before = await turns(scene, endpoints)
    await scene.store.catalogue.change_application(app.no, ApplicationChange(name="Acme Ltd.", throttle_rate=SLOW))
    assert await turns(scene, endpoints) == before


async def test_deleting_an_application_deletes_its_pace(scene: Scene) -> None:
    app = await limited(scene)
    await fill(scene, app, lanes=2)
    await slowed(scene)
    await scene.claim_all()
    await scene.store.catalogue.delete_application(app.no)
    assert await scene.raw.count("app_pace") == 0
    assert await scene.claim_all() == []
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 5


async def test_the_audit_finds_a_lane_that_lost_the_token_of_its_turn(scene: Scene) -> None:
    scene.broken_on_purpose = True
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=3, messages=1)
    await slowed(scene)
    await scene.claim_all()
    waiting = [one.no for one in endpoints if (await scene.lane(one)).turn_at is not None]
    await scene.raw.execute("DELETE FROM wake WHERE endpoint_no = $1", waiting[0])
    assert await scene.store.upkeep.find_stuck_lanes(repair=True) == waiting[:1]
    assert len(await start_for(scene, 4, TURN)) == 2


async def test_the_audit_accepts_a_turn_that_is_minutes_away(scene: Scene) -> None:
    app = await limited(scene)
    endpoints = await fill(scene, app, lanes=2, messages=1)
    await slowed(scene)
    await scene.claim_all()
    (waiting,) = [one.no for one in endpoints if (await scene.lane(one)).turn_at is not None]
    far = await scene.store.now() + timedelta(minutes=10)
    await scene.raw.execute("UPDATE lane SET turn_at = $1 WHERE endpoint_no = $2", far, waiting)
    await scene.raw.execute("UPDATE wake SET at = $1 WHERE endpoint_no = $2", far, waiting)
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []


@pytest.mark.parametrize("rate", [1, 3, 40])
async def test_every_message_is_sent_in_the_end(scene: Scene, rate: int) -> None:
    app = await limited(scene, rate=rate)
    await fill(scene, app, lanes=3, messages=4)
    jobs = await scene.claim_all() + await start_for(scene, 15)
    assert len({job.delivery_id for job in jobs}) == 12
    assert await scene.raw.count("wake") == 0
