"""Group commit: many callers, few transactions, each caller told of its own message."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from hookline.errors import InvalidInput
from hookline.flow.ingest import MOST_DELIVERIES, Ingest
from hookline.model import Accepted, IngestStatus
from tests.support import factory
from tests.support.scene import Scene


async def test_callers_share_a_commit_and_each_gets_its_own_answer(scene: Scene) -> None:
    await scene.endpoint()
    ingest = Ingest(scene.store)
    messages = factory.new_messages(scene.app.no, 200)
    answers = await asyncio.gather(*(ingest.submit(message) for message in messages))
    assert [answer.message_id for answer in answers] == [message.id for message in messages]
    assert {answer.status for answer in answers} == {IngestStatus.ACCEPTED}
    assert await scene.raw.count("delivery") == 200
    await ingest.close()


async def test_a_message_that_the_database_refuses_fails_alone(scene: Scene) -> None:
    ingest = Ingest(scene.store)
    good = factory.new_messages(scene.app.no, 20)
    bad = factory.new_message(scene.app.no, event_type="a\ud800b")
    answers = await asyncio.gather(
        *(ingest.submit(message) for message in [*good[:11], bad, *good[11:]]), return_exceptions=True
    )
    assert isinstance(answers[11], InvalidInput)
    assert sum(isinstance(answer, Accepted) for answer in answers) == 20


async def test_a_caller_that_went_away_does_not_disturb_the_others(scene: Scene) -> None:
    ingest = Ingest(scene.store)
    gone = asyncio.create_task(ingest.submit(factory.new_message(scene.app.no)))
    await asyncio.sleep(0)
    gone.cancel()
    answer = await ingest.submit(factory.new_message(scene.app.no))
    assert answer.status == IngestStatus.ACCEPTED
    with pytest.raises(asyncio.CancelledError):
        await gone
    await ingest.close()


async def test_applications_take_turns_and_a_wide_one_is_committed_apart(scene: Scene) -> None:
    """The wide application's messages came first; the narrow one's must not wait for all of them."""
    narrow = await scene.store.create_application(scene.organization.id, factory.new_application())
    ingest = Ingest(scene.store)
    ingest._fanned[scene.app.no] = MOST_DELIVERIES  # what it would have learned from the first message
    loop = asyncio.get_running_loop()
    for app_no in [scene.app.no] * 10 + [narrow.no] * 2:
        message = factory.new_message(app_no)
        ingest._waiting.setdefault(app_no, deque()).append((message, loop.create_future()))
        ingest._count += 1
        ingest._bytes += len(message.payload)
    groups = [[message.app_no for message, _ in ingest._next_group()] for _ in range(3)]
    assert groups == [[scene.app.no], [narrow.no], [scene.app.no]]


async def test_a_fault_of_ours_leaves_nobody_waiting(scene: Scene) -> None:
    ingest = Ingest(scene.store, commits=1)
    broken = asyncio.create_task(ingest.submit(factory.new_message(scene.app.no, channels=5)))
    good = asyncio.create_task(ingest.submit(factory.new_message(scene.app.no)))
    answers = await asyncio.wait_for(asyncio.gather(broken, good, return_exceptions=True), 10)
    assert isinstance(answers[0], Exception)
    assert isinstance(answers[1], Accepted)
    await ingest.close()
