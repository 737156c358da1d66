"""A clock for code that reads one by itself."""

from __future__ import annotations


class ManualClock:
    """Goes on by `step` whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now
