"""The table of state transitions: complete, as designed, and the same in `docs/explanation/lifecycle.md`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import IllegalMove
from hookline.model.states import ACTIVE, MOVES, OPEN, WAITING, DeliveryState, Reason, move

S = DeliveryState
LIFECYCLE = Path(__file__).parents[2] / "docs" / "explanation" / "lifecycle.md"

LEGAL = {
    (S.PENDING, S.DELIVERING),
    (S.PENDING, S.DEAD),
    (S.SCHEDULED, S.DELIVERING),
    (S.SCHEDULED, S.DEAD),
    (S.DELIVERING, S.DELIVERED),
    (S.DELIVERING, S.SCHEDULED),
    (S.DELIVERING, S.DEAD),
    (S.DELIVERING, S.PENDING),
    (S.DEAD, S.PENDING),
    (S.DEAD, S.RESOLVED),
    (S.RESOLVED, S.PENDING),
    (S.QUEUED, S.PENDING),
    (S.QUEUED, S.DEAD),
    (S.DEAD, S.QUEUED),
    (S.RESOLVED, S.QUEUED),
}


@pytest.mark.parametrize("before", S)
@pytest.mark.parametrize("after", S)
def test_a_move_is_legal_or_raises(before, after):
    if (before, after) in LEGAL:
        assert move(before, after) is after
    else:
        with pytest.raises(IllegalMove, match=f"from {before.name.lower()} to {after.name.lower()}"):
            move(before, after)


def test_the_numbers_are_what_the_indexes_of_the_database_say():
    assert {state for state in S if state < 2} == WAITING
    assert S.DELIVERING == 2
    assert {state for state in S if state < 3} == ACTIVE == {*WAITING, S.DELIVERING}
    assert S.QUEUED == 6
    assert {*ACTIVE, S.QUEUED} == OPEN


def test_only_a_lease_leads_to_delivered():
    assert [before for before in S if S.DELIVERED in MOVES[before]] == [S.DELIVERING]


def test_from_every_state_but_delivered_a_delivery_can_still_arrive():
    reached = {S.DELIVERED}
    while grown := {before for before in S if MOVES[before] & reached} - reached:
        reached |= grown
    assert reached == set(S)


@given(st.lists(st.sampled_from(S), max_size=30))
def test_a_delivered_delivery_stays_delivered(wishes):
    state = S.DELIVERED
    for wish in wishes:
        with pytest.raises(IllegalMove):
            move(state, wish)


def test_the_lifecycle_page_has_the_same_table_of_moves():
    section = LIFECYCLE.read_text(encoding="utf-8").split("## Moves", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| .+ \|$", section, re.MULTILINE)
    documented = [(S[before.upper()], S[after.upper()]) for before, after in rows if before != "from"]
    assert sorted(documented) == sorted(LEGAL)
    assert {(before, after) for before in S for after in MOVES[before]} == LEGAL


def test_the_lifecycle_diagram_draws_the_same_moves():
    diagram = LIFECYCLE.read_text(encoding="utf-8").split("```mermaid\nstateDiagram-v2\n", 1)[1].split("```", 1)[0]
    arrows = re.findall(r"^\s*(\w+) --> (\w+)", diagram, re.MULTILINE)
    assert {(S[before.upper()], S[after.upper()]) for before, after in arrows} == LEGAL


def test_the_lifecycle_page_explains_every_reason():
    section = LIFECYCLE.read_text(encoding="utf-8").split("## Dead letters", 1)[1]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [str(reason) for reason in Reason]
