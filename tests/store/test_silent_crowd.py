"""A crowd of lanes whose endpoints do not answer does not delay lanes whose endpoints answer, nor new lanes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.endpoints import Endpoint
from hookline.store.postgres.claim import _MAX_TOKENS
from hookline.store.sqlite.claim import TOKENS
from tests.support.scene import Scene

STARTS = 6
CROWD = 2 * _MAX_TOKENS + 5


def a_budget(*answering: Endpoint) -> SlotBudgets:
    windows = {endpoint.no: 8 for endpoint in answering}
    return SlotBudgets(lane_limit=8, windows=windows, first_window=1, silent_free=4096, silent_starts=STARTS)


async def claim(scene: Scene, *answering: Endpoint, want: int = 512) -> list[LeasedDelivery]:
    return (await scene.store.pipeline.claim(want, a_budget(*answering))).jobs


async def crowd(scene: Scene, lanes: int = CROWD) -> list[Endpoint]:
    """Create lanes with a message each, and run one claim."""
    made = [await scene.endpoint(channels=["crowd"]) for _ in range(lanes)]
    await scene.send(channels=["crowd"])
    assert len(await claim(scene)) == STARTS
    return made


async def other(scene: Scene) -> Endpoint:
    return await scene.endpoint(channels=["other"])


def lanes_of(jobs: Sequence[LeasedDelivery]) -> set[int]:
    return {job.endpoint_no for job in jobs}


async def test_a_claim_starts_few_requests_to_silent_lanes_and_serves_the_lanes_that_answer(scene: Scene) -> None:
    known = await other(scene)
    await crowd(scene)
    for count in (1, 3, 2):
        await scene.send(count, channels=["other"])
        jobs = await claim(scene, known)
        assert len([job for job in jobs if job.endpoint_no == known.no]) == count
        assert len(jobs) == count + STARTS


async def test_a_new_lane_does_not_wait_behind_the_crowd(scene: Scene) -> None:
    new = await other(scene)
    await crowd(scene)
    await claim(scene)
    await scene.send(1, channels=["other"])
    jobs = await claim(scene)
    assert new.no in lanes_of(jobs)
    assert len(jobs) == STARTS


async def test_a_claim_that_may_start_no_request_to_a_silent_lane_serves_lanes_that_answer(scene: Scene) -> None:
    known = await other(scene)
    await crowd(scene)
    paused = replace(a_budget(known), silent_starts=0)
    batch = await scene.store.pipeline.claim(512, paused)
    assert (batch.jobs, batch.next_at is not None and batch.next_at <= batch.now) == ([], True)
    await scene.send(2, channels=["other"])
    jobs = (await scene.store.pipeline.claim(512, paused)).jobs
    assert [job.endpoint_no for job in jobs] == [known.no, known.no]
    assert len(await claim(scene)) == STARTS


async def test_a_worker_that_may_start_no_request_to_a_silent_lane_finds_new_messages_before_it_sleeps(
    scene: Scene,
) -> None:
    """On PostgreSQL, an armed worker first asks whether a wake token is due, and claims only then."""
    known = await other(scene)
    await crowd(scene)
    paused = replace(a_budget(known), silent_starts=0)
    await scene.raw.execute("UPDATE wake SET at = $1", await scene.store.now() - timedelta(seconds=1))
    assert await scene.store.pipeline.arm()
    batch = await scene.store.pipeline.claim(512, paused)
    assert (batch.jobs, batch.next_at is not None and batch.next_at <= batch.now) == ([], True)
    await scene.send(1, channels=["other"])
    assert [job.endpoint_no for job in (await scene.store.pipeline.claim(512, paused)).jobs] == [known.no]
    assert await scene.store.pipeline.arm()
    assert len(await claim(scene)) == STARTS


async def test_a_lane_that_answers_is_found_behind_more_wake_tokens_than_a_claim_reads(scene: Scene) -> None:
    known = await other(scene)
    await crowd(scene)
    now = await scene.store.now()
    many = "INSERT INTO wake (endpoint_no, at, floor) SELECT endpoint_no, $1, $1 FROM wake"
    for _ in range(5):
        await scene.raw.execute(many, now)
    assert await scene.raw.value("SELECT count(*) FROM wake") > 4096 + 512
    await scene.send(1, channels=["other"])
    jobs = await claim(scene, known)
    assert known.no in lanes_of(jobs)


async def test_every_silent_lane_is_served_once_within_as_many_claims_as_needed(scene: Scene) -> None:
    made = await crowd(scene)
    jobs = [job for _ in range(CROWD // STARTS + 5) for job in await claim(scene)]
    served = [row["endpoint_no"] for row in await scene.raw.rows("SELECT endpoint_no FROM delivery WHERE state = 2")]
    assert sorted(served) == sorted(endpoint.no for endpoint in made)
    assert len(lanes_of(jobs)) == len(jobs) == CROWD - STARTS
    assert await claim(scene) == []


async def test_a_lane_that_used_all_of_its_slots_is_not_looked_at_again_in_the_next_claim(scene: Scene) -> None:
    lane = await other(scene)
    await scene.send(3, channels=["other"])
    batch = await scene.store.pipeline.claim(512, a_budget())
    assert (len(batch.jobs), batch.refused) == (1, {lane.no: None})
    assert [row["at"] > batch.now for row in await scene.tokens(lane)] == [True]


async def test_the_newest_lanes_are_found_behind_more_wake_tokens_than_a_claim_reads(scene: Scene) -> None:
    """SQLite reads the oldest wake tokens, and asks for the newest ones if there are more."""
    new = await other(scene)
    made = await crowd(scene)
    now = await scene.store.now()
    for _ in range(TOKENS):
        await scene.raw.execute("INSERT INTO wake (endpoint_no, at, floor) VALUES ($1, $2, $2)", made[-1].no, now)
    await scene.send(1, channels=["other"])
    assert new.no in lanes_of(await claim(scene))


async def test_a_record_without_results_wakes_lanes(scene: Scene) -> None:
    lane = await other(scene)
    await scene.store.pipeline.record([], wake={lane.no})
    assert [row["at"] <= await scene.store.now() for row in await scene.tokens(lane)] == [True]


async def test_lanes_that_answer_do_not_take_all_places_of_a_claim(scene: Scene) -> None:
    known = [await scene.endpoint(channels=["busy"]) for _ in range(20)]
    await scene.send(30, channels=["busy"])
    new = await other(scene)
    await scene.send(1, channels=["other"])
    for _ in range(5):
        if new.no in lanes_of(await claim(scene, *known, want=6)):
            return
    raise AssertionError("the new lane was not served in five claims")


async def test_messages_that_cannot_be_sent_do_not_delay_the_others_of_a_silent_lane(scene: Scene) -> None:
    lane = await other(scene)
    *late, good = await scene.send(6, channels=["other"])
    for message in late:
        await scene.raw.execute(
            "UPDATE delivery SET expires_at = $1 WHERE message_id = $2", await scene.store.now(), message
        )
    budgets = replace(a_budget(), waiting=2000)
    claimed = [job for _ in range(8) for job in (await scene.store.pipeline.claim(512, budgets)).jobs]
    assert [job.message_id for job in claimed] == [good]
    assert await scene.tokens(lane) == []


async def test_a_worker_does_not_sleep_while_it_has_refused_only_a_part_of_the_crowd(scene: Scene) -> None:
    made = await crowd(scene)
    budgets = replace(a_budget(), held_by_lane={endpoint.no: 1 for endpoint in made})
    for _ in range(CROWD):
        batch = await scene.store.pipeline.claim(512, budgets)
        assert not batch.jobs
        if batch.next_at is not None and batch.next_at > batch.now:
            break
    due = await scene.raw.value("SELECT count(*) FROM wake WHERE at <= $1", batch.now)
    assert due == 0
