"""Rotation: which lanes a claim looks at while more are ready than it can look at.

Lanes are looked at in the order in which they became ready. That is fair among lanes, but an application with
thousands of ready lanes would delay everybody else. So while there is such a backlog of lanes, half of each claim goes
round the applications, and the other half follows the order of readiness. `budgets.py` decides how much each lane may
take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")

MAX_APPS = 64  # applications that one claim visits
LOOK_REST = 5.0  # longest pause of the rotation, in seconds, after a look-up of applications that took more than 10 ms
_TOP = 2**63 - 1  # above every application's number


class Rotation:
    """The position of one worker in its rotation through the applications, from the highest number to the lowest."""

    def __init__(self) -> None:
        self.below = _TOP  # number of the application that was visited last; the next one is lower
        self._active = False  # more lanes were ready than the last claim looked at
        self._rest_until = 0.0  # monotonic; end of the pause after a slow look-up

    def apps(self, lanes: int, now: float) -> int:
        """Return how many applications a claim that reads up to `lanes` lanes visits."""
        return min(MAX_APPS, lanes // 2) if self._active and now >= self._rest_until else 0

    def note(self, apps: Iterable[int | None], tokens: int, *, more: bool) -> None:
        """Start or stop the rotation after a claim read `tokens` wake tokens of these applications.

        `more` says that further wake tokens may be ready. The rotation does not start while each application has one
        wake token only.
        """
        self._active = more and (self._active or len(set(apps)) < tokens)

    def visited(self, last: int | None, *, took: float, now: float) -> None:
        """Note that a look-up, which took `took` seconds, ended at the application `last`.

        The next look-up visits applications with lower numbers. If `last` is None, it starts again at the highest
        number. After a slow look-up, the rotation pauses. The look-up was slow because it skipped many wake tokens that
        are not due yet, or on PostgreSQL dead wake tokens that a long transaction keeps.
        """
        self.below = _TOP if last is None else last
        self._rest_until = now + min(LOOK_REST, 10 * took - 0.1)


def round_robin(lines: Iterable[Sequence[T]]) -> list[T]:
    """Return the first item of each line, then the second item of each line, and so on."""
    places = [(place, one) for line in lines for place, one in enumerate(line)]
    return [one for _, one in sorted(places, key=itemgetter(0))]
