"""Backoff: delays stay within their limits for every policy, and `span` is the sum that deliveries really wait."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.model.policy import PolicyOverride, RetryPolicy, Strategy
from hookline.rules import backoff

seeds = st.integers(0, 2**32).map(random.Random)
seconds = st.floats(0.0, 1e7)
policies = st.builds(
    RetryPolicy,
    strategy=st.sampled_from(Strategy),
    base=seconds,
    factor=st.floats(0.0, 100.0),
    cap=seconds,
    max_attempts=st.integers(1, 10**12),
    max_age=seconds,
    schedule=st.lists(seconds, max_size=6).map(tuple),
)
overrides = st.builds(
    PolicyOverride,
    strategy=st.none() | st.sampled_from(Strategy),
    base=st.none() | seconds,
    cap=st.none() | seconds,
    max_attempts=st.none() | st.integers(1, 50),
    schedule=st.none() | st.just((7.0, 70.0)),
)


def bound(policy: RetryPolicy) -> float:
    return max((policy.base, *policy.schedule)) if policy.strategy == Strategy.FIXED else policy.cap


@given(policy=policies, retry=st.integers(0, 10**400), last=st.floats(0.0, 1e300), chance=seeds)
def test_a_delay_is_never_negative_or_above_its_limit(policy, retry, last, chance):
    assert 0.0 <= backoff.delay(policy, retry, last, chance) <= bound(policy)


@given(base=st.floats(0.01, 60), factor=st.floats(1.0, 10.0), cap=seconds, retry=st.integers(0, 5000), chance=seeds)
def test_full_jitter_stays_under_a_ceiling_that_grows_to_the_cap(base, factor, cap, retry, chance):
    policy = RetryPolicy(base=base, factor=factor, cap=cap)
    ceiling = backoff.ceiling(policy, retry)
    assert backoff.ceiling(policy, 0) == min(cap, base)
    assert ceiling <= backoff.ceiling(policy, retry + 1) <= cap
    assert 0.0 <= backoff.delay(policy, retry, 0.0, chance) <= ceiling


def test_full_jitter_begins_at_the_base_and_triples():
    policy = RetryPolicy()
    assert [backoff.ceiling(policy, n) for n in range(5)] == [1.0, 3.0, 9.0, 27.0, 81.0]
    assert [backoff.ceiling(policy, n) for n in (9, 10, 10_000)] == [19683.0, 21600.0, 21600.0]


def test_full_jitter_is_spread_evenly_over_its_whole_range():
    policy, chance = RetryPolicy(base=8.0, factor=2.0, cap=500.0), random.Random(11)
    drawn = [backoff.delay(policy, 3, 0.0, chance) for _ in range(20_000)]
    assert fmean(drawn) == pytest.approx(32.0, rel=0.02)
    quarters = [sum(16.0 * part <= wait < 16.0 * (part + 1) for wait in drawn) for part in range(4)]
    assert all(count == pytest.approx(5_000, rel=0.05) for count in quarters)


@given(base=st.floats(0.0, 100.0), cap=st.floats(0.0, 1e5), last=st.floats(0.0, 1e5), chance=seeds)
def test_decorrelated_jitter_lies_between_the_base_and_three_times_the_last(base, cap, last, chance):
    policy = RetryPolicy(strategy=Strategy.DECORRELATED, base=base, cap=cap)
    wait = backoff.delay(policy, 4, last, chance)
    assert min(base, cap) <= wait <= min(cap, 3.0 * max(base, last))


def test_decorrelated_jitter_grows_from_the_last_delay_not_from_the_number_of_the_retry():
    policy, chance = RetryPolicy(strategy=Strategy.DECORRELATED, base=2.0, cap=4000.0), random.Random(12)
    first = fmean(backoff.delay(policy, 9, 0.0, chance) for _ in range(20_000))
    later = fmean(backoff.delay(policy, 0, 30.0, chance) for _ in range(20_000))
    assert first == pytest.approx((2.0 + 6.0) / 2, rel=0.02)
    assert later == pytest.approx((2.0 + 90.0) / 2, rel=0.02)


@given(schedule=st.lists(seconds, min_size=1, max_size=8).map(tuple), retry=st.integers(0, 10**30), chance=seeds)
def test_a_fixed_schedule_is_followed_and_its_last_delay_repeats(schedule, retry, chance):
    policy = RetryPolicy(strategy=Strategy.FIXED, schedule=schedule, cap=3.0)
    assert backoff.delay(policy, retry, 5.0, chance) == schedule[min(retry, len(schedule) - 1)]


def test_a_fixed_schedule_without_delays_falls_back_to_the_base():
    policy = RetryPolicy(strategy=Strategy.FIXED, base=13.0)
    assert backoff.delay(policy, 3, 0.0, random.Random(1)) == 13.0


@given(base=policies, override=overrides)
def test_an_override_wins_field_by_field(base, override):
    merged = backoff.merge(base, override)
    for field in RetryPolicy.__struct_fields__:
        given_value = getattr(override, field)
        assert getattr(merged, field) == (getattr(base, field) if given_value is None else given_value)


def test_without_an_override_the_policy_itself_comes_back():
    policy = RetryPolicy(base=3.5)
    assert backoff.merge(policy, None) is policy
    assert backoff.merge(policy, PolicyOverride()) is policy


def test_every_field_of_a_policy_can_be_overridden():
    assert set(PolicyOverride.__struct_fields__) == set(RetryPolicy.__struct_fields__)


@given(policy=policies)
def test_the_expected_span_is_at_most_the_longest_and_that_at_most_the_time_budget(policy):
    expected, longest = backoff.span(policy)
    assert 0.0 <= expected <= longest * (1 + 1e-9) <= policy.max_age * (1 + 1e-9)


def total(policy: RetryPolicy, chance: random.Random) -> float:
    waited = last = 0.0
    for retry in range(policy.max_attempts - 1):
        last = backoff.delay(policy, retry, last, chance)
        waited += last
    return min(policy.max_age, waited)


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(),
        RetryPolicy(base=5.0, factor=2.0, cap=300.0, max_attempts=20),
        RetryPolicy(strategy=Strategy.DECORRELATED, base=1.5, max_attempts=9),
        RetryPolicy(strategy=Strategy.DECORRELATED, base=4.0, cap=120.0, max_attempts=25),
        RetryPolicy(strategy=Strategy.FIXED, schedule=(5.0, 300.0, 1800.0), max_attempts=8),
    ],
)
def test_the_span_equals_the_mean_wait_of_failing_deliveries(policy):
    chance = random.Random(13)
    expected, longest = backoff.span(policy)
    waited = [total(policy, chance) for _ in range(4_000)]
    assert max(waited) <= longest * (1 + 1e-9)
    assert fmean(waited) == pytest.approx(expected, rel=0.08)


def test_the_span_of_the_default_policy():
    assert backoff.span(RetryPolicy()) == (25_562.0, 51_124.0)
    assert backoff.span(RetryPolicy(max_attempts=1)) == (0.0, 0.0)
    assert backoff.span(RetryPolicy(max_age=90.0)) == (90.0, 90.0)


def test_the_lifecycle_page_gives_the_span_of_the_default_policy():
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "lifecycle.md").read_text(encoding="utf-8")
    expected, longest = (f"{span // 3600:.0f} h {span % 3600 // 60:.0f} min" for span in backoff.span(RetryPolicy()))
    assert f"| all retries together, expected | {expected} |" in page
    assert f"| all retries together, longest | {longest} |" in page
