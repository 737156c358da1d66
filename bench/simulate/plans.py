"""The retry strategies that are compared. All use the real `backoff`. Only Hookline's own has a circuit breaker."""

from __future__ import annotations

from msgspec.structs import replace

from bench.simulate.world import Plan
from hookline.model.policy import CircuitPolicy, RetryPolicy, Strategy

DEFAULT = RetryPolicy()
# No delivery dies during the simulation. Deliveries that exceed the real maximum number of attempts are counted instead.
ENDLESS = replace(DEFAULT, max_attempts=1_000_000)
LONGEST = 40  # number of delays in a schedule; the last delay repeats


def fixed(*waits: float) -> RetryPolicy:
    return replace(ENDLESS, strategy=Strategy.FIXED, schedule=waits)


NONE = Plan("none: at once", fixed(0.0), None)
CONSTANT = Plan("constant: 5 s", fixed(5.0), None)
LINEAR = Plan("linear: 1, 2, 3 s ...", fixed(*(float(step) for step in range(1, LONGEST))), None)
EXPONENTIAL = Plan(
    "exponential: 1, 3, 9 s ...", fixed(*(min(DEFAULT.cap, DEFAULT.factor**step) for step in range(LONGEST))), None
)
FULL_JITTER = Plan("full jitter", ENDLESS, None)
DECORRELATED = Plan("decorrelated jitter", replace(ENDLESS, strategy=Strategy.DECORRELATED), None)
OURS = Plan("Hookline: full jitter, circuit, ramp", ENDLESS, CircuitPolicy())

PLANS = (NONE, CONSTANT, LINEAR, EXPONENTIAL, FULL_JITTER, DECORRELATED, OURS)
