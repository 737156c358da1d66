"""How long to wait before a retry, and how long a policy goes on in all. Pure: chance is an argument."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from statistics import fmean

from msgspec.structs import asdict, replace

from hookline.model import PolicyOverride, RetryPolicy, Strategy

# A float power overflows soon after; every policy has long met its cap by then, or never will.
_LARGEST_EXPONENT = 1024
_LONGEST_SUM = 256
_GRAIN = 24


def delay(policy: RetryPolicy, retry: int, last: float, chance: random.Random) -> float:
    """Seconds before retry number `retry` (0 is the first), the one before having waited `last`."""
    match policy.strategy:
        case Strategy.FULL_JITTER:
            return chance.uniform(0.0, ceiling(policy, retry))
        case Strategy.DECORRELATED:
            return min(policy.cap, chance.uniform(policy.base, _reach(policy, last)))
        case Strategy.FIXED:
            return _scheduled(policy, retry)


def ceiling(policy: RetryPolicy, retry: int) -> float:
    """The longest that full jitter waits before this retry: `min(cap, base * factor^retry)`."""
    try:
        return min(policy.cap, policy.base * policy.factor ** min(retry, _LARGEST_EXPONENT))
    except OverflowError:
        return policy.cap


def _reach(policy: RetryPolicy, last: float) -> float:
    """The upper end of decorrelated jitter: three times the last wait, which begins at the base."""
    return max(policy.base, 3.0 * max(policy.base, min(last, policy.cap)))


def _scheduled(policy: RetryPolicy, retry: int) -> float:
    if not policy.schedule:
        return policy.base
    return max(0.0, policy.schedule[min(retry, len(policy.schedule) - 1)])


def merge(base: RetryPolicy, *overrides: PolicyOverride | None) -> RetryPolicy:
    """The policy with the fields of each override that are set; the later one wins."""
    changes: dict[str, object] = {}
    for override in overrides:
        if override is not None:
            changes |= {name: value for name, value in asdict(override).items() if value is not None}
    return replace(base, **changes) if changes else base


def span(policy: RetryPolicy) -> tuple[float, float]:
    """Seconds from the first attempt to the last if all fail: expected and longest, both within the time budget."""
    match policy.strategy:
        case Strategy.FULL_JITTER:
            longest = [ceiling(policy, retry) for retry in range(_retries(policy))]
            expected = [wait / 2 for wait in longest]
        case Strategy.DECORRELATED:
            longest = list(islice(_farthest(policy), _retries(policy)))
            expected = list(islice(_means(policy), _retries(policy)))
        case Strategy.FIXED:
            longest = expected = [_scheduled(policy, retry) for retry in range(_retries(policy))]
    return _total(policy, expected), _total(policy, longest)


def _retries(policy: RetryPolicy) -> int:
    """As many as are looked at one by one; those after them are taken to wait as long as the last of these."""
    return max(0, min(policy.max_attempts - 1, _LONGEST_SUM))


def _total(policy: RetryPolicy, waits: list[float]) -> float:
    settled = waits[-1] * (policy.max_attempts - 1 - len(waits)) if waits else 0.0
    return min(policy.max_age, sum(waits) + settled)


def _farthest(policy: RetryPolicy) -> Iterator[float]:
    last = 0.0
    while True:
        last = min(policy.cap, _reach(policy, last))
        yield last


def _means(policy: RetryPolicy) -> Iterator[float]:
    """The mean of each wait of decorrelated jitter. Its distribution is carried on as `_GRAIN` quantiles: with a cap, the
    mean of one wait does not follow from the mean of the one before."""
    lasts = [0.0]
    parts = [(part + 0.5) / _GRAIN for part in range(_GRAIN)]
    while True:
        spans = [(policy.base, _reach(policy, last) - policy.base) for last in lasts]
        waits = sorted(min(policy.cap, low + width * part) for low, width in spans for part in parts)
        yield fmean(waits)
        lasts = waits[len(lasts) // 2 :: len(lasts)]
