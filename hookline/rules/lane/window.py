"""The window of a lane: how many slots of one worker it may hold. It adapts to the endpoint's answers and timeouts.

A lane begins with a few slots. Until the first timeout, each answer of the endpoint adds one slot, so the window
doubles each time that all of its requests are answered. A timeout halves the window. After the first timeout, the
window grows by one slot for each full window of answers. The window is in the worker's memory, because the row of a
healthy lane is never written.
"""

from __future__ import annotations

import math

from msgspec import Struct

START = 8  # slots of a lane whose endpoint has not answered this worker yet


class Window(Struct):
    size: float = START
    slow_above: float = math.inf  # above this size, the window grows slowly

    def slots(self, limit: int) -> int:
        return max(1, min(limit, int(self.size)))

    def on_answer(self, limit: int) -> None:
        self.size = min(limit, self.size + (1 if self.size < self.slow_above else 1 / self.size))

    def on_timeout(self) -> None:
        self.slow_above = self.size = max(1.0, self.size / 2)
