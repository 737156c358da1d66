"""Retry policies and circuit breaker policies."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict


class Strategy(StrEnum):
    FULL_JITTER = "full_jitter"
    DECORRELATED = "decorrelated"
    FIXED = "fixed"


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """When and how often a failed delivery is retried. A `PolicyOverride` changes parts of it."""

    strategy: Strategy = Strategy.FULL_JITTER
    # Seconds. Full jitter: the longest delay before the first retry. Decorrelated jitter: the shortest delay.
    base: float = 1.0
    factor: float = 3.0
    cap: float = 6 * 3600.0
    max_attempts: int = 12
    max_age: float = 24 * 3600.0  # time budget in seconds, from acceptance, replay or resume
    schedule: tuple[float, ...] = ()  # delays of the fixed strategy in seconds; the last one repeats
    retry_after_cap: float = 3600.0  # seconds; a longer Retry-After is shortened to this


class PolicyOverride(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes to the retry policy by an event type, an endpoint or a message.

    An endpoint overrides the event type, and a message overrides both. The policy of a delivery is fixed when the
    delivery is created.
    """

    strategy: Strategy | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_attempts: int | None = None
    max_age: float | None = None
    schedule: tuple[float, ...] | None = None
    retry_after_cap: float | None = None

    def given(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class CircuitPolicy(Struct, frozen=True, kw_only=True):
    threshold: int = 5  # number of consecutive failures that opens the circuit
    spread: float = 1.0  # minimum seconds from the first consecutive failure to the one that opens the circuit
    cooldown: float = 60.0  # seconds before the first probe; doubles with each failed probe
    cooldown_cap: float = 3600.0  # longest cooldown, in seconds
    # While a circuit recovers, `Lane.window` is the maximum number of requests in flight. After a successful probe it
    # is `recovery_window`, and then it doubles.
    recovery_window: int = 2
    recovery_step: float = 2.5  # minimum seconds between two doublings of `Lane.window`
    recovery_rate: float = 10.0  # `Lane.window` times this number is the maximum number of requests per second
    recovery_done: int = 128  # the circuit closes when the next doubling would make `Lane.window` larger than this
