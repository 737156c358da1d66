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
    base: float = 1.0  # seconds before the first retry
    factor: float = 3.0
    cap: float = 6 * 3600.0
    max_attempts: int = 12
    max_age: float = 24 * 3600.0  # time budget in seconds, from acceptance, replay or resume
    schedule: tuple[float, ...] = ()  # delays of the fixed strategy in seconds; the last one repeats
    retry_after_cap: float = 3600.0  # longest Retry-After that is obeyed, in seconds


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
    spread: float = 1.0  # minimum seconds between the first and the last of these consecutive failures
    cooldown: float = 60.0  # seconds before the first probe; doubles with each failed probe
    cooldown_cap: float = 3600.0  # longest cooldown, in seconds
    recovery_window: int = 2  # maximum requests in flight after a successful probe
    recovery_step: float = 2.5  # minimum seconds between two doublings of the window
    recovery_rate: float = 10.0  # the window times this number is the maximum of requests per second
    recovery_done: int = 128  # the circuit closes when the window would grow beyond this
