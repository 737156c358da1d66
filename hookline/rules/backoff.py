"""Delays before retries, and the total duration of a retry policy. The caller passes the random number generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from statistics import fmean

from msgspec.structs import replace

from hookline.model.policy import PolicyOverride, RetryPolicy, Strategy

# Upper limit of the exponent of `factor`. A policy allows at most 100 attempts, so its exponents are far below 1024.
_LARGEST_EXPONENT = 1024
_LONGEST_SUM = 256  # maximum number of retries whose delays are computed one by one
_QUANTILES = 24  # number of quantiles that represent the distribution of a delay


def delay(policy: RetryPolicy, retry: int, last: float, chance: random.Random) -> float:
    """Return the seconds before retry number `retry` (0 is the first). `last` is the previous delay."""
    match policy.strategy:
        case Strategy.FULL_JITTER:
            return chance.uniform(0.0, ceiling(policy, retry))
        case Strategy.DECORRELATED:
            return min(policy.cap, chance.uniform(policy.base, _upper_limit(policy, last)))
        case Strategy.FIXED:
            return _scheduled(policy, retry)


def ceiling(policy: RetryPolicy, retry: int) -> float:
    """Return the longest delay of full jitter before this retry: `min(cap, base * factor^retry)`."""
    try:
        return min(policy.cap, policy.base * policy.factor ** min(retry, _LARGEST_EXPONENT))
    except OverflowError:
        return policy.cap


def _upper_limit(policy: RetryPolicy, last: float) -> float:
    """Return the upper limit of decorrelated jitter: three times the last delay, or three times the base at first."""
    return max(policy.base, 3.0 * max(policy.base, min(last, policy.cap)))


def _scheduled(policy: RetryPolicy, retry: int) -> float:
    if not policy.schedule:
        return policy.base
    return max(0.0, policy.schedule[min(retry, len(policy.schedule) - 1)])


def merge(base: RetryPolicy, override: PolicyOverride | None) -> RetryPolicy:
    """Apply an override to a policy."""
    changes = {} if override is None else override.given()
    return replace(base, **changes) if changes else base


def span(policy: RetryPolicy) -> tuple[float, float]:
    """Return the seconds from the first to the last attempt if all fail: expected and longest, within the time
    budget."""
    match policy.strategy:
        case Strategy.FULL_JITTER:
            longest = [ceiling(policy, retry) for retry in range(_retries(policy))]
            expected = [wait / 2 for wait in longest]
        case Strategy.DECORRELATED:
            longest = list(islice(_longest_delays(policy), _retries(policy)))
            expected = list(islice(_means(policy), _retries(policy)))
        case Strategy.FIXED:
            longest = expected = [_scheduled(policy, retry) for retry in range(_retries(policy))]
    return _total(policy, expected), _total(policy, longest)


def _retries(policy: RetryPolicy) -> int:
    """Return for how many retries the delay is computed one by one. `_total` assumes the last of these delays for each
    later retry."""
    return max(0, min(policy.max_attempts - 1, _LONGEST_SUM))


def _total(policy: RetryPolicy, waits: list[float]) -> float:
    settled = waits[-1] * (policy.max_attempts - 1 - len(waits)) if waits else 0.0
    return min(policy.max_age, sum(waits) + settled)


def _longest_delays(policy: RetryPolicy) -> Iterator[float]:
    last = 0.0
    while True:
        last = min(policy.cap, _upper_limit(policy, last))
        yield last


def _means(policy: RetryPolicy) -> Iterator[float]:
    """Yield the mean of each delay of decorrelated jitter.

    With a cap, a mean does not follow from the previous mean, so the distribution is tracked as `_QUANTILES`
    quantiles.
    """
    lasts = [0.0]
    parts = [(part + 0.5) / _QUANTILES for part in range(_QUANTILES)]
    while True:
        spans = [(policy.base, _upper_limit(policy, last) - policy.base) for last in lasts]
        waits = sorted(min(policy.cap, low + width * part) for low, width in spans for part in parts)
        yield fmean(waits)
        lasts = waits[len(lasts) // 2 :: len(lasts)]
