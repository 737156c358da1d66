"""Rotation: which lanes a claim reads while more lanes are ready than it can read.

A claim reads lanes in the order in which they became ready. That is fair among lanes, but an application with thousands
of ready lanes would delay all other applications. So while more lanes are ready than a claim can read, a claim takes
half of its lanes from the applications in turn. It takes the other half in the order of readiness. `budgets.py` decides
how many deliveries a claim may take from each lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")

MAX_APPS = 64  # maximum applications that one claim visits
LOOK_REST = 5.0  # longest pause of the rotation, in seconds, after a look-up of applications that took more than 10 ms
_TOP = 2**63 - 1  # above every application's number


class Rotation:
    """The position of one worker in its rotation through the applications, from the highest `app_no` to the lowest."""

    def __init__(self) -> None:
        self.below = _TOP  # number of the application that was visited last; the next one is lower
        self._active = False  # True while more lanes are ready than a claim reads: see `note`
        self._rest_until = 0.0  # monotonic; end of the pause after a slow look-up

    def apps(self, lanes: int, now: float) -> int:
        """Return how many applications a claim that reads up to `lanes` lanes visits."""
        return min(MAX_APPS, lanes // 2) if self._active and now >= self._rest_until else 0

    def note(self, apps: Iterable[int | None], tokens: int, *, more: bool) -> None:
        """Start or stop the rotation after a claim read `tokens` wake tokens of these applications.

        `more` says that further wake tokens may be ready. The rotation does not start while each application has only
        one wake token.
        """
        self._active = more and (self._active or len(set(apps)) < tokens)

    def visited(self, last: int | None, *, took: float, now: float) -> None:
        """Store that a look-up of applications with due wake tokens took `took` seconds and ended at the application
        `last`.

        The next look-up visits applications with lower numbers. If `last` is None, it starts again at the highest
        number. After a slow look-up, the rotation pauses. A look-up is slow if it skips many wake tokens that are not
        due yet, or on PostgreSQL many deleted wake tokens that a long transaction keeps in the index.
        """
        self.below = _TOP if last is None else last
        self._rest_until = now + min(LOOK_REST, 10 * took - 0.1)


def round_robin(lines: Iterable[Sequence[T]]) -> list[T]:
    """Return the first item of each line, then the second item of each line, and so on."""
    places = [(place, one) for line in lines for place, one in enumerate(line)]
    return [one for _, one in sorted(places, key=itemgetter(0))]
