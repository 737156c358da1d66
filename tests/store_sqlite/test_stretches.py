"""Long operations run in batches. Rows that do not qualify never stop a batch."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.endpoints import EndpointChange, Secret
from hookline.model.states import EndpointStatus, Reason
from hookline.store import Page, Store
from tests.support import factory
from tests.support.scene import Scene


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookline.store.sqlite.catalogue.BATCH", 2)


@pytest.mark.usefixtures("short")
async def test_resume_renews_every_batch_of_held_deliveries(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    await scene.send(4, deliver_at=await scene.store.now() + timedelta(hours=1))
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    await scene.age(3 * 86_400)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "done")
    now = await scene.store.now()
    found = await scene.raw.rows("SELECT expires_at FROM delivery")
    assert len(found) == 7
    assert all(row["expires_at"] > now + timedelta(hours=23) for row in found)


@pytest.mark.usefixtures("short")
async def test_resume_renews_every_batch_of_queued_deliveries(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for key in ("a", "b", "ü", "\U0010ffff" * 2):
        await scene.send(5, ordering_key=key)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    await scene.age(3 * 86_400)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "done")
    now = await scene.store.now()
    found = await scene.raw.rows("SELECT expires_at FROM delivery WHERE state = 6")
    assert len(found) == 20
    assert all(row["expires_at"] > now + timedelta(hours=23) for row in found)


async def test_deliveries_of_a_paused_lane_do_not_hide_expired_ones_of_other_lanes(scene: Scene) -> None:
    paused = await scene.endpoint(event_types=("a",))
    await scene.endpoint(event_types=("b",))
    await scene.send(4, event_type="a")
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "maintenance")
    await scene.age(10)
    await scene.send(event_type="b")
    await scene.age(2 * 86_400)
    assert [(await scene.store.upkeep.sweep_expired(2)).expired for _ in range(4)] == [0, 0, 1, 0]
    assert await scene.raw.count("delivery", "endpoint_no = $1", paused.no) == 4


async def test_messages_that_do_not_match_do_not_end_the_search_for_missed_ones(scene: Scene) -> None:
    since = await scene.store.now()
    for event_type in ("a", "a", "a", "a", "a", "b", "a", "b", "b"):
        await scene.send(event_type=event_type)
    endpoint = await scene.endpoint(event_types=("b",))
    until = await scene.store.now() + timedelta(seconds=1)
    assert await scene.replay_missing(endpoint, since, until, step=2) == 3
    assert [job.event_type for job in await scene.claim()] == ["b"] * 3


async def test_concurrent_replays_of_missed_messages_create_each_delivery_once(scene: Scene, second: Store) -> None:
    since = await scene.store.now()
    await scene.send(30)
    endpoint = await scene.endpoint()
    until = await scene.store.now() + timedelta(seconds=1)
    handles = (scene.store, second) * 4
    made = await asyncio.gather(*(scene.replay_missing(endpoint, since, until, by=handle) for handle in handles))
    assert sum(made) == await scene.raw.count("delivery") == 30


async def test_a_delivery_without_a_payload_dies_and_the_next_one_is_sent(scene: Scene) -> None:
    await scene.endpoint()
    gone, kept = await scene.send(2)
    await scene.raw.execute("UPDATE message SET payload = NULL WHERE id = $1", gone)
    assert [job.message_id for job in await scene.claim()] == [kept]
    (letter,) = await scene.store.repair.dead_letters(DeadFilter(), Page())
    assert (letter.message_id, letter.reason, letter.attempts) == (gone, Reason.UNSENDABLE, 0)


async def test_a_token_is_never_older_than_the_transaction_that_inserts_it(scene: Scene) -> None:
    """A token with an old instant would put its lane before lanes that have waited longer."""
    endpoint = await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    before = await scene.store.now()
    await scene.record(factory.retry(job, after=-500))
    (token,) = await scene.tokens(endpoint)
    assert token["at"] >= before
    assert token["floor"] < before


async def test_failures_from_before_do_not_disable_an_endpoint_that_is_enabled_again(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.age(6 * 86_400)
    assert (await scene.store.upkeep.sweep_failing(pause_dead=10, disable_after=5 * 86_400)).disabled == 1
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "repaired")
    assert (await scene.store.upkeep.sweep_failing(pause_dead=10, disable_after=5 * 86_400)).disabled == 0


async def test_a_secret_that_no_key_decrypts_can_be_replaced(scene: Scene) -> None:
    endpoint = await scene.endpoint(headers={"x-a": "1"})
    await scene.raw.execute("UPDATE endpoint SET secrets = $1", b"not sealed by anybody")
    renamed = await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(description="broken"))
    assert (renamed.secrets, renamed.description) == ((), "broken")
    secret = Secret(key=factory.secret_key())
    repaired = await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(secrets=(secret,)))
    assert (repaired.secrets, repaired.headers, repaired.revision) == ((secret,), {"x-a": "1"}, 3)
