"""How many requests a second one caller, or one organization, may make of this process; and how many with a bad token."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from hookline import lockout
from hookline.api.errors import Refused

ROUNDING = 1e-6  # seconds
MOST_KNOWN = 10_000  # buckets; those that are full again, or will be soonest, are forgotten first
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
        if len(self._full_at) > MOST_KNOWN:
            self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        """At least half of them, so that this is not done for each one that comes."""
        kept = [(at, name) for name, at in self._full_at.items() if at > now]
        kept.sort(key=lambda each: each[0])
        self._full_at = {name: at for at, name in kept[-(MOST_KNOWN // 2) :]}


class Limits:
    def __init__(self, *, caller: float, organization: float, monotonic: Callable[[], float]) -> None:
        self._callers = Buckets(caller, monotonic)
        self._organizations = Buckets(organization, monotonic)
        self._strangers = Buckets(1 / BAD_TOKENS_EVERY, monotonic, burst=BAD_TOKENS)

    def take(self, holder: Hashable, org_id: str) -> None:
        """One request of this token or key; 429 with the time to wait if it is one too many."""
        for buckets, name, whose in (
            (self._callers, holder, "this token or key"),
            (self._organizations, org_id, "this organization"),
        ):
            wait = buckets.wait(name)
            if wait:
                raise Refused(429, f"too many requests with {whose}; slow down", retry_after=math.ceil(wait))

    def stranger(self, address: str) -> float:
        """One request from there with a token or key that is no good. 0, or the seconds to wait if it is one too many."""
        return self._strangers.wait(lockout.network(address))
