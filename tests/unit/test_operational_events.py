"""Which results are told of. The rest of it is tested where it is written: tests/store/test_operational.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.model import LeasedDelivery
from hookline.rules.operational_events import DESCRIPTIONS, FAILING, Kind, of_lanes, of_results, recovers
from tests.support import factory
from tests.unit.test_outcomes import job


def tried(sent: int, *, attempts: int | None = None, trigger: int = 0) -> LeasedDelivery:
    return job(7, sent=sent, attempts=sent if attempts is None else attempts, trigger=trigger)


def test_what_goes_well_is_not_told() -> None:
    assert of_results(factory.delivered(tried(sent)) for sent in range(FAILING)) == []


def test_the_fourth_failure_alone_is_told() -> None:
    found = of_results(factory.retry(tried(sent)) for sent in range(10))
    assert [(each.kind, each.sent) for each in found] == [(Kind.ATTEMPT_FAILING, FAILING)]


def test_a_death_is_not_a_failing_too() -> None:
    (found,) = of_results([factory.dead(tried(FAILING - 1))])
    assert found.kind == Kind.ATTEMPT_EXHAUSTED


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (tried(FAILING - 1), False),
        (tried(FAILING), True),
        (tried(1, attempts=0, trigger=1), True),  # a dead letter that was replayed
        (tried(2, attempts=1, trigger=1), True),
        (tried(1, attempts=1, trigger=1), False),  # sent again by hand
        (tried(0, trigger=1), False),
        (tried(1, attempts=0), False),  # a failed probe
    ],
)
def test_recovery(given: LeasedDelivery, expected: bool) -> None:
    assert recovers(factory.delivered(given)) is expected
    assert not recovers(factory.retry(given))
    assert not recovers(factory.dead(given))


def test_every_kind_is_described() -> None:
    assert set(DESCRIPTIONS) == set(Kind)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "operational-webhooks.md").read_text(encoding="utf-8")
    assert [kind for kind in Kind if f"`{kind}`" not in page] == []


def test_no_events_no_notes() -> None:
    assert of_lanes([]) == []
