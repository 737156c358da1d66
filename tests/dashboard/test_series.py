"""The data of charts: no event is lost, and bands have no gaps."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.dashboard.charts import circuit_band, series
from hookline.dashboard.page_context import RANGES, Range
from hookline.dashboard.parsers import instant
from hookline.errors import InvalidInput
from hookline.model.activity import Activity
from hookline.model.lanes import Lane, LaneEvent, LaneEventKind
from hookline.model.states import Circuit, EndpointStatus

NOW = datetime(2026, 3, 29, 1, 7, 23, 456_789, tzinfo=UTC)
K = LaneEventKind

instants_of_a_week = st.integers(0, 8 * 86_400).map(lambda seconds: NOW - timedelta(seconds=seconds))


@given(st.sampled_from([*RANGES.values()]), st.lists(st.tuples(st.integers(0, 700), st.integers(1, 9))))
def test_each_activity_is_counted_once_in_its_step(span: Range, given: list[tuple[int, int]]) -> None:
    grain = timedelta(seconds=span.grain)
    start = NOW - (NOW - datetime(1970, 1, 1, tzinfo=UTC)) % grain
    found = [Activity(at=start - ago * grain, delivered=many, retried=2 * many, dead=0) for ago, many in given]
    fine = series.steps(span, NOW)
    laid = series.laid_out(found, fine)
    inside = [each for each in found if each.at >= series.begins(span, NOW)]
    assert (sum(laid.delivered), sum(laid.retried)) == (
        sum(each.delivered for each in inside),
        sum(each.retried for each in inside),
    )
    assert len(laid.times) == span.steps
    assert laid.times[-1] <= NOW < laid.times[-1] + series.step(span)
    assert laid.times[-1] - laid.times[0] == (span.steps - 1) * series.step(span)

    steps = series.few_steps(span, NOW)
    assert steps.since == laid.times[0]
    small = series.laid_out([each for each in found if each.at >= steps.since], steps)
    assert (sum(small.delivered), sum(small.retried)) == (sum(laid.delivered), sum(laid.retried))
    assert [sum(filter(None, each.values)) for each in small.line()] == [
        sum(inside[: laid.over]) for inside in (laid.delivered, laid.retried) if any(inside[: laid.over])
    ]
    assert 15 <= steps.over <= series.FEW
    assert small.times[steps.over] == laid.times[fine.over]


@pytest.mark.parametrize("span", [pytest.param(each, id=each.name) for each in RANGES.values()])
def test_an_incomplete_step_does_not_look_like_a_drop_of_traffic(span: Range) -> None:
    steady = [Activity(at=NOW - each * series.step(span), delivered=9, retried=0, dead=0) for each in range(span.steps)]
    laid = series.laid_out(steady, series.steps(span, NOW))
    delivered, *_ = laid.curves()
    assert (len(delivered.values), delivered.values[-1]) == (span.steps, None)
    assert {*delivered.values} == {9, None}
    (small,) = series.laid_out(steady, series.few_steps(span, NOW)).line()
    assert small.values[-1] == max(filter(None, small.values))
    assert sum(laid.delivered) == 9 * span.steps  # every event is counted


@pytest.mark.parametrize("span", [pytest.param(each, id=each.name) for each in RANGES.values()])
def test_the_first_traffic_is_drawn_at_once(span: Range) -> None:
    """There was no earlier traffic, so the curve cannot seem to drop. New users look for their first message."""
    begun = [Activity(at=NOW, delivered=3, retried=0, dead=0)]
    delivered, *_ = series.laid_out(begun, series.steps(span, NOW)).curves()
    assert delivered.values == [*[0] * (span.steps - 1), 3]
    (small,) = series.laid_out(begun, series.few_steps(span, NOW)).line()
    assert small.values[-1] == 3
    # The next step is not drawn before the current step is complete.
    just = series.begins(span, NOW) + span.length  # a step begins at this moment
    delivered, *_ = series.laid_out(
        [Activity(at=just - series.step(span), delivered=3, retried=0, dead=0)], series.steps(span, just)
    ).curves()
    assert delivered.values[-2:] == [3, None]


def test_a_chart_moves_on_by_whole_steps() -> None:
    span = RANGES["1h"]
    assert series.begins(span, NOW) == series.begins(span, NOW + timedelta(seconds=30))
    assert series.begins(span, NOW + timedelta(seconds=60)) == series.begins(span, NOW) + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("part", "words"),
    [(None, "–"), (0.0, "0%"), (1.0, "100%"), (0.99999, "99.9%"), (0.00001, "0.1%"), (0.5, "50.0%")],
)
def test_a_share_is_never_rounded_to_0_or_100_percent(part: float | None, words: str) -> None:
    assert series.percent(part) == words


# ── the band ──────────────────────────────────────────────────────────────────────────────────────────────────────


def event(kind: K, at: datetime) -> LaneEvent:
    return LaneEvent(endpoint_no=1, at=at, kind=kind, cause="a cause")


@given(st.lists(st.tuples(st.sampled_from([*K]), instants_of_a_week)), st.sampled_from([*Circuit]))
def test_a_band_has_no_gaps_and_no_overlaps(given: list[tuple[K, datetime]], now: Circuit) -> None:
    events = sorted((event(kind, at) for kind, at in given), key=lambda each: each.at, reverse=True)
    since = NOW - timedelta(days=7)
    found = circuit_band.stretches(events, Lane(endpoint_no=1, app_no=1, circuit=now), since, NOW)
    assert (found[0].since, found[-1].until) == (since, NOW)
    assert all(one.until == other.since for one, other in pairwise(found))


def words(events: list[LaneEvent], lane: Lane) -> list[str]:
    return [each.words for each in circuit_band.stretches(events, lane, NOW - timedelta(hours=1), NOW)]


def test_the_state_before_the_first_event_follows_from_that_event() -> None:
    lane = Lane(endpoint_no=1, app_no=1)
    ago = [NOW - timedelta(minutes=minutes) for minutes in (10, 20, 30)]
    assert words([], lane) == ["circuit closed"]
    assert words([event(K.CIRCUIT_CLOSED, ago[0]), event(K.CIRCUIT_RECOVERING, ago[1])], lane) == [
        "circuit open",
        "circuit recovering",
        "circuit closed",
    ]
    paused = [event(K.ENDPOINT_RESUMED, ago[0]), event(K.CIRCUIT_RESET, ago[1]), event(K.ENDPOINT_PAUSED, ago[2])]
    assert words(paused, lane) == ["circuit open", "paused", "circuit closed"]
    stopped = Lane(endpoint_no=1, app_no=1, status=EndpointStatus.DISABLED)
    assert words([], stopped) == ["disabled"]


def test_the_state_before_the_first_event_follows_from_an_older_event() -> None:
    """A circuit can open while it recovers, a reset can clear the pace of a closed one, and a paused endpoint can be
    disabled."""
    lane = Lane(endpoint_no=1, app_no=1)
    ago = [NOW - timedelta(minutes=minutes) for minutes in (10, 70, 80)]
    reopened = [event(K.CIRCUIT_OPENED, ago[0]), event(K.CIRCUIT_RECOVERING, ago[1]), event(K.CIRCUIT_OPENED, ago[2])]
    assert words(reopened, lane) == ["circuit recovering", "circuit open"]
    assert words([event(K.CIRCUIT_RESET, ago[0]), event(K.CIRCUIT_CLOSED, ago[1])], lane) == ["circuit closed"]
    assert words([event(K.ENDPOINT_DISABLED, ago[0]), event(K.ENDPOINT_PAUSED, ago[1])], lane) == ["paused", "disabled"]


@given(
    st.lists(st.tuples(st.sampled_from([*K]), instants_of_a_week)),
    st.lists(st.tuples(instants_of_a_week, st.integers(0, 9_000))),
)
def test_probes_leave_no_gaps_and_no_overlaps(
    given: list[tuple[K, datetime]], sent: list[tuple[datetime, int]]
) -> None:
    events = sorted((event(kind, at) for kind, at in given), key=lambda each: each.at, reverse=True)
    probes = [(at, at + timedelta(seconds=took)) for at, took in sent]
    since = NOW - timedelta(days=7)
    found = circuit_band.stretches(events, Lane(endpoint_no=1, app_no=1, circuit=Circuit.OPEN), since, NOW, probes)
    assert (found[0].since, found[-1].until) == (since, NOW)
    assert all(one.until == other.since for one, other in pairwise(found))


def test_a_circuit_is_half_open_while_a_probe_is_under_way() -> None:
    ago = [NOW - timedelta(minutes=minutes) for minutes in (10, 20, 30)]
    lane = Lane(
        endpoint_no=1,
        app_no=1,
        circuit=Circuit.HALF_OPEN,
        probe_at=NOW + timedelta(seconds=55),
        status=EndpointStatus.ACTIVE,
    )
    events = [event(K.CIRCUIT_PROBE_FAILED, ago[0]), event(K.CIRCUIT_OPENED, ago[2])]
    probes = [(ago[1], ago[0]), *circuit_band.probes([], lane, 60.0, NOW)]
    found = circuit_band.stretches(events, lane, NOW - timedelta(hours=1), NOW, probes)
    assert [(each.words, each.since) for each in found] == [
        ("circuit closed", NOW - timedelta(hours=1)),
        ("circuit open", ago[2]),
        ("circuit half-open", ago[1]),
        ("circuit open", ago[0]),
        ("circuit half-open", NOW - timedelta(seconds=5)),
    ]


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_times_of_browsers_and_scripts_are_read() -> None:
    expected = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    for text in ("2026-03-01T12:30", "2026-03-01T12:30Z", "2026-03-01T14:30+02:00", "2026-03-01 12:30:00"):
        assert instant("since", text) == expected


@given(st.text())
def test_any_text_is_a_time_or_is_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert instant("since", text).tzinfo == UTC
