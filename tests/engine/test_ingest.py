"""Group commit: many callers share few transactions, and each caller gets the result of its own message."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookline.engine.ingest import MAX_DELIVERIES, GroupCommit
from hookline.errors import InvalidInput, StoreUnavailable
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, NewBatch, NewMessage
from tests.support import factory
from tests.support.raw import open_raw
from tests.support.scene import Scene


async def test_callers_share_a_commit_and_each_gets_its_own_answer(scene: Scene) -> None:
    await scene.endpoint()
    ingest = GroupCommit(scene.store)
    messages = factory.new_messages(scene.app.no, 200)
    answers = await asyncio.gather(*(ingest.submit(message) for message in messages))
    assert [answer.message_id for answer in answers] == [message.id for message in messages]
    assert {answer.status for answer in answers} == {IngestStatus.ACCEPTED}
    assert await scene.raw.count("delivery") == 200
    await ingest.close()


async def test_a_message_that_the_database_refuses_fails_alone(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    good = factory.new_messages(scene.app.no, 20)
    bad = factory.new_message(scene.app.no, event_type="a\ud800b")
    answers = await asyncio.gather(
        *(ingest.submit(message) for message in [*good[:11], bad, *good[11:]]), return_exceptions=True
    )
    assert isinstance(answers[11], InvalidInput)
    assert sum(isinstance(answer, Accepted) for answer in answers) == 20


async def test_a_cancelled_caller_does_not_affect_the_others(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    gone = asyncio.create_task(ingest.submit(factory.new_message(scene.app.no)))
    await asyncio.sleep(0)  # the commit begins
    gone.cancel()
    answer = await ingest.submit(factory.new_message(scene.app.no))
    assert answer.status == IngestStatus.ACCEPTED
    with pytest.raises(asyncio.CancelledError):
        await gone
    await ingest.close()


async def test_applications_take_turns_and_a_wide_one_is_committed_apart(scene: Scene) -> None:
    """The messages of the wide application came first. Those of the narrow one must not wait for all of them."""
    narrow = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    ingest = GroupCommit(scene.store)
    ingest._last_fanout[scene.app.no] = MAX_DELIVERIES  # as if an earlier message had this many deliveries
    loop = asyncio.get_running_loop()
    for app_no in [scene.app.no] * 10 + [narrow.no] * 2:
        message = factory.new_message(app_no)
        ingest._waiting.setdefault(app_no, deque()).append((message, loop.create_future()))
        ingest._count += 1
        ingest._bytes += len(message.payload)
    groups = [[message.app_no for message, _ in ingest._next_group()] for _ in range(3)]
    assert groups == [[scene.app.no], [narrow.no], [scene.app.no]]


async def test_an_internal_error_leaves_no_caller_waiting(scene: Scene) -> None:
    ingest = GroupCommit(scene.store, commits=1)
    broken = asyncio.create_task(ingest.submit(factory.new_message(scene.app.no, channels=5)))
    good = asyncio.create_task(ingest.submit(factory.new_message(scene.app.no)))
    answers = await asyncio.wait_for(asyncio.gather(broken, good, return_exceptions=True), 60)
    assert isinstance(answers[0], Exception)
    assert isinstance(answers[1], Accepted)
    await ingest.close()


# ── the same idempotency key at the same time ──

KEY, BODY, OTHER_BODY = b"k" * 32, b"b" * 32, b"o" * 32


def keyed(scene: Scene, body: bytes = BODY, **fields: Any) -> NewMessage:
    return factory.new_message(scene.app.no, idempotency_key=KEY, idempotency_body=body, **fields)


async def test_requests_with_the_same_key_wait_for_the_first_and_get_its_answer(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    messages = [keyed(scene), keyed(scene), keyed(scene, OTHER_BODY), keyed(scene)]
    answers = await asyncio.gather(*(ingest.submit(message) for message in messages))
    assert [answer.status for answer in answers] == [
        IngestStatus.ACCEPTED,
        IngestStatus.REPLAYED,
        IngestStatus.KEY_REUSED,
        IngestStatus.REPLAYED,
    ]
    assert {answer.message_id for answer in answers} == {messages[0].id}
    assert await scene.raw.count("message") == 1
    await ingest.close()


async def test_a_request_proceeds_when_the_first_of_its_key_was_refused(scene: Scene) -> None:
    await scene.send(event_id="taken")
    ingest = GroupCommit(scene.store)
    refused, same, corrected, late = (
        keyed(scene, event_id="taken"),
        keyed(scene, event_id="taken"),
        keyed(scene, OTHER_BODY),
        keyed(scene, event_id="taken"),
    )
    answers = await asyncio.gather(*(ingest.submit(message) for message in (refused, same, corrected, late)))
    assert [answer.status for answer in answers] == [
        IngestStatus.EVENT_ID_TAKEN,
        IngestStatus.EVENT_ID_TAKEN,
        IngestStatus.ACCEPTED,
        IngestStatus.EVENT_ID_TAKEN,
    ]
    await ingest.close()


async def test_a_request_proceeds_when_the_database_refuses_the_first_of_its_key(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    bad, good = keyed(scene, event_type="a\ud800b"), keyed(scene, OTHER_BODY)
    answers = await asyncio.gather(ingest.submit(bad), ingest.submit(good), return_exceptions=True)
    assert isinstance(answers[0], InvalidInput)
    assert isinstance(answers[1], Accepted)
    assert answers[1].status == IngestStatus.ACCEPTED
    await ingest.close()


async def test_a_cancelled_first_request_still_answers_the_others_of_its_key(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    gone = asyncio.create_task(ingest.submit(keyed(scene)))
    twin = asyncio.create_task(ingest.submit(keyed(scene)))
    await asyncio.sleep(0)  # both requests begin
    gone.cancel()
    assert (await twin).status == IngestStatus.REPLAYED
    assert (await ingest.submit(keyed(scene))).message_id == (await twin).message_id
    assert await scene.raw.count("message") == 1
    await ingest.close()


async def test_a_message_whose_caller_gave_up_before_its_commit_is_not_stored(scene: Scene) -> None:
    """The only commit waits for a lock. Its batch has many messages, so it waits longer than the other callers."""
    ingest = GroupCommit(scene.store, commits=1, timeout=1.0)
    batch = NewBatch(app_no=scene.app.no, messages=tuple(factory.new_messages(scene.app.no, 200)))
    late = factory.new_messages(scene.app.no, 3)
    async with no_writes(scene):
        committing = asyncio.create_task(ingest.submit_batch(batch))
        await asyncio.sleep(0)  # the commit begins
        answers = await asyncio.gather(*map(ingest.submit, late), return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailable}
        with pytest.raises(StoreUnavailable):
            await committing
        await ingest.close()  # the caller of the batch may give up a moment before the commit does
    assert not scene.store.writable
    assert (await ingest.submit(factory.new_message(scene.app.no))).status == IngestStatus.ACCEPTED
    assert scene.store.writable
    assert not any([await scene.raw.count("message", "id = $1", message.id) for message in late])
    await ingest.close()


@asynccontextmanager
async def no_writes(scene: Scene) -> AsyncIterator[None]:
    """Hold a lock that every commit of messages needs."""
    other = await open_raw(scene.url)
    await other.execute("BEGIN" if other.engine == "postgres" else "BEGIN IMMEDIATE")
    if other.engine == "postgres":
        await other.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
    yield
    await other.execute("ROLLBACK")
    await other.close()


async def test_answered_keys_are_forgotten(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    await asyncio.gather(*(ingest.submit(keyed(scene)) for _ in range(5)))
    await ingest.submit_batch(NewBatch(app_no=scene.app.no, messages=(), idempotency_key=KEY + b"2"))
    assert (ingest._twins, ingest._waiting, ingest._count, ingest._bytes) == ({}, {}, 0, 0)
    await ingest.close()


async def test_all_requests_with_one_key_learn_of_an_outage(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    await scene.store.close()
    answers = await asyncio.gather(*(ingest.submit(keyed(scene)) for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    scene.broken_on_purpose = True
    await ingest.close()


# ── batches ──


async def test_a_batch_is_a_commit_of_its_own(scene: Scene) -> None:
    """A batch is never mixed with other messages, and never split because of one of them."""
    ingest = GroupCommit(scene.store, commits=1)
    batch = NewBatch(app_no=scene.app.no, messages=tuple(factory.new_messages(scene.app.no, 30)))
    others = factory.new_messages(scene.app.no, 10)
    bad = factory.new_message(scene.app.no, event_type="a\ud800b")
    before = [asyncio.create_task(ingest.submit(message)) for message in [*others[:5], bad]]
    accepted, *answers = await asyncio.gather(
        ingest.submit_batch(batch), *(ingest.submit(message) for message in others[5:]), *before, return_exceptions=True
    )
    assert isinstance(accepted, BatchAccepted)
    assert {answer.status for answer in accepted.answers} == {IngestStatus.ACCEPTED}
    stamps = {answer.created_at for answer in accepted.answers}
    assert len(stamps) == 1
    assert stamps.isdisjoint({answer.created_at for answer in answers if isinstance(answer, Accepted)})
    assert await scene.raw.count("message") == 40
    await ingest.close()


async def test_a_batch_that_is_refused_leaves_the_others_alone(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)
    messages = (*factory.new_messages(scene.app.no, 3), factory.new_message(scene.app.no, event_type="a\ud800b"))
    refused, accepted = await asyncio.gather(
        ingest.submit_batch(NewBatch(app_no=scene.app.no, messages=messages)),
        ingest.submit(factory.new_message(scene.app.no)),
        return_exceptions=True,
    )
    assert isinstance(refused, InvalidInput)
    assert isinstance(accepted, Accepted)
    assert await scene.raw.count("message") == 1
    await ingest.close()


async def test_the_same_batch_twice_is_accepted_once(scene: Scene) -> None:
    ingest = GroupCommit(scene.store)

    def batch(body: bytes) -> NewBatch:
        messages = tuple(factory.new_messages(scene.app.no, 7))
        return NewBatch(app_no=scene.app.no, messages=messages, idempotency_key=KEY, idempotency_body=body)

    found = await asyncio.gather(*(ingest.submit_batch(batch(body)) for body in (BODY, BODY, OTHER_BODY)))
    assert [accepted.status for accepted in found] == [
        IngestStatus.ACCEPTED,
        IngestStatus.REPLAYED,
        IngestStatus.KEY_REUSED,
    ]
    assert found[0].answers == found[1].answers
    assert await scene.raw.count("message") == 7
    await ingest.close()
