"""A real Hookline delivers to an application that uses `hookline.receive`: a handler that is too slow, and many copies
at once.

The test checks the receiver's half of at-least-once delivery. However often an event is sent, it has one effect, and
the sender gets its answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from standardwebhooks import Webhook

from hookline.model.states import DeliveryState, ErrorKind
from tests.support.duplicates import send_copies
from tests.support.receiving import Receiving, sending, settings, until

LEASE = 5  # seconds
RATE = 200  # copies per second
SECONDS = 10 if os.environ.get("HOOKLINE_TEST_FULL") else 1


# ── slower than the sender waits ──────────────────────────────────────────────────────────────────────────────────


async def test_a_handler_slower_than_the_senders_deadline_ends_delivered_with_one_effect(
    keys: str, tmp_path: Path
) -> None:
    with Receiving(settings(keys, tmp_path, lease=LEASE), tmp_path) as receiving:
        await receiving.start()
        async with sending(receiving, tmp_path) as sent:

            async def turned_away() -> bool:
                """Return whether the handler works for longer than its first lease. The sender retries once a second,
                and gets a 409 for each retry."""
                return (await sent.statuses()).count(409) >= LEASE

            await until(turned_away)
            assert receiving.steps("begun") == [sent.message_id]
            assert receiving.steps("effect") == []
            receiving.open("effect", "answer")

            assert await sent.ends() == DeliveryState.DELIVERED
            first, *middle, last = await sent.attempts()
        assert (first.error, last.status_code) == (ErrorKind.TIMEOUT, 200)
        assert msgspec.json.decode(last.response_body) == {"paid": sent.message_id}
        for attempt in middle:
            assert attempt.outcome == "retry"
            if attempt.error == ErrorKind.TIMEOUT:
                continue  # a receiver that stalls gives no answer in time
            assert attempt.status_code == 409
            assert int(attempt.response_headers["retry-after"]) >= 1
            assert attempt.response_headers["content-type"] == "application/problem+json"
        assert receiving.steps("begun") == receiving.steps("effect") == [sent.message_id]


# ── many copies at once ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(120)
async def test_many_copies_at_once_get_200_or_409_and_have_one_effect(keys: str, tmp_path: Path) -> None:
    """`HOOKLINE_TEST_FULL=1` sends 200 copies a second for 10 seconds. The handler runs for a part of that time."""
    given = settings(keys, tmp_path, lease=60)
    body = b'{"type": "order.paid", "order": 7}'
    with Receiving(given, tmp_path) as receiving:
        await receiving.start()
        count = RATE * SECONDS

        def answered(so_far: int) -> None:
            if so_far == count // 4:
                receiving.open("effect", "answer")  # until then the handler runs, and copies find its key in use

        signed = _signer(given.secret, body)
        copies = await send_copies(receiving.url, body, signed, rate=RATE, count=count, answered=answered)
    print(f"{len(copies.answers)} copies in {copies.took:.1f} s: {copies.statuses()}")
    assert set(copies.statuses()) == {200, 409}, receiving.output()
    assert len(copies.answers) == count
    assert copies.statuses()[409] >= count // 4
    assert len({answer.body for answer in copies.answers if answer.status == 200}) == 1
    assert len({answer.headers["x-process"] for answer in copies.answers if answer.status == 200}) == 1
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in copies.answers if answer.status == 409)
    assert receiving.steps("begun") == receiving.steps("effect") == ["evt_storm"]


def _signer(secret: str, body: bytes) -> Callable[[], Mapping[str, str]]:
    """Sign as a sender does: the same id, and a new timestamp and signature for each attempt. The signature comes from
    another library."""
    webhook = Webhook(secret)

    def signed() -> Mapping[str, str]:
        now = datetime.now(UTC)
        return {
            "content-type": "application/json",
            "webhook-id": "evt_storm",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": webhook.sign("evt_storm", now, body.decode()),
        }

    return signed
