"""Claims rotate among applications. An application with many busy lanes does not delay the others."""

from __future__ import annotations

from collections import Counter

import pytest

from hookline.model.catalogue import Application, ApplicationChange
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.model.states import EndpointStatus
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

WANT = 8


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat the search for applications at once. Normally a slow search is not repeated for a while."""
    monkeypatch.setattr("hookline.rules.claim.rotation.LOOK_REST", 0.0)


async def neighbour(scene: Scene, lanes: int = 1) -> Application:
    app = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    for _ in range(lanes):
        await scene.endpoint(app)
    return app


async def publish(scene: Scene, app: Application, count: int = 1) -> None:
    await scene.ingest(factory.new_messages(app.no, count))


async def busy(scene: Scene, lanes: int = 80, messages: int = 6) -> list[Endpoint]:
    """Create many lanes with a backlog each, and run one claim."""
    made = [await scene.endpoint() for _ in range(lanes)]
    await scene.send(messages)
    assert {job.app_no for job in await scene.claim(WANT)} == {scene.app.no}
    return made


def of(app: Application, jobs: list[LeasedDelivery]) -> list[LeasedDelivery]:
    return [job for job in jobs if job.app_no == app.no]


@pytest.mark.parametrize("late", [False, True])
async def test_the_next_claim_serves_a_quiet_application_however_many_lanes_another_has(
    scene: Scene, late: bool
) -> None:
    """This holds whether the quiet application has the larger or the smaller application number."""
    early = await neighbour(scene)
    await busy(scene)
    quiet = await neighbour(scene) if late else early
    for _ in range(3):
        await publish(scene, quiet)
        jobs = await scene.claim(WANT)
        assert len(of(quiet, jobs)) == 1
        assert len(jobs) == WANT


async def test_another_worker_serves_the_quiet_application_too(scene: Scene, second: Store) -> None:
    await busy(scene)
    await scene.claim(WANT, by=second)
    quiet = await neighbour(scene)
    await publish(scene, quiet)
    assert len(of(quiet, await scene.claim(WANT, by=second))) == 1


async def test_all_lanes_of_a_quiet_application_are_served(scene: Scene) -> None:
    await busy(scene)
    quiet = await neighbour(scene, lanes=6)
    await publish(scene, quiet)
    taken = [len(of(quiet, await scene.claim(WANT))) for _ in range(5)]
    assert sum(taken) == 6
    assert taken[0] >= 2


async def test_the_only_lane_of_an_application_gets_its_whole_share(scene: Scene) -> None:
    """With two applications, each gets a quarter of the claim, and the other half goes in order. A lane's share does
    not shrink because of another application's eighty lanes. The test sums two claims."""
    await busy(scene)
    quiet = await neighbour(scene)
    await publish(scene, quiet, 20)
    taken = [len(of(quiet, await scene.claim(4 * WANT))) for _ in range(2)]
    assert sum(taken) > WANT


async def test_applications_that_one_claim_leaves_out_are_served_in_the_next(scene: Scene) -> None:
    """All applications have a backlog, so none gets its turn only because another is empty."""
    await busy(scene)
    others = [await neighbour(scene) for _ in range(9)]
    for app in others:
        await publish(scene, app, 30)
    served: Counter[int] = Counter()
    for _ in range(6):
        served.update({job.app_no for job in await scene.claim(WANT)})
    assert set(served) == {scene.app.no, *(app.no for app in others)}
    assert max(served[app.no] for app in others) <= 4


async def test_a_single_application_gets_whole_claims_and_all_its_lanes_are_served(scene: Scene) -> None:
    lanes = await busy(scene, lanes=24, messages=4)
    jobs = [await scene.claim(WANT) for _ in range(11)]
    assert {len(batch) for batch in jobs} == {WANT}
    first = {job.endpoint_no for batch in jobs[:5] for job in batch}
    assert len(first) >= len(lanes) * 2 / 3
    assert await scene.claim_all() == []


async def test_a_busy_application_continues_in_order_beside_one_that_is_always_ready(scene: Scene) -> None:
    lanes = {one.no for one in await busy(scene, lanes=24)}
    other = await neighbour(scene)
    await publish(scene, other, 200)
    served: set[int] = set()
    for _ in range(12):
        served |= {job.endpoint_no for job in await scene.claim(WANT)} & lanes
    assert len(served) >= 20


@pytest.mark.parametrize("why", ["open", "paused", "slow"])
async def test_an_application_that_may_not_send_takes_no_turn_of_others(scene: Scene, why: str) -> None:
    await busy(scene)
    held = await neighbour(scene, lanes=0)
    endpoints = [await scene.endpoint(held) for _ in range(6)]
    if why == "slow":
        await scene.store.catalogue.change_application(held.no, ApplicationChange(throttle_rate=1))
    for one in endpoints:
        if why == "open":
            await scene.store.catalogue.open_circuit(one.no, "they deploy")
        elif why == "paused":
            await scene.store.catalogue.set_endpoint_status(one.no, EndpointStatus.PAUSED, "by hand")
    await publish(scene, held, 3)
    quiet = await neighbour(scene)
    for _ in range(5):
        await publish(scene, quiet)
        jobs = await scene.claim(WANT)
        assert len(of(quiet, jobs)) == 1
        assert len(jobs) >= WANT - 2  # at most the share of the held application is lost


async def test_an_application_with_only_later_deliveries_takes_no_turn(scene: Scene) -> None:
    await busy(scene)
    for _ in range(3):
        app = await neighbour(scene)
        later = factory.new_message(app.no, deliver_at=(await scene.store.now()).replace(year=2100))
        await scene.ingest([later])
    assert Counter(job.app_no for job in await scene.claim(WANT)) == {scene.app.no: WANT}


async def test_tokens_of_an_earlier_release_are_served_in_order(scene: Scene) -> None:
    """Tokens of an earlier release do not name their application."""
    await busy(scene, lanes=24, messages=2)
    await scene.raw.execute("UPDATE wake SET app_no = NULL")
    quiet = await neighbour(scene)
    await publish(scene, quiet)
    jobs = [job for _ in range(3) for job in await scene.claim(WANT)]
    assert len(of(quiet, jobs)) == 1
    assert len(jobs) + len(await scene.claim_all()) == 24 * 2 - WANT + 1


async def test_a_worker_with_one_slot_serves_all_applications_in_order(scene: Scene) -> None:
    for _ in range(5):
        await scene.endpoint()
    await scene.send(2)
    quiet = await neighbour(scene)
    await publish(scene, quiet)
    jobs = [job for _ in range(6) for job in await scene.claim(1)]
    assert len(of(quiet, jobs)) == 1


@pytest.mark.parametrize("apps", [2, 3, 5])
async def test_no_lane_is_left_out(scene: Scene, apps: int) -> None:
    """Every lane that a claim reads gets something, however the claim is divided among applications and lanes."""
    many = [scene.app, *[await neighbour(scene, lanes=12) for _ in range(apps - 1)]]
    for _ in range(12):
        await scene.endpoint()
    for app in many:
        await publish(scene, app, 30)
    served: Counter[int] = Counter()
    lanes = 12 * apps
    for _ in range(4 * lanes // 20):
        served.update(job.endpoint_no for job in await scene.claim(20))
    assert len(served) == lanes
    assert max(served.values()) <= 4 * min(served.values())
