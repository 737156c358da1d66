"""Scales of axes: the positions of ticks, and how values, durations and times are written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from math import ceil, floor, log10

MAX_TICKS = 5  # maximum number of ticks of an axis

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_CLOCK = (1, 2, 5, 10, 15, 30)  # round steps of seconds and minutes
_LONG = (
    *_CLOCK,
    *(each * _MINUTE for each in _CLOCK),
    *(each * _HOUR for each in (1, 2, 3, 6, 12)),
    *(each * _DAY for each in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
)


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────


def ticks(top: float, *, whole: bool = False, seconds: bool = False) -> list[float]:
    """Return round values from zero to the first value that is not below `top`.

    `seconds`: the values are durations, so the step is a round number of seconds, minutes, hours or days. Otherwise,
    with `whole`, the step is a whole number.
    """
    step = (_round_time if seconds else _round)(top / (MAX_TICKS - 1))
    if whole and not seconds:
        step = max(1.0, ceil(step))
    return [step * each for each in range(max(1, ceil(top / step - 1e-9)) + 1)]


def _round(least: float) -> float:
    """Return the next number that is 1, 2 or 5 times a power of ten."""
    if least <= 0:
        return 1.0
    power = 10.0 ** floor(log10(least))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= least * (1 - 1e-9))


def _round_time(least: float) -> float:
    if least <= 1 or least > _LONG[-1]:
        return _round(least)
    return next(float(each) for each in _LONG if each >= least * (1 - 1e-9))


def short(value: float, *, seconds: bool = False) -> str:
    """Return a value as short text for an axis: `1.2k`, `200 ms`."""
    if seconds:
        return length(value)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def exact(value: float | None, *, seconds: bool = False) -> str:
    """Return a value as exact text: `1,204`, `1.25 s`."""
    if value is None:
        return "–"
    if seconds:
        return length(value)
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def length(seconds: float) -> str:
    """Return a duration as text: `3 ms`, `1.5 s`, `2 min 5 s`, `3 h`."""
    if seconds < 0.0005:
        return "0 s" if seconds <= 0 else "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for size, unit, below, lesser in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size:,} {unit}" + (f" {rest} {lesser}" if rest and whole < 10 * size else "")
    return f"{whole} s"


# ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def instants(since: datetime, until: datetime) -> tuple[list[datetime], int]:
    """Return round times from `since` to `until`, and the seconds from one round time to the next."""
    span = max(1.0, (until - since).total_seconds())
    step = next((each for each in _LONG if span / each <= MAX_TICKS - 1), _LONG[-1])
    first = ceil(since.timestamp() / step)
    last = min(floor(until.timestamp() / step), first + MAX_TICKS - 1)
    return [datetime.fromtimestamp(each * step, UTC) for each in range(first, last + 1)], step


def lengths(span: timedelta) -> list[timedelta]:
    """Return round durations from zero to `span`."""
    whole = span.total_seconds()
    step = _round_time(whole / (MAX_TICKS - 0.001))
    return [timedelta(seconds=step * each) for each in range(int(whole / step + 1e-9) + 1)]


def label(at: datetime, step: int) -> str:
    if step >= _DAY:
        return f"{at:%b} {at.day}"
    return f"{at:%H:%M}" if step >= _MINUTE else f"{at:%H:%M:%S}"


def top(curves: Sequence[Sequence[float | None]]) -> float:
    return max((each for each in chain.from_iterable(curves) if each is not None), default=0.0)
