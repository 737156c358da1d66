"""The same request twice is one message; the same event id twice is one message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookline.model import IngestStatus, NewMessage
from hookline.store.base import Store
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


async def test_two_of_one_batch_with_one_key_are_one_message(scene: Scene) -> None:
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


async def test_two_processes_with_one_key_make_one_message(scene: Scene, second: Store) -> None:
    batches = [[keyed(scene), keyed(scene, OTHER_KEY)], [keyed(scene, OTHER_KEY), keyed(scene)]]
    answers = await asyncio.gather(scene.store.ingest(batches[0]), second.ingest(batches[1]))
    statuses = sorted(answer.status for batch in answers for answer in batch)
    assert statuses == [IngestStatus.ACCEPTED, IngestStatus.ACCEPTED, IngestStatus.REPLAYED, IngestStatus.REPLAYED]
    assert answers[0][0].message_id == answers[1][1].message_id
    assert await scene.raw.count("message") == 2


@pytest.mark.store_options(idempotency_hours=2.0)
async def test_a_key_is_free_again_once_its_time_is_over(scene: Scene) -> None:
    (first,) = await scene.ingest([keyed(scene)])
    await scene.age(7100)
    await scene.store.retire()
    assert (await scene.ingest([keyed(scene)]))[0].status == IngestStatus.REPLAYED
    await scene.age(200)
    await scene.store.retire()
    (later,) = await scene.ingest([keyed(scene)])
    assert later.status == IngestStatus.ACCEPTED
    assert later.message_id != first.message_id


async def test_an_event_id_is_taken_once_in_an_application(scene: Scene) -> None:
    (first,) = await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    (again,) = await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    assert (again.status, again.message_id) == (IngestStatus.EVENT_ID_TAKEN, first.message_id)
    sibling = await scene.store.create_application(scene.organization.id, factory.new_application())
    (other,) = await scene.ingest([factory.new_message(sibling.no, event_id="evt-1")])
    assert other.status == IngestStatus.ACCEPTED
    assert await scene.raw.count("message") == 2


async def test_two_of_one_batch_with_one_event_id_are_one_message(scene: Scene) -> None:
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
    """Nothing was accepted under the key, so that a corrected request may use it."""
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
        scene.store.ingest([factory.new_message(scene.app.no, event_id=name) for name in names]),
        second.ingest([factory.new_message(scene.app.no, event_id=name) for name in reversed(names)]),
    )
    accepted = [answer for batch in answers for answer in batch if answer.status == IngestStatus.ACCEPTED]
    assert len(accepted) == await scene.raw.count("message") == 20
