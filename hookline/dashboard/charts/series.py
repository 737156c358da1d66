"""What endpoints did, laid out in the steps of the range that was picked: the same in every chart. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline.clock import EPOCH
from hookline.dashboard.charts.figures import Curve
from hookline.dashboard.page_context import Range
from hookline.model.activity import Activity
from hookline.model.pulses import EVERY

FEW = 30  # points of a line in a table
TOLD = timedelta(seconds=1.5 * EVERY)  # until all that was done is told


class Series(Struct, frozen=True, kw_only=True):
    """Attempts in each step, oldest first."""

    times: list[datetime]  # when each step begins
    delivered: list[int]
    retried: list[int]
    dead: list[int]
    over: int  # steps that are drawn: one that is not over says less than it will, and would look like an outage

    @property
    def attempts(self) -> int:
        return sum(self.delivered) + self.failed

    @property
    def failed(self) -> int:
        return sum(self.retried) + sum(self.dead)

    @property
    def success(self) -> float | None:
        """The part of the attempts that delivered; None: there were none."""
        return sum(self.delivered) / self.attempts if self.attempts else None

    def curves(self) -> list[Curve]:
        return [
            Curve(name=name, shade=shade, values=[*values[: self.over], *[None] * (len(values) - self.over)])
            for name, shade, values in self._named()
        ]

    @property
    def words(self) -> str:
        """`1,204 delivered, 3 dead`: the step that is not over is counted too."""
        return ", ".join(f"{sum(values):,} {name}" for name, _, values in self._named() if any(values))

    def line(self) -> list[Curve]:
        """For a row of a table: only what there was any of."""
        found = (Curve(name=name, shade=shade, values=values[: self.over]) for name, shade, values in self._named())
        return [each for each in found if any(each.values)]

    def _named(self) -> Sequence[tuple[str, str, Sequence[int]]]:
        """What each is called, its shade, its values."""
        return (
            ("delivered", "delivered", self.delivered),
            ("failed, tried again", "scheduled", self.retried),
            ("dead", "dead", self.dead),
        )


class Steps(Struct, frozen=True, kw_only=True):
    """Stretches of one length, one after the other."""

    since: datetime  # what was before is left out
    first: datetime  # when the first one begins: then, or a part of its length before
    length: timedelta
    many: int
    over: int  # of these; the last one is not until all that was done in it is told


def step(span: Range) -> timedelta:
    return span.length / span.steps


def begins(span: Range, now: datetime) -> datetime:
    """Of the first step. The last one has `now` in it, so that a chart moves on by whole steps."""
    length = step(span)
    return now - (now - EPOCH) % length - (span.steps - 1) * length


def steps(span: Range, now: datetime) -> Steps:
    """Those of a chart."""
    first, length = begins(span, now), step(span)
    over = min(max(0, (now - TOLD - first) // length), span.steps)
    return Steps(since=first, first=first, length=length, many=span.steps, over=over)


def few_steps(span: Range, now: datetime) -> Steps:
    """Those of a line in a table, of which there are many: about `FEW`, each as long as several of a chart. The last one that is
    drawn ends where the chart does, so that the first one may be short."""
    fine = steps(span, now)
    several = max(1, -(-fine.over // FEW))
    missing = -fine.over % several
    return Steps(
        since=fine.since,
        first=fine.first - missing * fine.length,
        length=several * fine.length,
        many=-(-(missing + fine.many) // several),
        over=(missing + fine.over) // several,
    )


def laid_out(found: Sequence[Activity], given: Steps) -> Series:
    delivered, retried, dead = ([0] * given.many for _ in range(3))
    for each in found:
        at = (each.at - given.first) // given.length
        if 0 <= at < given.many:
            delivered[at] += each.delivered
            retried[at] += each.retried
            dead[at] += each.dead
    times = [given.first + at * given.length for at in range(given.many)]
    over = drawn(given, delivered, retried, dead)
    return Series(times=times, delivered=delivered, retried=retried, dead=dead, over=over)


def drawn(given: Steps, *rows: Sequence[int]) -> int:
    """How many steps are. One that is not over is where nothing was before it: it has nothing to drop from."""
    first = next((at for at in range(given.many) if any(row[at] for row in rows)), 0)
    return max(given.over, first + 1)


def percent(part: float | None) -> str:
    """Never 100 % where something failed, and never 0 % where something did not."""
    if part is None:
        return "–"
    if part in (0.0, 1.0):
        return f"{part:.0%}"
    return f"{min(max(part, 0.001), 0.999):.1%}"


def rate_words(span: Range) -> str:
    """`Attempts per minute`, `per 15 minutes`, `per hour`."""
    minutes = step(span) // timedelta(minutes=1)
    return {1: "per minute", 60: "per hour"}.get(minutes, f"per {minutes} minutes")
