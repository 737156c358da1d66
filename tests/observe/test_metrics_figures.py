"""Figures of the database on `/metrics`: which are shown, which never are, and that a scrape runs no query."""

from __future__ import annotations

import random

import pytest

from hookline.engine.recorder import Recorder
from hookline.model.policy import RetryPolicy
from hookline.model.states import DeliveryState
from hookline.observe.sampler import Sampler
from hookline.observe.tally import Tally
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.measured import Measured, measuring
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene
from tests.support.working import reaches, working

MANY = pytest.mark.parametrize("engine", ["sqlite"])  # the metrics of a process do not depend on the engine


async def test_every_figure_of_depths_is_shown(measured: Measured) -> None:
    scene = measured.scene
    paused, _ = await scene.endpoint(), await scene.endpoint()
    await scene.send(4)
    jobs = await scene.claim_all()
    await scene.record(factory.dead(jobs[0]), factory.retry(jobs[1], after=500))
    await scene.raw.execute("UPDATE lane SET status = 1 WHERE endpoint_no = $1", paused.no)
    await scene.raw.execute(
        "INSERT INTO alert (name, subject, severity, began_at, fired_at, value, threshold, text)"
        " VALUES ('backlog', '', 'critical', $1, $1, 2, 1, '')",
        await scene.store.now(),
    )
    await scene.send(2)
    found, depths = await measured.sampled(), await scene.store.monitoring.depths()
    assert found.by("hookline_deliveries", "state") == depths.states
    assert found["hookline_deliveries_due"] == depths.due == 2
    assert found["hookline_deliveries_held"] == depths.held
    assert found.by("hookline_dead_letters_unresolved", "reason") == depths.dead
    assert found.by("hookline_circuits", "state") == depths.circuits
    assert (
        found.by("hookline_lanes", "condition") == depths.lanes == {"paused": 1, "disabled": 0, "held": 0, "slowed": 0}
    )
    assert found.by("hookline_alerts_firing", "severity") == {"warning": 0, "critical": 1}
    assert found["hookline_sample_duration_seconds"] > 0
    await scene.age(50)
    assert 50 <= (await measured.sampled())["hookline_oldest_due_age_seconds"] < 100
    assert (await measured.scrape())["hookline_sample_age_seconds"] < 50


async def test_a_scrape_does_not_query_the_database(scene: Scene) -> None:
    """The store is closed, so any query would raise an error."""
    await scene.endpoint()
    await scene.send(5)
    async with measuring(scene) as measured:
        await measured.sampled()
        await scene.store.close()
        found = await measured.scrape()
        assert found.value("hookline_deliveries", state="pending") == 5
        age = found["hookline_sample_age_seconds"]
        await measured.sampler.take()  # this sample fails, because the store is closed
        again = await measured.scrape()
        assert again.value("hookline_deliveries", state="pending") == 5
        assert again["hookline_sample_age_seconds"] > age
    scene.broken_on_purpose = True  # the store is closed, so the final checks of the fixture cannot run


@MANY
async def test_before_the_first_sample_there_are_no_figures_of_the_database(scene: Scene) -> None:
    async with measuring(scene, sampler=Sampler(scene.store)) as measured:
        found = await measured.scrape()
        assert "hookline_deliveries" not in found.kinds
        assert found["hookline_processes"] == 1
        assert found.value("hookline_build_info", version="9.9.9", engine=scene.store.engine) == 1


# ── limits ──


@MANY
async def test_the_number_of_event_type_labels_is_limited(scene: Scene) -> None:
    await scene.endpoint()
    tally = Tally(event_types=2)
    async with measuring(scene, tally=tally) as measured:
        for name in ("a.one", "a.two", "a.three", "a.four", "a.one"):
            await scene.send(1, event_type=name)
        jobs = await scene.claim_all()
        recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(1)), lambda: None, str, tally)
        for job in jobs:
            recorder.add(factory.delivered(job, started_at=job.claimed_at))
        recorder.close()
        await recorder.run()
        found = await measured.scrape()
        durations = found.by("hookline_attempt_duration_seconds_count", "event_type")
        assert len(durations) == 3
        assert durations["other"] >= 2
        assert sum(durations.values()) == 5


@MANY
async def test_no_label_is_an_id_or_an_address(measured: Measured, receiver: Receiver) -> None:
    scene = measured.scene
    endpoint = await scene.endpoint(url=receiver.url + "/secret-path")
    receiver.behave(Behaviour(status=500))
    (message,) = await scene.send()
    await measured.get(f"/api/v1/app/{scene.app.id}/endpoint/{endpoint.id}?token=hush")
    async with working(scene.store, tally=measured.tally, retry=RetryPolicy(base=3600.0)):
        await reaches(scene.store, message, DeliveryState.SCHEDULED)
    await measured.sampled()
    _, _, text = await measured.get("/metrics")
    for word in (endpoint.id, scene.app.id, scene.organization.id, message, "secret-path", "127.0.0.1", "hush"):
        assert word.encode() not in text
