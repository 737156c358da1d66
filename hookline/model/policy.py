"""How long and how often is tried, and when a circuit opens."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Strategy(StrEnum):
    FULL_JITTER = "full_jitter"
    DECORRELATED = "decorrelated"
    FIXED = "fixed"


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long and how often a delivery is tried. The deployment has one; `PolicyOverride` changes parts of it."""

    strategy: Strategy = Strategy.FULL_JITTER
    base: float = 1.0  # seconds
    factor: float = 3.0
    cap: float = 6 * 3600.0
    max_attempts: int = 12
    max_age: float = 24 * 3600.0  # time budget from acceptance, replay or resume on
    schedule: tuple[float, ...] = ()  # delays of the fixed strategy; the last one repeats
    retry_after_cap: float = 3600.0  # the longest Retry-After that is honoured


class PolicyOverride(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Set on an event type, an endpoint or a message; the later wins. Fixed when the delivery is made."""

    strategy: Strategy | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_attempts: int | None = None
    max_age: float | None = None
    schedule: tuple[float, ...] | None = None
    retry_after_cap: float | None = None


class CircuitPolicy(Struct, frozen=True, kw_only=True):
    threshold: int = 5  # consecutive failures that open it ...
    spread: float = 1.0  # ... when they lie at least this far apart, first to last, in seconds
    cooldown: float = 60.0  # before the first probe; doubles with each failed probe
    cooldown_cap: float = 3600.0
    recovery_window: int = 2  # after a good probe: requests in flight, doubling each `recovery_step` ...
    recovery_step: float = 2.5  # four of them are ten seconds at an eighth of the full window, or less
    recovery_rate: float = 10.0  # ... with at most window * this many starts a second
    recovery_done: int = 128  # the circuit is closed when the window would pass this
