"""What endpoints did, laid out in the steps of the range that was picked: the same in every chart. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from hookline.clock import EPOCH
from hookline.dashboard.charts import Curve
from hookline.dashboard.look import Range
from hookline.observe.activity import Activity

SMALL = 30  # points of a line in a table


class Series(Struct, frozen=True, kw_only=True):
    """Attempts in each step, oldest first."""

    times: list[datetime]  # when each step begins
    delivered: list[int]
    retried: list[int]
    dead: list[int]

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
            Curve(name="delivered", shade="delivered", values=self.delivered),
            Curve(name="failed, tried again", shade="scheduled", values=self.retried),
            Curve(name="dead", shade="dead", values=self.dead),
        ]

    def small(self) -> list[Curve]:
        """For a line in a table, of which there are many: few points, and only what there was any of."""
        found = (replace(each, values=_summed(each.values)) for each in self.curves())
        return [each for each in found if any(each.values)]


def _summed(values: Sequence[float | None]) -> list[float]:
    """In about `SMALL` steps; the oldest one may be shorter."""
    length = -(-len(values) // SMALL)
    first = len(values) % length
    starts = [*([0] if first else []), *range(first, len(values), length)]
    return [sum(filter(None, values[at : at + length if at or not first else first])) for at in starts]


def step(span: Range) -> timedelta:
    return span.length / span.steps


def begins(span: Range, now: datetime) -> datetime:
    """Of the first step. The last one has `now` in it, so that a chart moves on by whole steps."""
    length = step(span)
    return now - (now - EPOCH) % length - (span.steps - 1) * length


def laid_out(found: Sequence[Activity], span: Range, now: datetime) -> Series:
    first, length = begins(span, now), step(span)
    delivered, retried, dead = ([0] * span.steps for _ in range(3))
    for each in found:
        at = (each.at - first) // length
        if 0 <= at < span.steps:
            delivered[at] += each.delivered
            retried[at] += each.retried
            dead[at] += each.dead
    times = [first + at * length for at in range(span.steps)]
    return Series(times=times, delivered=delivered, retried=retried, dead=dead)


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
