"""Rate limits: requests per second of a caller, an application or an organization, and bad tokens from an address."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from msgspec import Struct

from hookline.model.callers import Caller
from hookline.security import lockout
from hookline.web.errors import Refused

ROUNDING = 1e-6  # seconds of tolerance for rounding errors
MAX_BUCKETS = 10_000  # buckets in memory; if there are more, those with the most unused tokens are dropped
BAD_TOKENS = 20  # bad tokens that one address may send in a burst
BAD_TOKENS_EVERY = 3.0  # seconds until one address may send one more bad token after such a burst


class Buckets:
    """Token buckets. Each bucket is stored as the time at which it will be full again."""

    def __init__(self, rate: float, monotonic: Callable[[], float], *, burst: float | None = None) -> None:
        """Refill each bucket with `rate` tokens per second; 0 means no limit.

        A bucket holds at most `burst` tokens. If `burst` is None, it holds at most `rate` tokens.
        """
        self._step = 1 / rate if rate else 0.0
        # A bucket has a token if it will be full again within this many seconds.
        self._room = (max(1.0, rate if burst is None else burst) - 1) * self._step + ROUNDING
        self._monotonic = monotonic
        self._full_at: dict[Hashable, float] = {}

    def wait(self, name: Hashable) -> float:
        """Take a token and return 0. If the bucket is empty, return the seconds until it has a token."""
        if not self._step:
            return 0.0
        now = self._monotonic()
        full_at = max(self._full_at.get(name, now), now)
        if full_at - now > self._room:
            return full_at - now - self._room
        self._full_at[name] = full_at + self._step
        if len(self._full_at) > MAX_BUCKETS:
            self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Drop at least half of the buckets, so that the next requests do not have to do this again.

        A caller without a bucket starts with a full one. So the buckets that will be full again first are dropped,
        because their callers gain the fewest tokens.
        """
        kept = [(at, name) for name, at in self._full_at.items() if at > now]
        kept.sort(key=lambda each: each[0])
        self._full_at = {name: at for at, name in kept[-(MAX_BUCKETS // 2) :]}


class Rates(Struct, frozen=True, kw_only=True):
    """Allowed requests per second; 0 means no limit."""

    caller: float = 0  # for one token or API key
    portal: float = 0  # for one portal token or portal session
    application: float = 0  # for all tokens, keys and sessions of one application together
    organization: float = 0  # for all callers of one organization together


class Limits:
    def __init__(self, rates: Rates, monotonic: Callable[[], float]) -> None:
        self._callers = Buckets(rates.caller, monotonic)
        self._portals = Buckets(rates.portal, monotonic)
        self._applications = Buckets(rates.application, monotonic)
        self._organizations = Buckets(rates.organization, monotonic)
        self._bad_tokens = Buckets(1 / BAD_TOKENS_EVERY, monotonic, burst=BAD_TOKENS)

    def take(self, caller: Caller) -> None:
        """Count one request of this caller. Raise a 429 with the time to wait if a limit is exceeded."""
        own = self._portals if caller.portal else self._callers
        _take(own, caller.holder, "with this token or key")
        if caller.app is not None:
            _take(self._applications, caller.app.id, "from this application")
        _take(self._organizations, caller.org_id, "from this organization")

    def take_bad_token(self, address: str) -> float:
        """Count one bad token from this address. Return 0, or the seconds to wait if there were too many."""
        return self._bad_tokens.wait(lockout.network(address))


def _take(buckets: Buckets, name: Hashable, whose: str) -> None:
    wait = buckets.wait(name)
    if wait:
        raise Refused(429, f"too many requests {whose}; slow down", retry_after=math.ceil(wait))
