"""Pulses: the work of a process since its last pulse. They add up, are stored in the database, and are aggregated to
minutes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hookline.engine.heartbeat import Heartbeat
from hookline.errors import StoreUnavailable
from hookline.model.activity import ALL, MINUTE, AttemptCounts
from hookline.model.measures import SECONDS
from hookline.model.outbox import RelayReport
from hookline.model.policy import RetryPolicy
from hookline.model.pulses import Pulse, most_failing, together
from hookline.model.states import EndpointStatus
from hookline.model.sweep import SweepReport
from hookline.model.verdicts import RecordReport
from hookline.observe.pulser import Pulser
from hookline.observe.tally import MAX_ENDPOINTS, OTHER, Names, Tally
from tests.support import factory
from tests.support.receiver import Receiver
from tests.support.scene import Scene
from tests.support.timeshift import age
from tests.support.working import working

AT = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_pulse_has_the_work_since_the_last_one(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    one, two, three = await scene.claim()
    tally = Tally()
    pulser = Pulser(tally)
    results = [factory.delivered(one), factory.retry(two, after=5), factory.dead(three)]
    tally.recorded(results, RecordReport(recorded=3, stale=0), 0.01)
    tally.ingested(7, 0.002)
    tally.moved(RelayReport(relayed=2, set_aside=1))
    tally.swept(SweepReport(leases=4, deaths=(factory.death(one),)))
    pulse = pulser.pulse(AT)
    assert pulse.attempts == {"delivered": 1, "retry": 1, "dead": 1}
    assert pulse.accepted == 9
    assert pulse.leases == 4
    assert pulse.died == 2
    assert pulse.relayed == {"relayed": 2, "set_aside": 1}
    assert pulse.endpoints == {endpoint.no: [1, 2]}
    assert pulser.attempt_counts == {(scene.app.no, endpoint.no): [1, 1, 1]}
    assert sum(pulse.used[:-1]) == 1
    pulser.stored()
    after = pulser.pulse(AT)
    assert (after.attempted, after.accepted, after.endpoints, after.used) == (0, 0, {}, [])
    assert pulser.attempt_counts == {}


async def test_endpoints_beyond_the_limit_are_summed_by_application(scene: Scene) -> None:
    """Further endpoints are summed by application, so that the chart of an application still counts them."""
    await scene.endpoint()
    await scene.send(1)
    (job,) = await scene.claim()
    tally = Tally()
    pulser = Pulser(tally)
    jobs = [replace(job, endpoint_no=number) for number in range(1, MAX_ENDPOINTS + 4)]
    for batch in (jobs, jobs[-5:]):
        tally.recorded([factory.dead(each) for each in batch], RecordReport(recorded=len(batch), stale=0), 0.01)
    pulse = pulser.pulse(AT)
    assert len(pulser.attempt_counts) == MAX_ENDPOINTS + 1
    assert pulser.attempt_counts[job.app_no, ALL] == [0, 0, 6]
    assert pulser.attempt_counts[job.app_no, MAX_ENDPOINTS] == [0, 0, 2]
    assert sum(sum(row) for row in pulser.attempt_counts.values()) == len(jobs) + 5
    assert ALL not in pulse.endpoints


async def test_the_outcome_of_a_lost_lease_is_counted_only_by_the_current_holder(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(2)
    one, two = await scene.claim()
    tally, late = Tally(), factory.dead(two)
    report = RecordReport(recorded=1, stale=1, lost=(late.attempt_id,))
    tally.recorded([factory.delivered(one), late], report, 0.01)
    pulse = Pulser(tally)
    assert tally.dead.values.get(("permanent_failure",), [0.0]) == [0.0]
    assert sum(values[0] for values in tally.attempts.values.values()) == 1
    assert tally.stale.values[()] == [1.0]
    assert pulse.pulse(AT).attempted == 0


def test_pulses_add_up() -> None:
    one = Pulse(at=AT, accepted=1, attempts={"delivered": 2}, latency=[1.0, 2.0], endpoints={7: [1, 1]}, slots=512)
    one.outbox_lag = 9.0
    other = Pulse(
        at=AT,
        accepted=2,
        outbox_lag=4.0,
        attempts={"delivered": 1, "dead": 4},
        latency=[3.0, 4.0],
        endpoints={7: [0, 2], 8: [0, 1]},
        slots=512,
    )
    total = together([one, other], AT)
    assert (total.accepted, total.processes, total.slots) == (3, 2, 1024)
    assert total.attempts == {"delivered": 3, "dead": 4}
    assert total.latency == [4.0, 6.0]
    assert total.outbox_lag == 9.0  # the longest lag, because all processes may wait for the same outbox
    assert total.endpoints == {7: [1, 3], 8: [0, 1]}
    assert one.attempts == {"delivered": 2}  # the input is unchanged


def test_only_the_most_failing_endpoints_are_listed() -> None:
    assert most_failing({1: [5, 0], 2: [0, 3], 3: [1, 9], 4: [0, 1]}, limit=2) == {3: [1, 9], 2: [0, 3]}


def test_the_number_of_names_is_limited() -> None:
    name = Names(limit=2)
    assert [name(each) for each in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]


async def test_the_database_stores_pulses_of_all_processes(scene: Scene) -> None:
    since = await scene.store.now() - timedelta(seconds=1)
    await scene.store.monitoring.add_pulse("one", Pulse(at=AT, accepted=3))
    await scene.store.monitoring.add_pulse("other", Pulse(at=AT, accepted=4))
    found = await scene.store.monitoring.pulses(since)
    assert sorted((pulse.process, pulse.accepted) for pulse in found) == [("one", 3.0), ("other", 4.0)]
    assert all(pulse.at > since for pulse in found)
    assert await scene.store.monitoring.pulses(await scene.store.now() + timedelta(seconds=1)) == []


async def test_pulses_are_aggregated_to_whole_minutes_once(scene: Scene) -> None:
    for process, accepted in (("one", 1), ("one", 2), ("other", 4)):
        await scene.store.monitoring.add_pulse(process, Pulse(at=AT, accepted=accepted, slots=512))
    await age_pulses(scene, seconds=300)
    since = await scene.store.now() - timedelta(minutes=10)
    for _ in range(2):
        await scene.store.monitoring.roll_pulses()
        minutes = await scene.store.monitoring.pulses(since, minutes=True)
        assert sum(minute.accepted for minute in minutes) == 7
    assert len(await scene.store.monitoring.pulses(since)) == 3  # single pulses stay for a while


async def test_a_minute_that_is_not_over_is_not_aggregated(scene: Scene) -> None:
    await scene.store.monitoring.add_pulse("one", Pulse(at=AT, accepted=1))
    await scene.store.monitoring.roll_pulses()
    assert await scene.store.monitoring.pulses(await scene.store.now() - timedelta(minutes=5), minutes=True) == []


async def test_old_pulses_are_deleted(scene: Scene) -> None:
    await scene.store.monitoring.add_pulse("one", Pulse(at=AT, accepted=1))
    await age_pulses(scene, seconds=3 * 3600)
    await scene.store.monitoring.roll_pulses()
    since = await scene.store.now() - timedelta(days=1)
    assert await scene.store.monitoring.pulses(since) == []
    assert [minute.accepted for minute in await scene.store.monitoring.pulses(since, minutes=True)] == [1]
    await age_pulses(scene, seconds=8 * 86_400)
    await scene.store.monitoring.roll_pulses()
    assert await scene.store.monitoring.pulses(since - timedelta(days=30), minutes=True) == []


async def test_work_of_a_pulse_that_could_not_be_stored_is_in_the_next_one(scene: Scene) -> None:
    class Away:
        gone = True

        @property
        def monitoring(self) -> Away:
            return self

        async def add_pulse(self, process: str, pulse: Pulse, attempts: AttemptCounts) -> None:
            if self.gone:
                raise StoreUnavailable("away")
            await scene.store.monitoring.add_pulse(process, pulse, attempts)

    endpoint = await scene.endpoint()
    await scene.send(5)
    one, *rest = await scene.claim()
    tally, store = Tally(), Away()
    heart = Heartbeat(store, tally, random.Random(1))  # type: ignore[arg-type]
    tally.ingested(3, 0.001)
    tally.recorded([factory.retry(one)], RecordReport(recorded=1, stale=0), 0.01)
    await heart.beat()
    tally.ingested(4, 0.001)
    tally.recorded(factory.all_delivered(rest), RecordReport(recorded=4, stale=0), 0.01)
    store.gone = False
    await heart.beat()
    await heart.beat()
    found = await scene.store.monitoring.pulses(await scene.store.now() - timedelta(minutes=1))
    assert [pulse.accepted for pulse in found] == [7, 0]
    assert found[0].processes == 1
    since = await scene.store.now() - timedelta(minutes=1)
    done = await scene.store.monitoring.activity(
        since, org_id=scene.organization.id, app_no=scene.app.no, endpoint_no=endpoint.no, grain=MINUTE
    )
    assert [(each.delivered, each.retried, each.dead) for each in done] == [(4, 1, 0)]


async def age_pulses(scene: Scene, *, seconds: int) -> None:
    """Change the pulses as if they had been written `seconds` earlier."""
    if scene.store.engine == "sqlite":
        await scene.raw.execute(f"UPDATE pulse SET at = at - {seconds * 10**6}")
    else:
        await scene.raw.execute(f"UPDATE pulse SET at = at - interval '{seconds} seconds'")


@pytest.mark.parametrize("held_by", ["pause", "throttle", "nobody"])
async def test_deliveries_held_by_a_pause_or_throttle_are_not_late(scene: Scene, held_by: str) -> None:
    """A tenant's own pause or throttle must not trigger the alert for late first attempts."""
    tally = Tally()
    with Receiver() as receiver:
        throttle = 50.0 if held_by == "throttle" else None
        endpoint = await scene.endpoint(url=receiver.url, throttle_rate=throttle)
        if held_by == "pause":
            await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "a look at it")
        await scene.send(3)
        await age(scene.raw, 600)
        if held_by == "pause":
            await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "well again")
        async with working(scene.store, tally=tally, retry=RetryPolicy()):
            await receiver.arrived(3)
    late = sum(tally.first_latency.of()[SECONDS.index(300.0) + 1 : -1])
    assert late == (3 if held_by == "nobody" else 0)
