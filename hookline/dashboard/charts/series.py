"""Counts of attempts in each time step of the selected range. Every chart uses the same steps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline.clock import EPOCH
from hookline.dashboard.charts.figures import Curve
from hookline.dashboard.page_context import PageContext, Range
from hookline.model.activity import Activity
from hookline.model.pulses import EVERY

FEW = 30  # points of a sparkline in a table
REPORT_DELAY = timedelta(seconds=1.5 * EVERY)  # time until all workers have reported their attempts


class Series(Struct, frozen=True, kw_only=True):
    """The number of attempts in each step, oldest first."""

    times: list[datetime]  # when each step begins
    delivered: list[int]
    retried: list[int]
    dead: list[int]
    over: int  # number of steps that are drawn; the low counts of an unfinished step would look like an outage

    @property
    def attempts(self) -> int:
        return sum(self.delivered) + self.failed

    @property
    def failed(self) -> int:
        return sum(self.retried) + sum(self.dead)

    @property
    def success(self) -> float | None:
        """Return the fraction of attempts that delivered, or None without attempts."""
        return sum(self.delivered) / self.attempts if self.attempts else None

    def curves(self) -> list[Curve]:
        return [
            Curve(name=name, shade=shade, values=[*values[: self.over], *[None] * (len(values) - self.over)])
            for name, shade, values in self._named()
        ]

    @property
    def words(self) -> str:
        """Return the totals as text: `1,204 delivered, 3 dead`. The unfinished step is included."""
        return ", ".join(f"{sum(values):,} {name}" for name, _, values in self._named() if any(values))

    def line(self) -> list[Curve]:
        """Return the curves of a sparkline, without those that are always zero."""
        found = (Curve(name=name, shade=shade, values=values[: self.over]) for name, shade, values in self._named())
        return [each for each in found if any(each.values)]

    def _named(self) -> Sequence[tuple[str, str, Sequence[int]]]:
        """Return name, colour and values of each curve."""
        return (
            ("delivered", "delivered", self.delivered),
            ("failed, retrying", "scheduled", self.retried),
            ("dead", "dead", self.dead),
        )


class Steps(Struct, frozen=True, kw_only=True):
    """Consecutive time steps of equal length."""

    since: datetime  # earlier activity is ignored
    first: datetime  # start of the first step; it may be before `since`
    length: timedelta
    many: int  # number of steps
    over: int  # number of finished steps; a step is finished when all workers have reported


def step(span: Range) -> timedelta:
    return span.length / span.steps


def begins(span: Range, now: datetime) -> datetime:
    """Return the start of the first time step of a chart. The last step contains `now`, so that a chart moves by whole
    steps."""
    length = step(span)
    return now - (now - EPOCH) % length - (span.steps - 1) * length


def steps(span: Range, now: datetime) -> Steps:
    """Return the time steps that a chart of this range shows at `now`."""
    first, length = begins(span, now), step(span)
    over = min(max(0, (now - REPORT_DELAY - first) // length), span.steps)
    return Steps(since=first, first=first, length=length, many=span.steps, over=over)


def few_steps(span: Range, now: datetime) -> Steps:
    """Return about `FEW` steps for a sparkline. Each is as long as several steps of a chart.

    The last drawn steps of the sparkline and of the chart end at the same time. So the first step of the sparkline may
    begin before the chart does.
    """
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


async def read(context: PageContext, app_no: int | None, endpoint_no: int | None = None) -> Series:
    """Count the attempts in the time range of the page. An `app_no` of None means all applications, and an
    `endpoint_no` of None means all endpoints."""
    found = await context.store.monitoring.activity(
        begins(context.span, context.now),
        org_id=context.org_id,
        app_no=app_no,
        endpoint_no=endpoint_no,
        grain=context.span.grain,
    )
    return laid_out(found, steps(context.span, context.now))


def laid_out(found: Sequence[Activity], given: Steps) -> Series:
    delivered, retried, dead = ([0] * given.many for _ in range(3))
    for each in found:
        at = (each.at - given.first) // given.length
        if 0 <= at < given.many:
            delivered[at] += each.delivered
            retried[at] += each.retried
            dead[at] += each.dead
    times = [given.first + at * given.length for at in range(given.many)]
    # An unfinished step is drawn only if all steps before it are empty.
    first = next((at for at in range(given.many) if delivered[at] or retried[at] or dead[at]), 0)
    return Series(times=times, delivered=delivered, retried=retried, dead=dead, over=max(given.over, first + 1))


def percent(part: float | None) -> str:
    """Return a percentage. It is 100 % only if nothing failed, and 0 % only if everything failed."""
    if part is None:
        return "–"
    if part in (0.0, 1.0):
        return f"{part:.0%}"
    return f"{min(max(part, 0.001), 0.999):.1%}"


def rate_words(span: Range) -> str:
    """Return the length of a step as text: `per minute`, `per 15 minutes`, `per hour`."""
    minutes = step(span) // timedelta(minutes=1)
    return {1: "per minute", 60: "per hour"}.get(minutes, f"per {minutes} minutes")
