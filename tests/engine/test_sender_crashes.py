"""The worker after a crash of its sender: only requests that may have arrived are attempts, and few of them count."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from hookline.engine.sender import process as sender_process
from hookline.model.policy import PolicyOverride
from hookline.model.states import Circuit, DeliveryState, ErrorKind, Reason
from hookline.rules.judge import MAX_UNCOUNTED
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene
from tests.support.sender_pid import sender_pid
from tests.support.working import LOOPBACK, settled, working

ONE_ATTEMPT = PolicyOverride(max_attempts=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        running.behave(Behaviour(hang=True))
        yield running


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that keeps dying is started again without a long pause."""
    monkeypatch.setattr(sender_process, "MAX_PAUSE", 0.1)


async def test_a_crash_of_the_sender_spends_no_attempt_of_any_request(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    async with working(scene.store, sender=replace(LOOPBACK, slots=2)):
        messages = await scene.send(6, policy=ONE_ATTEMPT)
        await receiver.arrived(2)
        receiver.behave(Behaviour())
        os.kill(sender_pid(), signal.SIGKILL)
        for message_id in messages:
            [delivery] = await settled(scene.store, message_id)
            assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 1)
    attempts = [one for message_id in messages for one in await scene.store.history.attempts(message_id)]
    assert len(attempts) == len(receiver.requests) == 8
    assert [one.error for one in attempts].count(ErrorKind.INTERRUPTED) == 2
    lane = await scene.lane(endpoint)
    assert (lane.failures, lane.circuit) == (0, Circuit.CLOSED)


async def test_a_request_that_always_crashes_the_sender_ends(scene: Scene, receiver: Receiver) -> None:
    await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        [message_id] = await scene.send(policy=PolicyOverride(max_attempts=2))
        for number in range(MAX_UNCOUNTED + 2):
            await receiver.arrived(number + 1)
            os.kill(sender_pid(), signal.SIGKILL)
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.reason) == (DeliveryState.DEAD, Reason.ATTEMPTS_EXHAUSTED)
    assert (delivery.attempts, delivery.sent) == (2, MAX_UNCOUNTED + 2) == (2, len(receiver.requests))
