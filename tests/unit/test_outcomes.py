"""How a batch of results changes lanes and rows."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.attempts import Timing
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import ErrorKind, Health, Reason
from hookline.model.verdicts import Dead
from hookline.rules.outcomes import (
    DETAIL_LIMIT,
    EARLIEST,
    LATEST,
    LONGEST,
    bare,
    buried,
    cause_of,
    clean,
    halves,
    moves_lane,
    outcome_name,
    outcomes_of,
    released_outcomes,
)
from tests.support import factory

NOW = factory.instant()


def job(number: int, **fields: object) -> LeasedDelivery:
    at = factory.instant()
    return replace(
        LeasedDelivery(
            delivery_id=number,
            claim=number * 3,
            message_id=f"msg_{number}",
            app_no=5,
            endpoint_no=number % 2,
            revision=4,
            event_type="order.paid",
            payload=b"{}",
            attempts=1,
            sent=2,
            accepted_at=at,
            expires_at=factory.instant(),
            claimed_at=factory.instant(),
            lease_until=factory.instant(),
            due_at=factory.instant(),
            epoch=6,
            counted=False,
            probe=False,
            trigger=0,
        ),
        **fields,
    )


def test_outcomes_are_in_order_by_endpoint() -> None:
    results = [factory.delivered(job(1)), factory.retry(job(2)), factory.dead(job(3)), factory.delivered(job(4))]
    outcomes = outcomes_of(results, NOW)
    assert {no: [outcome.health for outcome in found] for no, found in outcomes.items()} == {
        1: [results[0].judgement.health, results[2].judgement.health],
        0: [Health.BAD, Health.GOOD],
    }


def test_an_outcome_has_the_fields_of_its_claim() -> None:
    claimed = job(1, counted=True, probe=True, epoch=9)
    (outcome,) = outcomes_of([factory.delivered(claimed)], NOW)[1]
    assert (outcome.counted, outcome.probe, outcome.epoch) == (True, True, 9)
    assert (outcome.claimed_at, outcome.slow_down) == (claimed.claimed_at, False)
    (complaint,) = outcomes_of([factory.retry(claimed, slow_down=True)], NOW)[1]
    assert complaint.slow_down


def test_released_jobs_say_nothing_about_health() -> None:
    (outcome,) = released_outcomes([job(1, counted=True)])[1]
    assert (outcome.health, outcome.counted) == (Health.NONE, True)


def test_only_outcomes_that_change_a_lane_need_its_lock() -> None:
    assert not moves_lane(factory.delivered(job(1)))
    assert moves_lane(factory.delivered(job(1, counted=True)))
    assert moves_lane(factory.retry(job(1)))
    assert moves_lane(factory.dead(job(1), gone=True))
    assert moves_lane(factory.retry(job(1), health=Health.NONE, hold_until=factory.instant()))


def test_names_and_causes() -> None:
    assert [outcome_name(make(job(1))) for make in (factory.delivered, factory.retry, factory.dead)] == [
        "delivered",
        "retry",
        "dead",
    ]
    refused = replace(factory.retry(job(1)), sent=factory.failed(ErrorKind.REFUSED, detail="nobody listens"))
    assert cause_of(refused) == "refused: nobody listens"
    assert cause_of(replace(refused, sent=factory.answered(503, detail=""))) == "status 503"


def test_bare_keeps_only_fields_that_hookline_set() -> None:
    result = factory.delivered(job(1), body=b"theirs", headers={"x": "theirs"}, detail="theirs")
    sent = bare(result).sent
    assert (sent.body, sent.headers, sent.detail, sent.address) == (b"", {}, "", "")
    assert (sent.status, sent.started_at) == (result.sent.status, result.sent.started_at)


@given(st.integers(2, 50))
def test_splitting_a_batch_loses_no_result(count: int) -> None:
    results = [factory.delivered(job(number)) for number in range(count)]
    first, second = halves(results)
    assert [*first, *second] == results
    assert first
    assert second


@given(st.text(st.characters(), max_size=3000))
def test_clean_text_can_be_stored_anywhere(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert len(cleaned) <= DETAIL_LIMIT


def test_clean_keeps_good_text() -> None:
    assert clean("Ünïcode – fine") == "Ünïcode – fine"
    assert clean("a\x00b\ud800") == "a\ufffdb?"


@pytest.mark.parametrize(
    ("given", "kept"), [(1e300, LONGEST), (math.inf, LONGEST), (math.nan, 0.0), (-5.0, 0.0), (7.5, 7.5)]
)
def test_bare_bounds_a_delay(given: float, kept: float) -> None:
    result = factory.retry(job(1))
    verdict = replace(result.judgement.verdict, delay=given)
    after = bare(replace(result, judgement=replace(result.judgement, verdict=verdict))).judgement.verdict
    assert after == replace(verdict, delay=kept)


def test_bare_bounds_instants_and_times() -> None:
    far, early = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    sent = replace(factory.answered(503), started_at=early, timing=Timing(dns=-3, total=1 << 40))
    result = replace(factory.retry(job(1), hold_until=far), sent=sent)
    verdict = replace(result.judgement.verdict, at=far)
    after = bare(replace(result, judgement=replace(result.judgement, verdict=verdict)))
    assert after.judgement.hold_until == LATEST
    assert after.judgement.verdict == replace(verdict, at=LATEST)
    assert after.sent.started_at == EARLIEST
    assert (after.sent.timing.dns, after.sent.timing.total) == (0, (1 << 31) - 1)


def test_a_buried_outcome_keeps_the_job_and_nothing_else() -> None:
    result = factory.delivered(job(1, counted=True), body=b"theirs", detail="theirs")
    after = buried(result, "atmpt_new")
    assert (after.job, after.attempt_id) == (result.job, "atmpt_new")
    assert isinstance(after.judgement.verdict, Dead)
    assert after.judgement.verdict.reason == Reason.UNSENDABLE
    assert (after.judgement.health, after.judgement.gone) == (Health.NONE, False)
    assert (after.sent.status, after.sent.body, after.sent.started_at) == (None, b"", result.job.claimed_at)
