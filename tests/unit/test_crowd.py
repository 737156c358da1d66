"""What a worker remembers of the lanes that it passed over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hookline.model import ClaimBatch, LeasedDelivery
from hookline.rules.claim.budgets import Crowd

NOW = datetime(2031, 5, 7, 11, 13, 17, tzinfo=UTC)


def a_job(endpoint_no: int, app_no: int) -> LeasedDelivery:
    return LeasedDelivery(
        delivery_id=endpoint_no * 10,
        claim=5,
        message_id="msg_7",
        app_no=app_no,
        endpoint_no=endpoint_no,
        revision=1,
        event_type="order.paid",
        payload=b"{}",
        attempts=0,
        sent=0,
        accepted_at=NOW,
        expires_at=NOW + timedelta(hours=3),
        claimed_at=NOW,
        lease_until=NOW + timedelta(minutes=1),
        due_at=NOW,
        epoch=0,
        counted=False,
        probe=False,
        trigger=0,
    )


def a_batch(
    *jobs: LeasedDelivery, crowded: tuple[int, ...] = (), crowded_apps: dict[int, int] | None = None
) -> ClaimBatch:
    return ClaimBatch(jobs=list(jobs), now=NOW, next_at=None, crowded=crowded, crowded_apps=crowded_apps or {})


def test_a_lane_waits_for_one_of_its_own() -> None:
    crowd = Crowd()
    crowd.note(a_batch(crowded=(11, 12)))
    assert crowd.woken_by([a_job(13, 1)]) == set()
    assert crowd.woken_by([a_job(11, 1), a_job(11, 1)]) == {11}
    crowd.forget({11})
    assert (crowd.woken_by([a_job(11, 1)]), len(crowd)) == (set(), 1)


def test_a_lane_of_a_large_application_waits_for_any_of_it_and_its_turn() -> None:
    """As many go on as slots were given back, in the order in which they were passed over."""
    crowd = Crowd()
    crowd.note(a_batch(crowded_apps={21: 1, 22: 1, 31: 2}))
    crowd.note(a_batch(crowded_apps={23: 1, 21: 1}))
    assert len(crowd) == 4
    woken = crowd.woken_by([a_job(99, 1), a_job(98, 1), a_job(97, 3)])
    assert woken == {21, 22}
    assert crowd.woken_by([a_job(99, 1)]) == {21}  # nothing is forgotten before it is recorded
    crowd.forget(woken)
    assert crowd.woken_by([a_job(99, 1), a_job(99, 1), a_job(99, 2)]) == {23, 31}


def test_who_got_something_waits_no_more() -> None:
    crowd = Crowd()
    crowd.note(a_batch(crowded_apps={21: 1, 22: 1}))
    crowd.note(a_batch(a_job(21, 1)))
    assert (len(crowd), crowd.woken_by([a_job(50, 1), a_job(51, 1)])) == (1, {22})


def test_nobody_waits_in_an_empty_crowd() -> None:
    crowd = Crowd()
    crowd.note(a_batch(a_job(21, 1)))
    assert (len(crowd), crowd.woken_by([a_job(21, 1)])) == (0, set())
    crowd.forget(set())
