"""How many requests a second one caller, application or organization may make of this process; and how many with a bad token."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from msgspec import Struct

from hookline.model.callers import Caller
from hookline.security import lockout
from hookline.web.errors import Refused

ROUNDING = 1e-6  # seconds
MAX_KNOWN = 10_000  # buckets; those that are full again, or will be soonest, are forgotten first
BAD_TOKENS = 20  # that one address may try at once ...
BAD_TOKENS_EVERY = 3.0  # ... and seconds until it may try one more


class Buckets:
    """Token buckets, each kept as the instant at which it will be full again."""

    def __init__(self, rate: float, monotonic: Callable[[], float], *, burst: float | None = None) -> None:
        """`rate` a second; 0: without limit. A bucket holds `burst`, or one second's worth."""
        self._step = 1 / rate if rate else 0.0
        # How far ahead of now the bucket may be.
        self._room = (max(1.0, rate if burst is None else burst) - 1) * self._step + ROUNDING
        self._monotonic = monotonic
        self._full_at: dict[Hashable, float] = {}

    def wait(self, name: Hashable) -> float:
        """0 if there is a token, which is taken; else the seconds until there will be one."""
        if not self._step:
            return 0.0
        now = self._monotonic()
        full_at = max(self._full_at.get(name, now), now)
        if full_at - now > self._room:
            return full_at - now - self._room
        self._full_at[name] = full_at + self._step
        if len(self._full_at) > MAX_KNOWN:
            self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        """At least half of them, so that this is not done for each one that comes."""
        kept = [(at, name) for name, at in self._full_at.items() if at > now]
        kept.sort(key=lambda each: each[0])
        self._full_at = {name: at for at, name in kept[-(MAX_KNOWN // 2) :]}


class Rates(Struct, frozen=True, kw_only=True):
    """Requests a second; 0: without limit."""

    caller: float = 0  # one token or key
    portal: float = 0  # one of a portal, or one session there
    application: float = 0  # all tokens, keys and sessions that are for this application alone
    organization: float = 0  # all of them


class Limits:
    def __init__(self, rates: Rates, monotonic: Callable[[], float]) -> None:
        self._callers = Buckets(rates.caller, monotonic)
        self._portals = Buckets(rates.portal, monotonic)
        self._applications = Buckets(rates.application, monotonic)
        self._organizations = Buckets(rates.organization, monotonic)
        self._strangers = Buckets(1 / BAD_TOKENS_EVERY, monotonic, burst=BAD_TOKENS)

    def take(self, caller: Caller) -> None:
        """One request of this token or key; 429 with the time to wait if it is one too many."""
        own = self._portals if caller.portal else self._callers
        _take(own, caller.holder, "with this token or key")
        if caller.app is not None:
            _take(self._applications, caller.app.id, "from this application")
        _take(self._organizations, caller.org_id, "from this organization")

    def stranger(self, address: str) -> float:
        """One request from there with a token or key that is no good. 0, or the seconds to wait if it is one too many."""
        return self._strangers.wait(lockout.network(address))


def _take(buckets: Buckets, name: Hashable, whose: str) -> None:
    wait = buckets.wait(name)
    if wait:
        raise Refused(429, f"too many requests {whose}; slow down", retry_after=math.ceil(wait))
