"""Values that SQLite cannot store. One bad row does not affect the other rows of its batch."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hookline.errors import InvalidInput
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import DeliveryState
from hookline.model.verdicts import Result
from tests.support import factory
from tests.support.scene import Scene

TOO_BIG = 1 << 63
LONE = "half a pair: \ud83d"


def poison(result: Result, kind: str) -> Result:
    sent = result.sent
    match kind:
        case "status":
            return replace(result, sent=replace(sent, status=TOO_BIG))
        case "id":
            return replace(result, attempt_id=LONE)
        case _:
            raise AssertionError(kind)


async def leased(scene: Scene, count: int) -> list[LeasedDelivery]:
    await scene.endpoint()
    await scene.send(count)
    return await scene.claim()


@pytest.mark.parametrize("kind", ["status", "id"])
@pytest.mark.parametrize("place", [0, 3, 6])
async def test_one_bad_row_is_refused_and_the_others_are_recorded(scene: Scene, kind: str, place: int) -> None:
    jobs = await leased(scene, 7)
    results = factory.all_delivered(jobs)
    results[place] = poison(results[place], kind)
    report = await scene.record(*results)
    assert (report.recorded, report.stale, report.refused) == (6, 0, (jobs[place].delivery_id,))
    assert await scene.raw.count("delivery_done") == 6
    assert await scene.raw.count("attempt") == 7
    assert await scene.state(jobs[place].message_id) == DeliveryState.DEAD


@pytest.mark.parametrize("field", ["detail", "address"])
async def test_a_lone_surrogate_in_a_response_does_not_prevent_the_record(scene: Scene, field: str) -> None:
    jobs = await leased(scene, 3)
    results = factory.all_delivered(jobs)
    results[1] = replace(results[1], sent=replace(results[1].sent, **{field: LONE, "headers": {"x": LONE}}))
    report = await scene.record(*results)
    assert (report.recorded, report.refused) == (3, ())
    (attempt,) = await scene.store.history.attempts(jobs[1].message_id)
    assert getattr(attempt, field).startswith("half a pair: ")


async def test_a_response_that_the_database_refuses_is_left_out(scene: Scene) -> None:
    jobs = await leased(scene, 3)
    results = factory.all_delivered(jobs)
    results[2] = replace(results[2], sent=replace(results[2].sent, body=TOO_BIG))
    report = await scene.record(*results)
    assert (report.recorded, report.refused) == (3, ())
    (attempt,) = await scene.store.history.attempts(jobs[2].message_id)
    assert (attempt.response_body, attempt.detail, attempt.status_code) == (b"", "", 200)


async def test_a_batch_with_a_message_that_cannot_be_stored_is_refused_as_a_whole(scene: Scene) -> None:
    await scene.endpoint()
    batch = [*factory.new_messages(scene.app.no, 2), factory.new_message(scene.app.no, event_type=LONE)]
    with pytest.raises(InvalidInput, match="cannot hold"):
        await scene.ingest(batch)
    assert await scene.raw.count("message") == await scene.raw.count("wake") == 0
    with pytest.raises(InvalidInput, match="cannot hold"):
        await scene.store.catalogue.application(scene.organization.id, LONE)
