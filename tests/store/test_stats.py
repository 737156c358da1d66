"""Statistics: the figures, the time that counts for each, their owners, and the limit of counting."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hookline import clock, ids
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.model.stats import Stats, StatsFilter
from hookline.model.verdicts import Result
from hookline.store import Page, Store
from hookline.store.plans import stats as counting
from hookline.store.plans.stats import Statistics
from tests.support import factory
from tests.support.scene import Scene

HOUR = timedelta(hours=1)


async def count(scene: Scene, since: datetime | None = None, until: datetime | None = None, **of: Any) -> Stats:
    now = clock.wall()
    where = StatsFilter(
        **({"org_id": scene.organization.id, "since": since or now - HOUR, "until": until or now + HOUR} | of)
    )
    return await scene.store.monitoring.stats(where)


def tried_at(result: Result, at: datetime) -> Result:
    return replace(result, attempt_id=ids.mint(ids.ATTEMPT, at))


async def claimed(scene: Scene, count: int) -> list[LeasedDelivery]:
    await scene.send(count)
    jobs = await scene.claim_all()
    assert len(jobs) == count
    return jobs


async def test_each_state_and_outcome_has_its_own_figure(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    jobs = await claimed(scene, 19)
    await scene.record(
        *(factory.delivered(job) for job in jobs[:2]),
        *(factory.retry(job, after=500) for job in jobs[2:5]),
        *(factory.dead(job) for job in jobs[5:12]),
    )
    await scene.send(6)
    await scene.send(5, ordering_key="k")
    letters = await scene.store.repair.dead_letters(DeadFilter(endpoint_no=endpoint.no), Page(limit=7))
    await scene.store.repair.resolve(DeadFilter(ids=tuple(letter.id for letter in letters[:2])), "by hand")
    await scene.store.repair.replay(DeadFilter(ids=(letters[2].id,)))
    wanted = Stats(
        messages=30,
        pending=7,  # includes the replayed delivery
        scheduled=3,
        queued=5,
        delivering=7,
        delivered=2,
        dead=4,
        resolved=2,
        retries=3,
        deaths=7,
        dead_open=4,
        complete=True,
    )
    assert await count(scene) == await count(scene, app_no=scene.app.no) == wanted
    alone = await count(scene, app_no=scene.app.no, endpoint_no=endpoint.no)
    assert alone == replace(wanted, messages=0)
    assert await scene.store.monitoring.in_flight(endpoint.no) == 7


async def test_each_lane_application_and_organization_counts_its_own(scene: Scene) -> None:
    one, two = await scene.endpoint(), await scene.endpoint()
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    third = await scene.endpoint(other)
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    foreign = await scene.store.catalogue.create_application(stranger.id, factory.new_application())
    fourth = await scene.endpoint(foreign)
    await scene.send(2)
    await scene.ingest(factory.new_messages(other.no, 3))
    await scene.ingest(factory.new_messages(foreign.no, 5))
    await scene.record(*factory.all_delivered(await scene.claim_all()))

    def figures(found: Stats) -> tuple[int, int]:
        return found.messages, found.delivered

    assert figures(await count(scene)) == (5, 7)
    assert figures(await count(scene, app_no=scene.app.no)) == (2, 4)
    assert figures(await count(scene, app_no=other.no)) == (3, 3)
    assert figures(await count(scene, org_id=stranger.id)) == (5, 5)
    for endpoint, many in ((one, 2), (two, 2), (third, 3), (fourth, 5)):
        assert figures(await count(scene, endpoint_no=endpoint.no)) == (0, many)
    assert figures(await count(scene, org_id="org_nobody")) == (0, 0)


async def test_deleted_endpoints_and_applications_still_count(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.record(*factory.all_delivered(await claimed(scene, 2)))
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    assert (await count(scene, app_no=scene.app.no)).delivered == 2
    await scene.store.catalogue.delete_application(scene.app.no)
    found = await count(scene)
    assert (found.messages, found.delivered) == (2, 2)


async def test_the_window_begins_with_since_and_ends_before_until(scene: Scene) -> None:
    await scene.endpoint()
    start = clock.wall().replace(microsecond=0) - timedelta(days=3)
    instants = [start - timedelta(seconds=1), start, start + HOUR, start + 2 * HOUR]
    messages = [factory.new_message(scene.app.no, id=ids.mint(ids.MESSAGE, at)) for at in instants]
    await scene.ingest(messages)
    jobs = await scene.claim_all()
    await scene.record(*(tried_at(factory.delivered(job), at) for job, at in zip(jobs, instants, strict=True)))
    found = await count(scene, start, start + 2 * HOUR)
    assert (found.messages, found.delivered) == (2, 2)


async def test_dead_letters_count_by_when_they_died(scene: Scene) -> None:
    await scene.endpoint()
    await scene.record(*(factory.dead(job) for job in await claimed(scene, 3)))
    await scene.age(3 * 3600)
    await scene.record(*(factory.dead(job) for job in await claimed(scene, 2)))
    now = clock.wall()
    assert ((await count(scene)).dead, (await count(scene)).dead_open) == (2, 5)
    assert (await count(scene, now - 4 * HOUR, now - 2 * HOUR)).dead == 3
    assert (await count(scene, now - 4 * HOUR)).dead == 5


async def test_an_example_counts_as_a_message(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.repair.send_example(endpoint.no, factory.new_message(scene.app.no))
    found = await count(scene)
    assert (found.messages, found.pending) == (1, 1)


async def test_a_figure_stops_at_the_limit_and_is_marked_incomplete(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test lowers the limit, because so many rows would take too long to create."""
    endpoint = await scene.endpoint()
    jobs = await claimed(scene, 6)
    await scene.record(*(factory.delivered(job) for job in jobs))
    before = await count(scene, endpoint_no=endpoint.no)
    assert (before.delivered, before.complete) == (6, True)
    monkeypatch.setattr(counting, "MAX_COUNTED", 4)
    found = await count(scene, endpoint_no=endpoint.no)
    assert (found.delivered, found.complete) == (4, False)


def test_statistics_are_complete_only_if_every_figure_is_below_the_limit() -> None:
    most = counting.MAX_COUNTED
    assert stats_from({}).complete
    full = [
        {"stats_messages": [(most,)]},
        {"stats_waiting": [(most - 1, 1)]},
        {"stats_queued": [(most,)]},
        {"stats_attempts": [(most,)]},
        {"stats_failed": [(1, most - 1)]},
        {"stats_dead": [(most, 0)]},
        {"stats_dead_open": [(most,)]},
    ]
    for given in full:
        assert not stats_from(given).complete
    # Attempts and failures are counted one after the other. `delivered`, their difference, is never negative.
    assert stats_from({"stats_failed": [(3, 2)]}).delivered == 0


def stats_from(answers: dict[str, list[tuple[int, ...]]]) -> Stats:
    """Run the plan with these rows for its statements, and zeros for the others."""
    now = clock.wall()
    # The decorator hides the generator, whose statement this test explains.
    plan: Any = Statistics._stats.__wrapped__(  # type: ignore[attr-defined]
        None, StatsFilter(org_id="org", since=now - HOUR, until=now, endpoint_no=1)
    )
    step = next(plan)
    try:
        while True:
            step = plan.send(answers.get(step.name, [(0, 0)]))
    except StopIteration as end:
        found: Stats = end.value
        return found


async def test_concurrent_statistics_agree(scene: Scene, second: Store) -> None:
    endpoint: Endpoint = await scene.endpoint()
    await scene.send(3)
    now = clock.wall()
    where = StatsFilter(org_id=scene.organization.id, since=now - HOUR, until=now + HOUR, endpoint_no=endpoint.no)
    found = await asyncio.gather(*(store.monitoring.stats(where) for store in (scene.store, second) for _ in range(8)))
    assert {each.pending for each in found} == {3}
