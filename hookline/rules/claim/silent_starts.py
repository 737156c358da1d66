"""How many requests a worker starts to silent lanes: lanes whose endpoints do not answer, or are new to the worker.

A request that hangs costs CPU time when it starts and again when it times out. If a thousand of them started together,
the messages to all other endpoints would wait meanwhile. So silent lanes may start a few requests at once, and then a
fixed number per second. Each answer of a silent lane allows two more. So if the endpoints do answer, the requests in
flight double with each round of answers.

There are two such limits, so that a crowd of endpoints that hang does not delay an endpoint that is new. The lower one
is for *slow* lanes: the last request timed out, the lane has failures, or an earlier claim has refused the lane. The
higher one is for all other silent lanes.
"""

from __future__ import annotations

from hookline.model.deliveries import SilentStarts

NEW_BURST, NEW_RATE = 64, 512.0  # requests to lanes that are not slow: at once, and per second
SLOW_BURST, SLOW_RATE = 4, 128.0  # requests to slow lanes
PER_ANSWER = 2  # further requests that an answer allows
MAX_SLOW = 8192  # slow lanes that a worker remembers


class StartLimits:
    """The requests that the silent lanes of one worker may start. Answers can raise their number up to `limit`."""

    def __init__(self, limit: int) -> None:
        self._new = _Bucket(NEW_BURST, NEW_RATE, limit)
        self._slow = _Bucket(SLOW_BURST, SLOW_RATE, limit)
        self._slow_lanes: set[int] = set()  # endpoints

    def now(self, now: float) -> SilentStarts:
        return SilentStarts(
            new=self._new.refill(now), slow=self._slow.refill(now), slow_lanes=frozenset(self._slow_lanes)
        )

    def started(self, starts: SilentStarts) -> None:
        self._new.left -= starts.new
        self._slow.left -= starts.slow

    def slowed(self, endpoint_no: int) -> None:
        """Count a lane as slow until its endpoint answers."""
        if len(self._slow_lanes) >= MAX_SLOW:
            self._slow_lanes.clear()  # each of them is refused or times out again, and is then slow again
        self._slow_lanes.add(endpoint_no)

    def answered(self, endpoint_no: int) -> None:
        """A silent lane got an answer."""
        self._slow_lanes.discard(endpoint_no)
        for bucket in (self._new, self._slow):
            bucket.left = min(bucket.limit, bucket.left + PER_ANSWER)


class _Bucket:
    """A token bucket. Time fills it up to `burst`, and answers up to `limit`."""

    def __init__(self, burst: int, rate: float, limit: int) -> None:
        self.limit = max(burst, limit)
        self.left = float(burst)
        self._burst = burst
        self._rate = rate
        self._at = 0.0  # monotonic

    def refill(self, now: float) -> int:
        """Return how many requests may start now."""
        if self.left < self._burst:
            self.left = min(self._burst, self.left + max(0.0, now - self._at) * self._rate)
        self._at = now
        return max(0, int(self.left))
