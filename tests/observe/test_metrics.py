"""Every metric changes after the real event that it counts. All other metrics stay the same."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest

from hookline.engine.recorder import Recorder
from hookline.engine.relay import OwnOutbox, Relay
from hookline.engine.sources import open_source
from hookline.engine.sweep import Sweeper, SweepSettings
from hookline.model.policy import CircuitPolicy, PolicyOverride
from hookline.model.states import ErrorKind
from hookline.observe.tally import Tally
from hookline.store import Store
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.measured import Measured, Scrape
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene
from tests.support.working import settled, working

MANY = pytest.mark.parametrize("engine", ["sqlite"])  # the metrics of a process do not depend on the engine


async def publish(scene: Scene, app: str) -> None:
    await scene.raw.execute(
        "INSERT INTO outbox (org_id, app, event_type, payload, created_at) VALUES ($1, $2, 'order.paid', $3, $4)",
        *(scene.organization.id, app, b"{}", await scene.store.now()),
    )


async def counted(measured: Measured, name: str, wanted: float, **labels: str) -> Scrape:
    """Poll until the metric `name` has the value `wanted`. Counting happens shortly after recording."""
    async with asyncio.timeout(60):
        while (found := await measured.scrape()).samples.get((name, frozenset(labels.items()))) != wanted:
            await asyncio.sleep(0.01)  # another task counts, so there is no event to await
    return found


ONE_ATTEMPT = {
    "claim_batch_size": 1,
    "claim_duration_seconds": 1,
    "record_batch_size": 1,
    "record_duration_seconds": 1,
    "send_lag_seconds{event_type=order.paid}": 1,
    "first_attempt_latency_seconds": 1,
}


@MANY
async def test_without_events_no_metric_changes(measured: Measured) -> None:
    before = await measured.sampled()
    async with working(measured.scene.store, tally=measured.tally):
        pass
    assert (await measured.sampled()).grown(before) == {}


# ── messages accepted ──


@MANY
async def test_messages_accepted_by_the_api_are_counted(measured: Measured) -> None:
    before = await measured.scrape()
    status, _, _ = await measured.post(
        f"/api/v1/app/{measured.scene.app.id}/msg", {"eventType": "order.paid", "payload": {}}
    )
    assert status == 202
    after = await measured.scrape()
    assert after.grown(before) == {
        "messages_accepted{via=api}": 1,
        "ingest_batch_size": 1,
        "ingest_duration_seconds": 1,
        "api_request_duration_seconds{method=POST,route=/api/v1/app/{app_id}/msg,status=2xx}": 1,
    }


@MANY
async def test_refused_api_requests_are_counted(measured: Measured) -> None:
    before = await measured.scrape()
    await measured.post("/api/v1/app/app_unknown/msg", {"eventType": "order.paid", "payload": {}})
    await measured.get('/no/such/"path"')
    await measured.request("PROPFIND", "/api/v1/app", None, {})
    after = await measured.scrape()
    assert after.grown(before) == {
        "api_request_duration_seconds{method=POST,route=/api/v1/app/{app_id}/msg,status=4xx}": 1,
        "api_request_duration_seconds{method=GET,route=unknown,status=4xx}": 1,
        "api_request_duration_seconds{method=other,route=/api/v1/app,status=4xx}": 1,
    }


async def test_outbox_rows_relayed_repeated_and_set_aside_are_counted(measured: Measured) -> None:
    scene = measured.scene
    relay = Relay(OwnOutbox(scene.store), Outage(random.Random(1)), measured.tally)
    await relay.once()
    before = await measured.sampled()
    assert (before["hookline_outbox_waiting"], before["hookline_outbox_lag_seconds"]) == (0, 0)
    for app in (scene.app.id, scene.app.id, "nobody"):
        await publish(scene, app)
    await scene.age(30)
    assert (waiting := await measured.sampled())["hookline_outbox_waiting"] == 3
    assert 30 <= waiting["hookline_outbox_lag_seconds"] < 90
    await relay.once()
    after = await measured.sampled()
    assert after.grown(before) == {
        "messages_accepted{via=outbox}": 2,
        "outbox_rows{outcome=relayed}": 2,
        "outbox_rows{outcome=set_aside}": 1,
    }
    assert (after["hookline_outbox_waiting"], after["hookline_outbox_set_aside"]) == (0, 1)


@MANY
async def test_the_lag_of_an_outbox_that_cannot_be_read_is_reported(measured: Measured, tmp_path: Path) -> None:
    file, stop = tmp_path / "shop.db", asyncio.Event()
    file.write_bytes(b"no database at all" * 100)
    source = open_source(f"sqlite:///{file}", measured.scene.store)
    running = asyncio.create_task(Relay(source, Outage(random.Random(1)), measured.tally).run(stop))
    async with asyncio.timeout(60):
        while not (await measured.sampled())["hookline_outbox_lag_seconds"]:
            await asyncio.sleep(0.01)  # the relay runs in another task, so there is no event to await
        file.unlink()  # without the outbox file, no row waits
        while (await measured.sampled())["hookline_outbox_lag_seconds"]:
            await asyncio.sleep(0.01)  # the relay has no event for the end of a lag
    stop.set()
    await running


# ── deliveries ──


@MANY
async def test_a_delivery_that_succeeds_at_the_first_attempt_is_counted(measured: Measured, receiver: Receiver) -> None:
    scene = measured.scene
    await scene.endpoint(url=receiver.url)
    before = await measured.scrape()
    (message,) = await scene.send(event_type="order.paid")
    async with working(scene.store, tally=measured.tally):
        await settled(scene.store, message)
    after = await measured.scrape()
    assert after.grown(before) == ONE_ATTEMPT | {
        "attempts{outcome=delivered,result=2xx}": 1,
        "attempt_duration_seconds{event_type=order.paid,outcome=delivered}": 1,
        "delivery_latency_seconds{event_type=order.paid}": 1,
        "delivery_attempts{outcome=delivered}": 1,
    }
    assert after.value("hookline_delivery_attempts_bucket", outcome="delivered", le="1.0") == 1


@MANY
async def test_a_delivery_that_succeeds_at_the_second_attempt_is_counted(
    measured: Measured, receiver: Receiver
) -> None:
    scene = measured.scene
    await scene.endpoint(url=receiver.url)
    answers = iter([503, 200])
    receiver.behave(lambda _: Behaviour(status=next(answers)))
    before = await measured.scrape()
    (message,) = await scene.send(event_type="order.paid")
    async with working(scene.store, tally=measured.tally):
        await settled(scene.store, message)
    after = await measured.scrape()
    grown = after.grown(before)
    both = ("claim_batch_size", "claim_duration_seconds", "record_batch_size", "record_duration_seconds")
    assert grown == ONE_ATTEMPT | dict.fromkeys(both, 2) | {
        "attempts{outcome=retry,result=5xx}": 1,
        "attempts{outcome=delivered,result=2xx}": 1,
        "attempt_duration_seconds{event_type=order.paid,outcome=retry}": 1,
        "attempt_duration_seconds{event_type=order.paid,outcome=delivered}": 1,
        "retries{outcome=delivered}": 1,
        "retry_delay_seconds": 1,
        "send_lag_seconds{event_type=order.paid}": 2,
        "delivery_latency_seconds{event_type=order.paid}": 1,
        "delivery_attempts{outcome=delivered}": 1,
    }
    assert after.value("hookline_delivery_attempts_bucket", outcome="delivered", le="1.0") == 0
    assert after.value("hookline_delivery_attempts_bucket", outcome="delivered", le="2.0") == 1


@MANY
async def test_a_delivery_that_dies_at_once_is_counted(measured: Measured, receiver: Receiver) -> None:
    scene = measured.scene
    await scene.endpoint(url=receiver.url)
    receiver.behave(Behaviour(status=404))
    before = await measured.sampled()
    (message,) = await scene.send(event_type="order.paid")
    async with working(scene.store, tally=measured.tally):
        await settled(scene.store, message)
    after = await measured.sampled()
    assert after.grown(before) == ONE_ATTEMPT | {
        "attempts{outcome=dead,result=4xx}": 1,
        "attempt_duration_seconds{event_type=order.paid,outcome=dead}": 1,
        "delivery_attempts{outcome=dead}": 1,
        "dead_letters{reason=permanent_failure}": 1,
    }
    unresolved = after.by("hookline_dead_letters_unresolved", "reason")
    assert {reason for reason, number in unresolved.items() if number} == {"permanent_failure"}


@MANY
async def test_a_delivery_that_reaches_its_last_attempt_is_counted(measured: Measured, receiver: Receiver) -> None:
    scene = measured.scene
    await scene.endpoint(url=receiver.url, policy=PolicyOverride(max_attempts=3))
    receiver.behave(Behaviour(status=500))
    before = await measured.scrape()
    (message,) = await scene.send()
    async with working(scene.store, tally=measured.tally):
        await settled(scene.store, message)
    grown = (await measured.scrape()).grown(before)
    assert grown["last_attempts"] == 1
    assert grown["dead_letters{reason=attempts_exhausted}"] == 1
    assert (grown["retries{outcome=retry}"], grown["retries{outcome=dead}"]) == (1, 1)
    assert grown["attempts{outcome=retry,result=5xx}"] == 2


@MANY
async def test_requests_in_flight_are_counted(measured: Measured, receiver: Receiver) -> None:
    scene = measured.scene
    await scene.endpoint(url=receiver.url)
    release = threading.Event()
    receiver.behave(Behaviour(answer_when=release))
    assert (await measured.scrape())["hookline_slots"] == 0
    messages = await scene.send(3)
    async with working(scene.store, tally=measured.tally):
        await receiver.arrived(3)
        now = await measured.sampled()
        assert (now["hookline_requests_in_flight"], now["hookline_slots"]) == (3, 64 + 512)
        assert now.value("hookline_deliveries", state="delivering") == 3
        release.set()
        for message in messages:
            await settled(scene.store, message)
        await counted(measured, "hookline_requests_in_flight", 0)
        now = await measured.sampled()
        assert now.value("hookline_deliveries", state="delivering") == 0


@MANY
async def test_an_address_refused_on_connect_is_counted(measured: Measured) -> None:
    scene = measured.scene
    await scene.endpoint(url="http://10.11.12.13/hook")  # as if the address had been allowed when it was saved
    before = await measured.scrape()
    (message,) = await scene.send()
    async with working(scene.store, tally=measured.tally):
        await settled(scene.store, message)
    grown = (await measured.scrape()).grown(before)
    assert grown["guard_refusals{where=dialled}"] == 1
    assert grown["dead_letters{reason=blocked_address}"] == 1
    assert grown[f"attempts{{outcome=dead,result={ErrorKind.BLOCKED.value}}}"] == 1
    assert "guard_refusals{where=saved}" not in grown


@MANY
async def test_an_address_refused_on_save_is_counted(measured: Measured) -> None:
    before = await measured.scrape()
    path = f"/api/v1/app/{measured.scene.app.id}/endpoint"
    assert (await measured.post(path, {"url": "http://169.254.169.254/latest"}))[0] == 422
    assert (await measured.post(path, {"url": "no url"}))[0] == 422
    grown = (await measured.scrape()).grown(before)
    assert grown.pop("guard_refusals{where=saved}") == 1
    assert set(grown) == {"api_request_duration_seconds{method=POST,route=/api/v1/app/{app_id}/endpoint,status=4xx}"}


@pytest.mark.store_options(circuit=CircuitPolicy(threshold=2, spread=0.0))
async def test_an_opened_circuit_is_counted(measured: Measured, receiver: Receiver) -> None:
    scene = measured.scene
    await scene.endpoint(url=receiver.url)
    receiver.behave(Behaviour(status=500))
    before = await measured.sampled()
    assert before.by("hookline_circuits", "state") == {"closed": 1, "open": 0, "half_open": 0, "recovering": 0}
    await scene.send(2)
    async with working(scene.store, tally=measured.tally):
        await counted(measured, "hookline_lane_events_total", 1, kind="circuit_opened")
    after = await measured.sampled()
    assert after.by("hookline_circuits", "state") == {"closed": 0, "open": 1, "half_open": 0, "recovering": 0}
    events = {name: number for name, number in after.grown(before).items() if name.startswith("lane_events")}
    assert events == {"lane_events{kind=circuit_opened}": 1}
    assert (after["hookline_deliveries_due"], after["hookline_deliveries_held"]) == (0, 2)


@MANY
async def test_a_failed_probe_has_no_retry_delay(measured: Measured) -> None:
    """A failed probe is due at once, but held by its circuit. A delay of zero would make retries look fast."""
    scene = measured.scene
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.age(5_000)
    before = await measured.scrape()
    [job] = await scene.claim()
    assert job.probe
    failed = factory.retry(job, after=0)
    measured.tally.recorded([failed], await scene.record(failed), 0.01)
    grown = (await measured.scrape()).grown(before)
    assert grown["attempts{outcome=retry,result=5xx}"] == 1
    assert "retry_delay_seconds" not in grown


async def test_an_outcome_after_a_lost_lease_is_counted(measured: Measured) -> None:
    scene = measured.scene
    await scene.endpoint()
    await scene.send(1)
    (job,) = await scene.claim()
    recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(1)), lambda: None, str, measured.tally)
    await scene.age(100)
    await scene.store.upkeep.sweep_leases()
    before = await measured.scrape()
    recorder.add(factory.delivered(job))
    recorder.close()
    await recorder.run()
    grown = (await measured.scrape()).grown(before)
    assert grown["stale_outcomes"] == 1


# ── the sweep ──


async def sweep(store: Store, tally: Tally) -> None:
    """Run every chore of the sweeper once."""
    sweeper = Sweeper(store, SweepSettings(every=1e-9), Outage(random.Random(1)), random.Random(1), tally)
    await asyncio.sleep(0.001)  # the first run of each chore is due by then
    await sweeper.once()


async def test_expired_leases_and_time_budgets_are_counted(measured: Measured) -> None:
    scene = measured.scene
    await scene.endpoint()
    await scene.send(2)
    await scene.claim(1)
    before = await measured.scrape()
    await sweep(scene.store, measured.tally)
    assert (await measured.scrape()).grown(before) == {}
    await scene.age(100)
    await sweep(scene.store, measured.tally)
    assert (await measured.scrape()).grown(before) == {"leases_expired": 1}
    await scene.age(30 * 3600)
    await sweep(scene.store, measured.tally)
    grown = (await measured.scrape()).grown(before)
    assert grown == {"leases_expired": 1, "dead_letters{reason=budget_exhausted}": 2}


async def test_deliveries_of_a_deleted_endpoint_are_counted(measured: Measured) -> None:
    scene = measured.scene
    endpoint = await scene.endpoint()
    await scene.send(3)
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    before = await measured.scrape()
    await sweep(scene.store, measured.tally)
    assert (await measured.scrape()).grown(before) == {"dead_letters{reason=endpoint_deleted}": 3}


async def test_a_lane_that_the_audit_repairs_is_counted(measured: Measured) -> None:
    scene = measured.scene
    await scene.endpoint()
    await scene.send(1)
    await scene.raw.execute("DELETE FROM wake")
    before = await measured.scrape()
    await scene.age(100)
    await sweep(scene.store, measured.tally)
    assert (await measured.scrape()).grown(before) == {"lanes_repaired": 1}
