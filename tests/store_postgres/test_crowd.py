"""A claim in a crowd of silent lanes searches twice. Other transactions commit between its two searches."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hookline.store.postgres import PostgresStore
from tests.store.test_silent_crowd import claim, crowd, other
from tests.support.scene import Scene


async def test_a_message_that_is_accepted_between_the_two_searches_hides_no_older_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await other(scene)
    await crowd(scene)
    (older,) = await scene.send(1, channels=["other"])
    parts = cast(PostgresStore, scene.store)._claim
    search = parts._claim_lanes

    async def search_later(*given: Any) -> list[Any]:
        await scene.send(1, channels=["other"])
        # The second search reads the oldest wake tokens. Its transaction began before this message was accepted.
        await scene.raw.execute(
            "INSERT INTO wake (app_no, endpoint_no, at, floor) SELECT app_no, endpoint_no, at - interval '1.5 s', floor"
            " FROM wake WHERE endpoint_no = $1 ORDER BY at DESC LIMIT 1",
            known.no,
        )
        return await search(*given)

    monkeypatch.setattr(parts, "_claim_lanes", search_later)
    jobs = await claim(scene, known)
    monkeypatch.undo()
    jobs += await claim(scene, known)
    assert older in {job.message_id for job in jobs}
    assert len([job for job in jobs if job.endpoint_no == known.no]) == 2
