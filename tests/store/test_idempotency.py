"""A repeated request or a repeated event id creates one message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookline.model.messages import BatchAccepted, IngestStatus, NewBatch, NewMessage
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
BODY, OTHER_BODY = b"b" * 32, b"x" * 32


def keyed(scene: Scene, key: bytes = KEY, body: bytes = BODY, **fields: Any) -> NewMessage:
    return factory.new_message(scene.app.no, idempotency_key=key, idempotency_body=body, **fields)


async def test_the_same_key_and_body_is_answered_with_the_first_message(scene: Scene) -> None:
    await scene.endpoint()
    (first,) = await scene.ingest([keyed(scene)])
    (again,) = await scene.ingest([keyed(scene)])
    assert (again.status, again.message_id) == (IngestStatus.REPLAYED, first.message_id)
    assert await scene.raw.count("message") == await scene.raw.count("delivery") == 1


async def test_the_same_key_with_another_body_is_refused(scene: Scene) -> None:
    await scene.ingest([keyed(scene)])
    (again,) = await scene.ingest([keyed(scene, body=OTHER_BODY)])
    assert again.status == IngestStatus.KEY_REUSED
    assert await scene.raw.count("message") == 1


async def test_two_messages_of_one_batch_with_one_key_become_one(scene: Scene) -> None:
    batch = [keyed(scene), keyed(scene), keyed(scene, body=OTHER_BODY), keyed(scene, OTHER_KEY)]
    answers = await scene.ingest(batch)
    assert [answer.status for answer in answers] == [
        IngestStatus.ACCEPTED,
        IngestStatus.REPLAYED,
        IngestStatus.KEY_REUSED,
        IngestStatus.ACCEPTED,
    ]
    assert answers[1].message_id == batch[0].id
    assert await scene.raw.count("message") == 2


async def test_two_processes_with_one_key_create_one_message(scene: Scene, second: Store) -> None:
    batches = [[keyed(scene), keyed(scene, OTHER_KEY)], [keyed(scene, OTHER_KEY), keyed(scene)]]
    answers = await asyncio.gather(scene.store.pipeline.ingest(batches[0]), second.pipeline.ingest(batches[1]))
    statuses = sorted(answer.status for batch in answers for answer in batch)
    assert statuses == [IngestStatus.ACCEPTED, IngestStatus.ACCEPTED, IngestStatus.REPLAYED, IngestStatus.REPLAYED]
    assert answers[0][0].message_id == answers[1][1].message_id
    assert await scene.raw.count("message") == 2


@pytest.mark.store_options(idempotency_hours=2.0)
async def test_a_key_is_free_again_after_its_time(scene: Scene) -> None:
    (first,) = await scene.ingest([keyed(scene)])
    await scene.age(7100)
    await scene.store.upkeep.retire()
    assert (await scene.ingest([keyed(scene)]))[0].status == IngestStatus.REPLAYED
    await scene.age(200)
    await scene.store.upkeep.retire()
    (later,) = await scene.ingest([keyed(scene)])
    assert later.status == IngestStatus.ACCEPTED
    assert later.message_id != first.message_id


async def test_an_event_id_is_taken_once_in_an_application(scene: Scene) -> None:
    (first,) = await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    (again,) = await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    assert (again.status, again.message_id) == (IngestStatus.EVENT_ID_TAKEN, first.message_id)
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    (other,) = await scene.ingest([factory.new_message(sibling.no, event_id="evt-1")])
    assert other.status == IngestStatus.ACCEPTED
    assert await scene.raw.count("message") == 2


async def test_two_messages_of_one_batch_with_one_event_id_become_one(scene: Scene) -> None:
    await scene.endpoint()
    batch = [factory.new_message(scene.app.no, event_id=name) for name in ("a", "b", "a")]
    answers = await scene.ingest(batch)
    assert [answer.status for answer in answers] == [
        IngestStatus.ACCEPTED,
        IngestStatus.ACCEPTED,
        IngestStatus.EVENT_ID_TAKEN,
    ]
    assert answers[2].message_id == batch[0].id
    assert await scene.raw.count("delivery") == 2


async def test_a_taken_event_id_leaves_its_idempotency_key_free(scene: Scene) -> None:
    """No message was accepted under the key, so a corrected request may use it."""
    await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    (refused,) = await scene.ingest([keyed(scene, event_id="evt-1")])
    assert refused.status == IngestStatus.EVENT_ID_TAKEN
    (corrected,) = await scene.ingest([keyed(scene, event_id="evt-2")])
    assert corrected.status == IngestStatus.ACCEPTED


async def test_two_processes_with_the_same_event_ids_in_another_order_do_not_deadlock(
    scene: Scene, second: Store
) -> None:
    names = [f"evt-{n}" for n in range(20)]
    answers = await asyncio.gather(
        scene.store.pipeline.ingest([factory.new_message(scene.app.no, event_id=name) for name in names]),
        second.pipeline.ingest([factory.new_message(scene.app.no, event_id=name) for name in reversed(names)]),
    )
    accepted = [answer for batch in answers for answer in batch if answer.status == IngestStatus.ACCEPTED]
    assert len(accepted) == await scene.raw.count("message") == 20


async def test_many_messages_of_one_batch_with_one_key_become_one(scene: Scene) -> None:
    answers = await scene.ingest([keyed(scene) for _ in range(50)])
    assert [answer.status for answer in answers] == [IngestStatus.ACCEPTED] + [IngestStatus.REPLAYED] * 49
    assert len({(answer.message_id, answer.created_at) for answer in answers}) == 1
    assert await scene.raw.count("message") == 1


# ── batches ──


def batch(scene: Scene, count: int = 3, *, key: bytes = KEY, body: bytes = BODY, **fields: Any) -> NewBatch:
    messages = tuple(factory.new_messages(scene.app.no, count))
    given = {"messages": messages, "idempotency_key": key, "idempotency_body": body}
    return NewBatch(app_no=scene.app.no, **(given | fields))


def ids_of(accepted: BatchAccepted) -> list[str]:
    return [answer.message_id for answer in accepted.answers]


async def test_the_same_batch_again_gets_the_same_answers(scene: Scene) -> None:
    """Refused messages get the same answer too, even if the event id is free now or the error would not recur."""
    await scene.send(event_id="taken")
    messages = (
        factory.new_message(scene.app.no),
        factory.new_message(scene.app.no, event_id="taken"),
        factory.new_message(scene.app.no, event_id="mine"),
    )
    first = await scene.store.pipeline.ingest_batch(
        batch(scene, messages=messages, faults={1: "too late", 4: "no ünicode"})
    )
    await scene.raw.execute("DELETE FROM event_id")
    again = await scene.store.pipeline.ingest_batch(batch(scene, 5))
    assert (first.status, again.status) == (IngestStatus.ACCEPTED, IngestStatus.REPLAYED)
    assert (again.answers, again.faults) == (first.answers, {1: "too late", 4: "no ünicode"})
    assert await scene.raw.count("message") == 3


async def test_the_answers_of_a_batch_with_only_errors_are_stored_too(scene: Scene) -> None:
    await scene.store.pipeline.ingest_batch(batch(scene, 0, faults={0: "no message"}))
    again = await scene.store.pipeline.ingest_batch(batch(scene, 2))
    assert (again.status, again.answers, again.faults) == (IngestStatus.REPLAYED, (), {0: "no message"})
    assert await scene.raw.count("message") == 0


async def test_a_batch_with_the_key_of_another_is_refused(scene: Scene) -> None:
    await scene.store.pipeline.ingest_batch(batch(scene))
    again = await scene.store.pipeline.ingest_batch(batch(scene, body=OTHER_BODY))
    assert (again.status, again.answers) == (IngestStatus.KEY_REUSED, ())
    other = await scene.store.pipeline.ingest_batch(batch(scene, key=OTHER_KEY, body=OTHER_BODY))
    assert other.status == IngestStatus.ACCEPTED
    assert await scene.raw.count("message") == 6


async def test_the_same_batch_in_two_processes_is_stored_once(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    stores = [scene.store, second] * 4
    found = await asyncio.gather(*(store.pipeline.ingest_batch(batch(scene, 100)) for store in stores))
    assert len({tuple(ids_of(accepted)) for accepted in found}) == 1
    assert [accepted.status for accepted in found].count(IngestStatus.ACCEPTED) == 1
    assert await scene.raw.count("message") == await scene.raw.count("delivery") == 100


async def test_batches_with_the_same_event_ids_in_another_order_do_not_deadlock(scene: Scene, second: Store) -> None:
    names = [f"evt-{n}" for n in range(50)]
    ways = (names, names[::-1], names[25:] + names[:25], names[10:])
    batches = [
        batch(
            scene,
            key=bytes([number]) * 32,
            messages=tuple(factory.new_message(scene.app.no, event_id=name) for name in way),
        )
        for number, way in enumerate(ways)
    ]
    stores = (scene.store, second, scene.store, second)
    found = await asyncio.gather(
        *(store.pipeline.ingest_batch(given) for store, given in zip(stores, batches, strict=True))
    )
    taken = [answer for accepted in found for answer in accepted.answers if answer.status == IngestStatus.ACCEPTED]
    assert len(taken) == await scene.raw.count("message") == 50


@pytest.mark.store_options(idempotency_hours=2.0)
async def test_the_key_of_a_batch_is_free_again_after_its_time(scene: Scene) -> None:
    await scene.store.pipeline.ingest_batch(batch(scene))
    await scene.age(7300)
    again = await scene.store.pipeline.ingest_batch(batch(scene, body=OTHER_BODY))
    assert again.status == IngestStatus.ACCEPTED
    replayed = await scene.store.pipeline.ingest_batch(batch(scene, body=OTHER_BODY))
    assert ids_of(replayed) == ids_of(again)
