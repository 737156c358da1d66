"""Counters and histograms: how they add up, and how quantiles are read from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.model.measures import SECONDS, added, at_least, count, quantile
from hookline.observe.instruments import Counter, Histogram, snapshot


def test_a_counter_counts_by_its_labels() -> None:
    counter = Counter("x_total", "X.", "outcome")
    counter.add(2, "delivered")
    counter.add(1, "dead")
    counter.add(3, "delivered")
    counter.add(0, "retry")
    assert counter.values == {("delivered",): [5.0], ("dead",): [1.0]}


def test_a_counter_without_labels_starts_at_zero() -> None:
    assert Counter("x_total", "X.").values == {(): [0.0]}


def test_a_value_equal_to_a_bucket_bound_is_in_that_bucket() -> None:
    histogram = Histogram("x", "X.", (1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    assert histogram.of() == [1.0, 2.0, 1.0, 13.5]


def test_snapshots_of_processes_add_up() -> None:
    one, other = Counter("x_total", "X.", "a"), Counter("x_total", "X.", "a")
    one.add(1, "p")
    other.add(2, "p")
    other.add(4, "q")
    total = added([snapshot([one]), snapshot([other])])
    assert {series.labels: series.values for series in total["x_total"].series} == {("p",): [3.0], ("q",): [4.0]}


def test_buckets_of_another_release_are_left_out() -> None:
    one, other = Histogram("x", "X.", (1.0, 2.0)), Histogram("x", "X.", (1.0,))
    one.observe(1)
    other.observe(1)
    assert added([snapshot([one]), snapshot([other])])["x"].series[0].values == [1.0, 0.0, 0.0, 1.0]


def test_the_lower_bound_of_a_quantile_is_the_start_of_its_bucket() -> None:
    histogram = Histogram("x", "X.", (1.0, 2.0))
    for value, part, known in ((0.5, 1.0, 0.0), (1.5, 1.0, 1.0), (9.0, 0.5, 1.0), (9.0, 1.0, 2.0)):
        histogram.observe(value)
        assert at_least(part, histogram.of(), (1.0, 2.0)) == known


def test_a_quantile_lies_in_the_bucket_of_its_value() -> None:
    histogram = Histogram("x", "X.", SECONDS)
    for value in [0.003] * 90 + [3.0] * 10:
        histogram.observe(value)
    assert quantile(0.5, histogram.of(), SECONDS) == pytest.approx(0.0025 + 0.0025 * 50 / 90)
    assert quantile(0.95, histogram.of(), SECONDS) == pytest.approx(3.75)
    assert quantile(0.5, Histogram("x", "X.", SECONDS).of(), SECONDS) is None


def test_a_value_above_every_bound_counts_as_the_last_bound() -> None:
    histogram = Histogram("x", "X.", (1.0, 2.0))
    histogram.observe(100.0)
    assert quantile(0.99, histogram.of(), (1.0, 2.0)) == 2.0


@given(st.lists(st.floats(min_value=0.0, max_value=90_000.0), min_size=1), st.floats(min_value=0.0, max_value=1.0))
def test_every_value_is_counted_once_and_quantiles_stay_within_the_bounds(values: list[float], part: float) -> None:
    histogram = Histogram("x", "X.", SECONDS)
    for value in values:
        histogram.observe(value)
    assert count(histogram.of()) == len(values)
    found = quantile(part, histogram.of(), SECONDS)
    assert found is not None
    assert 0.0 <= found <= SECONDS[-1]


@given(st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False) | st.sampled_from(SECONDS), max_size=300))
def test_adding_many_values_equals_adding_them_one_by_one(values: list[float]) -> None:
    together = Histogram("x", "X.", SECONDS, "kind")
    apart = Histogram("x", "X.", SECONDS, "kind")
    together.observe_all(list(values), "a")
    for value in sorted(values):
        apart.observe(value, "a")
    found, expected = together.values.get(("a",), []), apart.values.get(("a",), [])
    assert found[:-1] == expected[:-1]
    assert found[-1:] == pytest.approx(expected[-1:])
