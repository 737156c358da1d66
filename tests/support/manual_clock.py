"""A clock that a test moves, for code that reads the clock by itself."""

from __future__ import annotations


class ManualClock:
    """A clock that a test sets. Each reading moves it forward by `step` seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now
