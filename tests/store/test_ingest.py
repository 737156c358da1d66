"""Ingest: an acknowledged message is stored completely, with its deliveries and the tokens that wake their lanes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hookline.errors import InvalidInput, NotFound
from hookline.model.messages import IngestStatus, NewBatch, NewMessage
from hookline.model.policy import PolicyOverride, RetryPolicy
from hookline.model.states import DeliveryState
from hookline.store import Store
from tests.support import factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

NOBODY = 987_654_321


async def test_an_empty_batch_does_nothing(store: Store) -> None:
    assert await store.pipeline.ingest([]) == []


async def test_every_field_of_a_message_is_stored(scene: Scene) -> None:
    deliver_at = await scene.store.now() + timedelta(hours=3)
    given = factory.new_message(
        scene.app.no,
        event_type="order.shipped",
        event_id="evt-17",
        payload=b'{ "spaces" :  1, "s":"\\u00e4\xc3\xa4" }',
        channels=("eu", "ünicode"),
        tags=("red", "blue"),
        ordering_key="customer-9",
        deliver_at=deliver_at,
        policy=factory.full_policy(),
    )
    (answer,) = await scene.ingest([given])
    assert (answer.status, answer.message_id, answer.deliveries) == (IngestStatus.ACCEPTED, given.id, 0)
    found = await scene.store.history.message(scene.app.no, given.id)
    assert found is not None
    for field in (
        "id",
        "app_no",
        "event_type",
        "event_id",
        "payload",
        "channels",
        "tags",
        "ordering_key",
        "deliver_at",
        "policy",
    ):
        assert getattr(found, field) == getattr(given, field), field
    assert (found.app_id, found.created_at) == (scene.app.id, answer.created_at)


async def test_answers_come_in_the_order_of_the_batch(scene: Scene) -> None:
    await scene.endpoint(event_types=("a",))
    batch = [factory.new_message(scene.app.no, event_type=name) for name in "abcabc"]
    answers = await scene.ingest(batch)
    assert [answer.message_id for answer in answers] == [message.id for message in batch]
    assert [answer.deliveries for answer in answers] == [1, 0, 0, 1, 0, 0]


async def test_the_database_numbers_messages_in_the_order_of_the_batch(scene: Scene) -> None:
    batch = factory.new_messages(scene.app.no, 5)
    batch.sort(key=lambda message: message.id, reverse=True)
    await scene.ingest(batch)
    found = [await scene.store.history.message_by_id(message.id) for message in batch]
    seqs = [message.seq for message in found if message is not None]
    assert len(seqs) == 5
    assert seqs == sorted(seqs)


async def test_a_new_delivery_is_pending_and_due_at_acceptance(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (answer,) = await scene.ingest([factory.new_message(scene.app.no, event_type="order.lost")])
    delivery = await scene.delivery(answer.message_id)
    assert delivery.state == DeliveryState.PENDING
    assert (delivery.endpoint_no, delivery.endpoint_id, delivery.app_no) == (endpoint.no, endpoint.id, scene.app.no)
    assert (delivery.message_id, delivery.event_type) == (answer.message_id, "order.lost")
    assert (delivery.attempts, delivery.sent) == (0, 0)
    assert delivery.accepted_at == delivery.due_at == answer.created_at
    assert delivery.expires_at == delivery.accepted_at + timedelta(seconds=RetryPolicy().max_age)


async def test_a_delivery_for_later_is_due_then_and_its_time_budget_starts_then(scene: Scene) -> None:
    await scene.endpoint()
    deliver_at = await scene.store.now() + timedelta(days=2)
    (message,) = await scene.send(deliver_at=deliver_at)
    delivery = await scene.delivery(message)
    assert delivery.due_at == deliver_at
    assert delivery.expires_at == deliver_at + timedelta(seconds=RetryPolicy().max_age)


async def test_a_past_deliver_at_does_not_change_the_time_budget(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send(deliver_at=factory.instant())
    delivery = await scene.delivery(message)
    assert delivery.expires_at == delivery.accepted_at + timedelta(seconds=RetryPolicy().max_age)
    assert [job.message_id for job in await scene.claim()] == [message]


async def test_the_nearest_override_sets_the_budget(scene: Scene) -> None:
    org = scene.organization.id
    await scene.store.catalogue.save_event_type(
        factory.event_type(org, name="typed", policy=PolicyOverride(max_age=111.0))
    )
    await scene.endpoint(event_types=("typed",), policy=PolicyOverride(max_attempts=3))
    await scene.endpoint(event_types=("typed",), policy=PolicyOverride(max_age=222.0))
    (plain,) = await scene.send(event_type="typed")
    (own,) = await scene.send(event_type="typed", policy=PolicyOverride(max_age=333.0))

    async def budgets(message: str) -> list[float]:
        found = await scene.store.history.deliveries(message)
        return sorted((d.expires_at - d.accepted_at).total_seconds() for d in found if d.expires_at)

    assert await budgets(plain) == [111.0, 222.0]
    assert await budgets(own) == [333.0, 333.0]


async def test_the_three_overrides_are_merged_into_the_delivery(scene: Scene) -> None:
    org = scene.organization.id
    by_type = PolicyOverride(base=2.0, factor=5.0, cap=60.0)
    await scene.store.catalogue.save_event_type(factory.event_type(org, name="typed", policy=by_type))
    await scene.endpoint(policy=PolicyOverride(factor=6.0, cap=70.0))
    await scene.send(event_type="typed", policy=PolicyOverride(cap=80.0))
    await scene.send(event_type="plain")
    jobs = {job.event_type: job for job in await scene.claim_all()}
    assert jobs["typed"].policy == PolicyOverride(base=2.0, factor=6.0, cap=80.0)
    assert jobs["plain"].policy == PolicyOverride(factor=6.0, cap=70.0)


async def test_without_overrides_a_delivery_has_no_policy(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    assert [job.policy for job in await scene.claim()] == [None]
    assert await scene.raw.value("SELECT policy FROM delivery") is None


async def test_an_unknown_application_gets_an_answer_and_does_not_affect_others(scene: Scene) -> None:
    gone = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.store.catalogue.delete_application(gone.no)
    answers = await scene.ingest([factory.new_message(no) for no in (NOBODY, scene.app.no, gone.no)])
    assert [answer.status for answer in answers] == [
        IngestStatus.NO_APPLICATION,
        IngestStatus.ACCEPTED,
        IngestStatus.NO_APPLICATION,
    ]
    assert await scene.raw.count("message") == 1


async def test_one_batch_inserts_one_token_for_each_lane(scene: Scene) -> None:
    first, other = await scene.endpoint(), await scene.endpoint()
    silent = await scene.endpoint(event_types=("never",))
    await scene.send(20)
    assert len(await scene.tokens(first)) == len(await scene.tokens(other)) == 1
    assert await scene.tokens(silent) == []
    (token,) = await scene.tokens(first)
    assert token["floor"] <= (await scene.raw.value("SELECT min(due_at) AS due_at FROM delivery"))


async def test_a_batch_with_later_messages_wakes_for_the_earliest(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    now = await scene.store.now()
    await scene.ingest(
        [factory.new_message(scene.app.no, deliver_at=now + timedelta(seconds=wait)) for wait in (900, 300, 600)]
    )
    (token,) = await scene.tokens(endpoint)
    assert token["at"] == token["floor"] == now + timedelta(seconds=300)


async def test_ingest_waits_for_no_lane(scene: Scene) -> None:
    """A claim, a record or a stuck session may hold the lane's row. Ingest must not wait for it."""
    endpoint = await scene.endpoint()
    before = await scene.raw.row("SELECT * FROM lane")
    if isinstance(scene.raw, RawPostgres):
        async with scene.raw.connection.transaction():
            await scene.raw.execute("SELECT * FROM lane FOR UPDATE")
            answers = await asyncio.wait_for(scene.ingest(factory.new_messages(scene.app.no, 3)), 60)
    else:
        answers = await scene.ingest(factory.new_messages(scene.app.no, 3))  # SQLite has one writer and no row locks
    assert [answer.deliveries for answer in answers] == [1, 1, 1]
    assert await scene.raw.row("SELECT * FROM lane") == before
    assert len(await scene.tokens(endpoint)) == 1


async def test_two_processes_that_accept_for_the_same_endpoints_do_not_deadlock(scene: Scene, second: Store) -> None:
    for _ in range(4):
        await scene.endpoint()
    answers = await asyncio.gather(
        *(
            handle.pipeline.ingest(factory.new_messages(scene.app.no, 10))
            for _ in range(5)
            for handle in (scene.store, second)
        )
    )
    assert sum(answer.deliveries for batch in answers for answer in batch) == 400
    assert await scene.raw.count("delivery") == 400


async def test_a_large_batch_is_one_transaction(scene: Scene) -> None:
    await scene.endpoint()
    answers = await scene.ingest(factory.new_messages(scene.app.no, 700))
    assert len({answer.created_at for answer in answers}) == 1
    assert await scene.raw.count("delivery") == 700


# ── batches of one caller ──


def batch_of(app_no: int, *messages: NewMessage, **fields: Any) -> NewBatch:
    return NewBatch(app_no=app_no, messages=messages, **fields)


async def test_a_batch_is_one_transaction_with_an_answer_for_each_message(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(event_id="taken")
    given = [factory.new_message(scene.app.no, event_id=name) for name in ("a", "taken", "b", "a", None)]
    accepted = await scene.store.pipeline.ingest_batch(batch_of(scene.app.no, *given, faults={7: "no message"}))
    assert accepted.status == IngestStatus.ACCEPTED
    assert [answer.status for answer in accepted.answers] == [
        IngestStatus.ACCEPTED,
        IngestStatus.EVENT_ID_TAKEN,
        IngestStatus.ACCEPTED,
        IngestStatus.EVENT_ID_TAKEN,
        IngestStatus.ACCEPTED,
    ]
    assert accepted.answers[3].message_id == given[0].id
    assert accepted.faults == {7: "no message"}
    assert len({answer.created_at for answer in accepted.answers if answer.status == IngestStatus.ACCEPTED}) == 1
    assert await scene.raw.count("delivery") == 4


async def test_a_batch_for_an_unknown_application_is_refused_as_a_whole(scene: Scene) -> None:
    given = batch_of(NOBODY, factory.new_message(NOBODY), idempotency_key=b"gone", idempotency_body=b"b")
    with pytest.raises(NotFound):
        await scene.store.pipeline.ingest_batch(given)
    assert await scene.raw.count("idempotency") == await scene.raw.count("message") == 0


async def test_a_batch_that_the_database_refuses_stores_nothing(scene: Scene) -> None:
    good, bad = factory.new_message(scene.app.no), factory.new_message(scene.app.no, event_type="a\ud800b")
    with pytest.raises(InvalidInput):
        await scene.store.pipeline.ingest_batch(
            batch_of(scene.app.no, good, bad, idempotency_key=b"k", idempotency_body=b"b")
        )
    assert await scene.raw.count("idempotency") == await scene.raw.count("message") == 0


async def test_a_thousand_messages_with_one_event_id_become_one(scene: Scene) -> None:
    given = factory.new_messages(scene.app.no, 1000, event_id="all-the-same")
    accepted = await scene.store.pipeline.ingest_batch(batch_of(scene.app.no, *given))
    assert accepted.answers[0].status == IngestStatus.ACCEPTED
    assert {answer.message_id for answer in accepted.answers} == {given[0].id}
    assert await scene.raw.count("message") == 1


async def test_a_batch_wakes_its_lanes(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.pipeline.ingest_batch(
        batch_of(scene.app.no, *factory.new_messages(scene.app.no, 30), idempotency_key=b"k", idempotency_body=b"b")
    )
    assert len(await scene.tokens(endpoint)) == 1
    assert len(await scene.claim_all()) == 30
