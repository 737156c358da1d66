"""How a claim is shared between lanes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hookline.flow.claim import admissions, fair_quota
from hookline.flow.lane import Admission
from hookline.model import CircuitPolicy, Lane
from hookline.states import Circuit, EndpointStatus

NOW = datetime(2031, 5, 7, 11, 13, 17, tzinfo=UTC)


def decide(lanes: list[Lane], want: int, *, held: dict[int, int] | None = None, share: int = 1000) -> list[Admission]:
    return admissions(lanes, now=NOW, want=want, held=held or {}, share=share, policy=CircuitPolicy())


def healthy(count: int) -> list[Lane]:
    return [Lane(endpoint_no=number, app_no=7) for number in range(1, count + 1)]


@given(st.integers(1, 500), st.integers(1, 64))
def test_lanes_share_what_is_wanted_evenly_and_leave_nothing_over(want: int, count: int) -> None:
    quotas = [admission.quota for admission in decide(healthy(count), want)]
    assert sum(quotas) == want
    assert max(quotas) - min(quotas) <= 1


def test_nobody_shares_with_no_lanes() -> None:
    assert fair_quota(10, 0) == 0


def test_what_a_lane_may_not_take_goes_to_the_others() -> None:
    lanes = healthy(3)
    lanes[0] = Lane(endpoint_no=1, app_no=7, circuit=Circuit.OPEN, probe_at=NOW + timedelta(seconds=9))
    lanes[1] = Lane(endpoint_no=2, app_no=7, status=EndpointStatus.PAUSED)
    assert [admission.quota for admission in decide(lanes, 30)] == [0, 0, 30]


def test_a_lane_that_holds_its_share_of_the_worker_waits() -> None:
    quotas = [admission.quota for admission in decide(healthy(2), 20, held={1: 8, 2: 3}, share=8)]
    assert quotas == [0, 5]
