"""Silent starts: how many requests a worker may start to silent lanes.

A request that hangs costs CPU time when it starts. The starts of a thousand of them together would keep all processors
busy, and messages to endpoints that answer would wait. So a worker starts these requests at limited rates, and a few
in one claim, so that each claim is short.

There are two rates. One is for any silent lanes. Claims find these lanes by additional statements, so a claim may start
these requests only if `BATCH` of them may start together. The other rate is higher, and is for silent lanes with recent
wake tokens: most of them belong to new endpoints, whose first message must not wait behind the lanes that hang.
"""

from __future__ import annotations

RATE, RECENT_RATE = 125.0, 1000.0  # starts per second, to any silent lanes and to those with recent wake tokens
BATCH, RECENT = 8, 4  # maximum starts of a claim that come from these rates
# Each answer of a silent lane allows one more start, so the rates do not limit new endpoints that answer. No more than
# this many starts are saved up.
MAX_SAVED = 64


class SilentStarts:
    def __init__(self) -> None:
        self._any: float = BATCH  # starts to any silent lanes that are allowed now
        self._recent: float = RECENT  # the same for lanes with recent wake tokens
        self._counted_at = 0.0  # time up to which the rates are included in `_any` and `_recent`
        self._offered = 0  # starts to any silent lanes that the last claim was allowed and has not made

    def offer(self, now: float) -> tuple[int, int]:
        """Return how many requests a claim may start to any silent lanes, and how many in addition to silent lanes with
        recent wake tokens."""
        self._count(now)
        self._offered = int(self._any) if self._any >= BATCH else 0
        return self._offered, int(self._recent)

    def started(self) -> None:
        if self._offered:
            self._offered -= 1
            self._any -= 1
        else:
            self._recent -= 1

    def answered(self) -> None:
        self._any = min(MAX_SAVED, self._any + 1)

    def pause(self, now: float) -> float:
        """Return in how many seconds a claim may start requests to any silent lanes."""
        self._count(now)
        return max(0.0, (BATCH - self._any) / RATE)

    def _count(self, now: float) -> None:
        seconds = max(0.0, now - self._counted_at)
        self._any = max(self._any, min(BATCH, self._any + RATE * seconds))
        self._recent = min(RECENT, self._recent + RECENT_RATE * seconds)
        self._counted_at = now
