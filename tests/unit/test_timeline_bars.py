"""The bars of a timeline: as wide as asked for, with every outage, and starting with the earlier state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hookline.cli import timeline
from hookline.model.actors import Actor, ActorKind
from hookline.model.lanes import LaneEvent, LaneEventKind

K = LaneEventKind
START = datetime(2026, 3, 4, 6, tzinfo=UTC)
END = START + timedelta(hours=10)
HAND = Actor(kind=ActorKind.COMMAND_LINE)


def event(kind: LaneEventKind, hours: float, actor: Actor | None = None) -> LaneEvent:
    return LaneEvent(endpoint_no=3, at=START + timedelta(hours=hours), kind=kind, cause="", actor=actor)


def drawn(*events: LaneEvent, width: int = 10) -> dict[str, str]:
    return dict(timeline.bands(events, START, END, width))


def test_a_timeline_without_events_has_one_state() -> None:
    assert drawn() == {"circuit": "─" * 10, "": "─ closed"}


def test_an_outage_is_drawn_from_start_to_end() -> None:
    found = drawn(
        event(K.CIRCUIT_OPENED, 2.0),
        event(K.CIRCUIT_PROBE_FAILED, 3.5),
        event(K.CIRCUIT_RECOVERING, 5.0),
        event(K.CIRCUIT_CLOSED, 7.0),
    )
    assert found["circuit"] == "──███▒▒───"
    assert found["probes"] == "   ╵ ╵"
    assert found[""] == "─ closed   ▒ recovering   █ open   ╵ probe (half-open)"


def test_a_minute_within_a_day_is_visible() -> None:
    found = drawn(event(K.CIRCUIT_OPENED, 4.21), event(K.CIRCUIT_RESET, 4.22))
    assert found["circuit"] == "────█─────"


def test_the_earlier_state_continues() -> None:
    long_ago = event(K.CIRCUIT_OPENED, -90.0), event(K.ENDPOINT_DISABLED, -80.0)
    found = drawn(*long_ago, event(K.ENDPOINT_ENABLED, 5.0))
    assert found["circuit"] == "█" * 10
    assert found["status"] == "█████─────"
    assert "probes" not in found


def test_status_and_pace_are_drawn_where_they_changed() -> None:
    found = drawn(event(K.LANE_SLOWED, 1.0), event(K.ENDPOINT_PAUSED, 8.0), event(K.CIRCUIT_RESET, 3.0))
    assert found["status"] == "────────░░"
    assert found["pace"] == "─▒▒───────"
    assert list(found) == ["circuit", "status", "pace", ""]


def test_closing_by_hand_is_not_drawn_as_a_probe() -> None:
    assert "probes" not in drawn(event(K.CIRCUIT_OPENED, 1.0, HAND), event(K.CIRCUIT_RECOVERING, 2.0, HAND))


@given(
    st.lists(st.tuples(st.sampled_from(LaneEventKind), st.floats(-5, 10)), max_size=30),
    st.integers(1, 120),
)
def test_every_band_is_as_wide_as_asked_for_and_shows_every_state(
    happened: list[tuple[LaneEventKind, float]], width: int
) -> None:
    events = [event(kind, hours) for kind, hours in sorted(happened, key=lambda each: each[1])]
    found = drawn(*events, width=width)
    for aspect in timeline.ASPECTS:
        if (line := found.get(aspect.name)) is not None:
            stretches = timeline.stretches(aspect, events, START, END)
            assert len(line) == width
            worst = max((state for state, _, _ in stretches), key=list(timeline.MARKS).index)
            assert timeline.MARKS[worst] in line
    assert len(found.get("probes", "")) <= width
