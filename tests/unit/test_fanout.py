"""Fan-out: which endpoints get a message, with which policy and time budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.model.policy import PolicyOverride, RetryPolicy
from hookline.rules import fanout
from hookline.rules.fanout import Plan, Route, Target, matches, max_age, merge


@pytest.mark.parametrize(
    ("types", "channels", "event_type", "on", "expected"),
    [
        (None, None, "order.paid", None, True),
        (None, None, "order.paid", ("eu",), True),
        ({"order.paid"}, None, "order.paid", None, True),
        ({"order.paid"}, None, "order", None, False),
        (set(), None, "order.paid", None, False),
        (None, {"eu", "us"}, "order.paid", ("us", "asia"), True),
        (None, {"eu"}, "order.paid", ("us",), False),
        (None, {"eu"}, "order.paid", None, False),
        (None, {"eu"}, "order.paid", (), False),
        ({"order.paid"}, {"eu"}, "order.void", ("eu",), False),
    ],
)
def test_an_endpoint_takes_its_types_on_its_channels(
    types: set[str] | None, channels: set[str] | None, event_type: str, on: tuple[str, ...] | None, expected: bool
) -> None:
    target = Target(
        endpoint_no=8,
        event_types=None if types is None else frozenset(types),
        channels=None if channels is None else frozenset(channels),
    )
    assert matches(target, event_type, on) is expected
    assert bool(Plan([target], {}).routes(event_type, on)) is expected


def test_the_later_override_wins_field_by_field() -> None:
    of_type = PolicyOverride(max_age=60.0, max_attempts=3, base=0.5)
    of_endpoint = PolicyOverride(max_attempts=9)
    of_message = PolicyOverride(max_age=7.5)
    assert merge(of_type, of_endpoint, None, of_message) == PolicyOverride(max_age=7.5, max_attempts=9, base=0.5)
    assert merge(None, PolicyOverride(), None) is None


def test_a_route_has_the_policies_of_type_endpoint_and_message() -> None:
    targets = [Target(endpoint_no=1, policy=PolicyOverride(max_attempts=4)), Target(endpoint_no=2)]
    plan = Plan(targets, {"order.paid": PolicyOverride(max_age=11.0)})
    assert plan.routes("order.paid", None) == [
        Route(endpoint_no=1, policy=PolicyOverride(max_age=11.0, max_attempts=4)),
        Route(endpoint_no=2, policy=PolicyOverride(max_age=11.0)),
    ]
    assert plan.routes("order.void", None, PolicyOverride(max_attempts=1)) == [
        Route(endpoint_no=1, policy=PolicyOverride(max_attempts=1)),
        Route(endpoint_no=2, policy=PolicyOverride(max_attempts=1)),
    ]


def test_the_time_budget_is_the_overrides_or_the_deployments() -> None:
    retry = RetryPolicy(max_age=900.0)
    assert max_age(None, retry) == max_age(PolicyOverride(base=2.0), retry) == 900.0
    assert max_age(PolicyOverride(max_age=0.25), retry) == 0.25


def test_names_that_callers_make_up_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "_MEMO_MAX", 10)
    plan = Plan([Target(endpoint_no=5, event_types=frozenset({"type.3"}))], {})
    hits = [n for n in range(35) if plan.routes(f"type.{n}", None)]
    assert hits == [3]
    assert len(plan._by_type) <= 10


NAMES = st.sampled_from(["a", "b", "c"])
SETS = st.none() | st.frozensets(NAMES)
TARGETS = st.lists(st.builds(Target, endpoint_no=st.integers(1, 99), event_types=SETS, channels=SETS), max_size=5)


@given(targets=TARGETS, messages=st.lists(st.tuples(NAMES, st.none() | st.lists(NAMES).map(tuple)), max_size=8))
def test_a_plan_equals_matching_each_endpoint(
    targets: list[Target], messages: list[tuple[str, tuple[str, ...] | None]]
) -> None:
    plan = Plan(targets, {})
    for event_type, channels in messages:
        expected = [target.endpoint_no for target in targets if matches(target, event_type, channels)]
        assert [route.endpoint_no for route in plan.routes(event_type, channels)] == expected
