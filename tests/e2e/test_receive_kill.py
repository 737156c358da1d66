"""The receiving application is killed in the middle of its handler, while a real Hookline delivers to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hookline.model.states import DeliveryState
from tests.support.processes import PATIENT
from tests.support.receiving import Receiving, sending, settings, until

LEASE = 2.0  # seconds after which the restarted receiver may take the key


async def test_killed_before_the_effect_it_runs_again_after_the_lease_once(keys: str, tmp_path: Path) -> None:
    with Receiving(settings(keys, tmp_path, lease=LEASE), tmp_path) as receiving:
        await receiving.start()
        # No second request starts while the first one is open. If the handler runs twice, the kill is the reason.
        async with sending(receiving, tmp_path, **PATIENT) as sent:
            await until(_has_got_to(receiving, "begun"))
            receiving.kill()
            receiving.open("effect", "answer")
            await receiving.start()
            assert await sent.ends() == DeliveryState.DELIVERED
        assert receiving.steps("begun") == [sent.message_id] * 2
        assert receiving.steps("effect") == [sent.message_id]


@pytest.mark.parametrize("keys", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("with_inbox", "effects"), [(True, 1), (False, 2)], ids=["inbox", "middleware alone"])
async def test_killed_after_the_effect_only_an_inbox_knows_of_it(
    keys: str, tmp_path: Path, with_inbox: bool, effects: int
) -> None:
    """Without an inbox there are two effects, because nobody knows what the killed process did.
    docs/explanation/guarantees.md describes this gap."""
    with Receiving(settings(keys, tmp_path, lease=LEASE, inbox=with_inbox), tmp_path) as receiving:
        await receiving.start()
        receiving.open("effect")
        async with sending(receiving, tmp_path, **PATIENT) as sent:
            await until(_has_got_to(receiving, "effect"))
            receiving.kill()
            receiving.open("answer")
            await receiving.start()
            assert await sent.ends() == DeliveryState.DELIVERED
        assert receiving.steps("begun") == [sent.message_id] * 2
        assert receiving.steps("effect") == [sent.message_id] * effects


def _has_got_to(receiving: Receiving, step: str) -> Callable[[], Awaitable[bool]]:
    async def got_there() -> bool:
        return receiving.steps(step) != []

    return got_there
