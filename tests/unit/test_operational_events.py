"""Which results cause an operational event. tests/store/test_operational.py tests how the events are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.model.deliveries import LeasedDelivery
from hookline.rules.operational_events import DESCRIPTIONS, FAILING, Kind, of_lanes, of_results, recovers
from tests.support import factory
from tests.unit.test_outcomes import job


def tried(sent: int, *, attempts: int | None = None, trigger: int = 0) -> LeasedDelivery:
    return job(7, sent=sent, attempts=sent if attempts is None else attempts, trigger=trigger)


def test_a_success_causes_no_event() -> None:
    assert of_results(factory.delivered(tried(sent)) for sent in range(FAILING)) == []


def test_only_the_fourth_failure_causes_an_event() -> None:
    found = of_results(factory.retry(tried(sent)) for sent in range(10))
    assert [(each.kind, each.sent) for each in found] == [(Kind.ATTEMPT_FAILING, FAILING)]


def test_a_dead_letter_causes_no_failing_event() -> None:
    (found,) = of_results([factory.dead(tried(FAILING - 1))])
    assert found.kind == Kind.ATTEMPT_EXHAUSTED


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (tried(FAILING - 1), False),
        (tried(FAILING), True),
        (tried(1, attempts=0, trigger=1), True),  # a dead letter that was replayed
        (tried(2, attempts=1, trigger=1), True),
        (tried(1, attempts=1, trigger=1), False),  # resent by hand
        (tried(0, trigger=1), False),
        (tried(1, attempts=0), False),  # a failed probe
    ],
)
def test_only_a_success_after_trouble_counts_as_recovered(given: LeasedDelivery, expected: bool) -> None:
    assert recovers(factory.delivered(given)) is expected
    assert not recovers(factory.retry(given))
    assert not recovers(factory.dead(given))


def test_every_kind_is_described() -> None:
    assert set(DESCRIPTIONS) == set(Kind)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "operational-webhooks.md").read_text(encoding="utf-8")
    assert [kind for kind in Kind if f"`{kind}`" not in page] == []


def test_no_events_no_notes() -> None:
    assert of_lanes([]) == []
