"""Charts as SVG. Each chart has a table with the same values for screen readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import cycle

from msgspec import Struct
from msgspec.structs import replace

from hookline.dashboard.charts import drawing, scales
from hookline.web.html import Safe, tag

HEIGHT = 160  # height of a chart in pixels
SMALL = 24  # height of a sparkline in pixels
LINE = 14  # height of a band, or of one row of a waterfall, in pixels
PITCH = 26  # pixels from one row to the next
MAX_KEYS = 6  # entries in the legend of a band
SHORTEST = timedelta(microseconds=1)  # shortest time span that a chart can show
DASHES = ("", "dashed", "dotted")  # line styles, so that curves do not differ by colour alone


class Curve(Struct, frozen=True, kw_only=True):
    name: str
    shade: str  # name of the colour: a delivery state, or "accent"
    values: Sequence[float | None]  # one per time; None if the value is unknown
    dash: str = ""  # CSS classes of the line style


class Bar(Struct, frozen=True, kw_only=True):
    name: str
    value: float
    words: str  # the value as text
    shade: str
    href: str | None = None


class Stretch(Struct, frozen=True, kw_only=True):
    """A period that is drawn in one colour: a part of a band (one time line), or of a row of a waterfall."""

    shade: str  # name of the colour: a delivery state, or a phase such as `dns`
    words: str
    since: datetime
    until: datetime


class Row(Struct, frozen=True, kw_only=True):
    """One row of a waterfall."""

    name: str
    stretches: Sequence[Stretch]


# ── curves ────────────────────────────────────────────────────────────────────────────────────────────────────────


def areas(label: str, curves: Sequence[Curve], times: Sequence[datetime]) -> Safe:
    """Draw curves, such as outcomes over time, as stacked areas. The first curve is at the bottom."""
    at, edges = drawing.places(times), _stacked(curves)
    axis = _axis(edges)
    # Each area reaches down to the bottom of the chart. The highest area is drawn first, and lower areas cover it.
    drawn = []
    for curve, edge in zip(reversed(curves), reversed(edges), strict=True):
        area = tag("path", d=drawing.area(edge, at, axis[-1], HEIGHT), class_="area")
        line = tag("path", d=drawing.edge(edge, at, axis[-1], HEIGHT), class_="edge")
        drawn.append(tag("g", area, line, class_=f"shade-{curve.shade}"))
    return _figure(label, curves, times, axis, drawn)


def lines(label: str, curves: Sequence[Curve], times: Sequence[datetime], *, seconds: bool = False) -> Safe:
    """Draw each curve, such as the backlog or a latency, as a line. `seconds` means that the values are durations."""
    at, axis = drawing.places(times), _axis([curve.values for curve in curves], seconds=seconds)
    dashed = [replace(curve, dash=f"line {dash}".rstrip()) for curve, dash in zip(curves, cycle(DASHES), strict=False)]
    drawn = [
        tag("path", d=drawing.edge(each.values, at, axis[-1], HEIGHT), class_=f"edge shade-{each.shade} {each.dash}")
        for each in dashed
    ]
    return _figure(label, dashed, times, axis, drawn, seconds=seconds)


def sparkline(label: str, curves: Sequence[Curve]) -> Safe:
    """Draw small stacked areas without axes, for a row of a table. Screen readers read the `label`."""
    edges = _stacked(curves)
    steps = len(edges[0]) if edges else 0
    at = [each / max(1, steps - 1) for each in range(steps)]
    highest = scales.top(edges) or 1.0
    drawn = (
        tag("path", d=drawing.area(edge, at, highest, SMALL), class_=f"area solid shade-{curve.shade}")
        for curve, edge in zip(reversed(curves), reversed(edges), strict=True)
    )
    return tag(
        "svg",
        tag("title", label),
        drawing.stretched(drawn, SMALL),
        width="112",
        height=str(SMALL),
        role="img",
        aria_label=label,
        class_="sparkline",
    )


def _stacked(curves: Sequence[Curve]) -> list[list[float | None]]:
    """Return the upper edge of each stacked curve. It is None where no curve has a value."""
    reached: list[float | None] = [None] * max((len(curve.values) for curve in curves), default=0)
    edges = []
    for curve in curves:
        reached = [
            before if value is None else (before or 0.0) + max(0.0, value)
            for before, value in zip(reached, curve.values, strict=True)
        ]
        edges.append(reached)
    return edges


def _axis(edges: Sequence[Sequence[float | None]], *, seconds: bool = False) -> list[float]:
    whole = all(value is None or value == round(value) for edge in edges for value in edge)
    return scales.ticks(scales.top(edges), whole=whole, seconds=seconds)


def _figure(
    label: str,
    curves: Sequence[Curve],
    times: Sequence[datetime],
    axis: Sequence[float],
    drawn: Sequence[Safe],
    *,
    seconds: bool = False,
) -> Safe:
    """Return the drawn curves with their axes, their legend with the latest values, and a table of all values."""
    texts = [[scales.exact(value, seconds=seconds) for value in curve.values] for curve in curves]
    readout = (
        tag("g", data_name=curve.name, data_shade=curve.shade, data_words="|".join(each))
        for curve, each in zip(curves, texts, strict=True)
    )
    known = any(value is not None for curve in curves for value in curve.values)
    plot = drawing.plot(
        label,
        *drawing.grid(axis, HEIGHT),
        drawing.stretched(drawn, HEIGHT),
        *(drawing.time_axis(times[0], times[-1], HEIGHT) if times else ()),
        None if known else tag("text", "No data in this range", x="50%", y=str(HEIGHT // 2), class_="nothing"),
        *readout,
        height=HEIGHT + drawing.BELOW,
        data_times=" ".join(str(int(at.timestamp())) for at in times),
        **(drawing.within(times[0], times[-1]) if times else {}),
    )
    keys = [drawing.key(each.shade, each.name, _latest(each, seconds=seconds), each.dash) for each in curves]
    rows = [[drawing.instant(at), *(each[step] for each in texts)] for step, at in enumerate(times)]
    table = drawing.table(label, ["At", *(curve.name for curve in curves)], rows)
    axes = tag("div", drawing.values_axis(axis, HEIGHT, seconds=seconds), plot, class_="axes")
    return drawing.figure(label, keys, axes, table)


def _latest(curve: Curve, *, seconds: bool) -> str:
    known = [value for value in curve.values if value is not None]
    return scales.exact(known[-1] if known else None, seconds=seconds)


# ── bars ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def bars(label: str, found: Sequence[Bar]) -> Safe:
    """Draw horizontal bars in the given order. The chart is an HTML table, so screen readers can read it."""
    highest = max((bar.value for bar in found), default=0.0) or 1.0
    rows = []
    for bar in found:
        name = tag("a", bar.name, href=bar.href) if bar.href is not None else bar.name
        width = drawing.percent(max(0.0, bar.value) / highest)
        drawn = tag("rect", width=width, height="100%", rx="2", class_=f"shade-{bar.shade}")
        picture = tag("svg", drawn, width="100%", height="10", aria_hidden="true")
        cells = (tag("th", name, scope="row"), tag("td", picture), tag("td", bar.words, class_="num"))
        rows.append(tag("tr", *cells, data_key=bar.href or bar.name))
    body = tag("table", tag("caption", label, class_="unseen"), tag("tbody", *rows))
    nothing = tag("p", "Nothing to show yet.", class_="quiet")
    return tag("figure", tag("figcaption", tag("b", label)), body if found else nothing, class_="chart bars")


# ── time spans ────────────────────────────────────────────────────────────────────────────────────────────────────


def band(label: str, stretches: Sequence[Stretch], since: datetime, until: datetime) -> Safe:
    """Draw one coloured time line, such as the states of a circuit.

    The shortest parts are drawn last, to stay visible.
    """
    painted = sorted(stretches, key=lambda each: each.since - each.until)
    drawn = drawing.plot(
        label,
        tag("rect", width="100%", height=str(LINE), class_="ground"),
        *(_stretch(each, since, until, 0) for each in painted),
        *drawing.time_axis(since, until, LINE),
        height=LINE + drawing.BELOW,
        data_stretches="clock",
        **drawing.within(since, until),
    )
    keys = {(each.shade, each.words): drawing.key(each.shade, each.words) for each in stretches}
    legend = keys.values() if len(keys) <= MAX_KEYS else ()
    rows = [[drawing.instant(each.since), drawing.instant(each.until), each.words, _took(each)] for each in stretches]
    return drawing.figure(label, legend, drawn, drawing.table(label, ["From", "Until", "What", "Length"], rows))


def waterfall(label: str, rows: Sequence[Row], since: datetime, until: datetime) -> Safe:
    """Draw several time lines on one scale, such as attempts with their phases."""
    height = PITCH * len(rows)
    inner = list(_elapsed(since, until, height))
    for number, row in enumerate(rows):
        top = PITCH * number + (PITCH - LINE) // 2
        inner.append(tag("rect", y=str(top), width="100%", height=str(LINE), class_="ground"))
        inner += [_stretch(each, since, until, top, row.name) for each in row.stretches]
    names = (tag("text", row.name, x="0", y=str(PITCH * number + PITCH // 2 + 4)) for number, row in enumerate(rows))
    drawn = drawing.plot(label, *inner, height=height + drawing.BELOW, data_stretches="length")
    axis = tag("svg", *names, height=str(height + drawing.BELOW), class_="names", aria_hidden="true")
    axes = tag("div", axis, drawn, class_="axes named")
    keys = {each.shade: drawing.key(each.shade, each.words) for row in rows for each in row.stretches}
    cells = [
        [row.name, each.words, scales.length((each.since - since).total_seconds()), _took(each)]
        for row in rows
        for each in row.stretches
    ]
    table = drawing.table(label, ["Of", "What", "After", "Took"], cells)
    return drawing.figure(label, keys.values(), axes, table)


def _elapsed(since: datetime, until: datetime, height: int) -> Iterable[Safe]:
    span = max(until - since, SHORTEST)
    for each in scales.lengths(span):
        x = drawing.percent(each / span)
        yield tag("line", x1=x, x2=x, y1="0", y2=str(height), class_="grid")
        words = scales.length(each.total_seconds())
        yield tag("text", words, x=x, y=str(height + drawing.BELOW - 6), class_="tick")


def _stretch(each: Stretch, since: datetime, until: datetime, top: int, name: str = "") -> Safe:
    span = max(until - since, SHORTEST)
    start, end = (min(1.0, max(0.0, (at - since) / span)) for at in (each.since, each.until))
    return tag(
        "rect",
        x=drawing.percent(start),
        y=str(top) if top else None,
        width=drawing.percent(max(0.0, end - start)),
        height=str(LINE),
        class_=f"stretch shade-{each.shade}",
        data_words=each.words,
        data_of=name or None,
        data_took=_took(each),
        data_since=str(int(each.since.timestamp() * 1000)),
    )


def _took(each: Stretch) -> str:
    return scales.length((each.until - each.since).total_seconds())
