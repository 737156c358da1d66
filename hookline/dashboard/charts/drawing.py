"""The parts of charts: paths, axes, legends, and the table with the same values.

The server does not know the width of the page. So paths use their own units and the browser stretches them; everything
else is placed by percentages. Colours are CSS classes, because the content security policy forbids inline styles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

from hookline.dashboard.charts import scales
from hookline.web.html import Child, Safe, join, tag

WIDE = 1000  # width of the drawing in SVG units; the browser stretches it to the available width
HEADROOM = 1  # pixels above the highest value, so that its line is not cut
BELOW = 22  # pixels for the labels of the time axis
MAX_ROWS = 20  # maximum rows of the table under a chart; if the chart has more values, the table leaves some out
MIN_WIDTH = 4  # a single value is drawn as a line that extends this far to its left and right, in units of the path

Values = Sequence[float | None]
_Run = list[tuple[float, float]]


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def places(times: Sequence[datetime]) -> list[float]:
    """Return the position of each time between the first (0) and the last (1)."""
    if len(times) < 2:
        return [1.0] * len(times)
    span = (times[-1] - times[0]).total_seconds() or 1.0
    return [(at - times[0]).total_seconds() / span for at in times]


def edge(values: Values, at: Sequence[float], highest: float, height: int) -> str:
    """Return the path of a line through the values. The line has a gap where a value is unknown."""
    return "".join(f"M{_through(run)}" for run in _runs(values, at, highest, height))


def area(values: Values, at: Sequence[float], highest: float, height: int) -> str:
    """Return the path of the area between the line and the bottom."""
    return "".join(f"M{run[0][0]:.0f} {height}L{_through(run)}V{height}z" for run in _runs(values, at, highest, height))


def _runs(values: Values, at: Sequence[float], highest: float, height: int) -> list[_Run]:
    runs: list[_Run] = [[]]
    for value, place in zip(values, at, strict=True):
        if value is None:
            runs.append([])
        else:
            part = min(1.0, max(0.0, value) / highest)
            runs[-1].append((WIDE * place, height - part * (height - HEADROOM)))
    return [_widened(run) for run in runs if run]


def _widened(run: _Run) -> _Run:
    """Give a single value some width. A line through one point would be invisible."""
    if len(run) > 1:
        return run
    [(x, y)] = run
    return [(max(0.0, x - MIN_WIDTH), y), (min(float(WIDE), x + MIN_WIDTH), y)]


def _through(run: _Run) -> str:
    """Return the points of a line as text for an SVG path. One call formats all of them, with short numbers, because a
    page has thousands of points."""
    text = "L".join(["%.0f %.1f"] * len(run)) % tuple(chain.from_iterable(run))
    return text.replace(".0L", "L").removesuffix(".0")


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def percent(part: float) -> str:
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + "%"


def stretched(drawn: Iterable[Safe], height: int) -> Safe:
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {WIDE} {height}",
        preserveAspectRatio="none",
        width="100%",
        height=str(height),
        class_="stretched",
    )


# ── axes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def values_axis(ticks: Sequence[float], height: int, *, seconds: bool) -> Safe:
    """Return the labels of the value axis, which are beside the drawing."""
    labels = (
        tag("text", scales.short(tick, seconds=seconds), x="100%", y=number(_height(tick, ticks, height) + 4))
        for tick in ticks
    )
    return tag("svg", *labels, height=str(height + BELOW), class_="values", aria_hidden="true")


def grid(ticks: Sequence[float], height: int) -> Iterable[Safe]:
    for tick in ticks:
        y = number(round(_height(tick, ticks, height)) + 0.5)
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="base" if tick == 0 else "grid")


def _height(tick: float, ticks: Sequence[float], height: int) -> float:
    return height - tick / ticks[-1] * (height - HEADROOM)


def time_axis(since: datetime, until: datetime, height: int) -> Iterable[Safe]:
    """Return the labels of the time axis in UTC. A script converts them to the viewer's time zone."""
    span = (until - since).total_seconds() or 1.0
    found, step = scales.instants(since, until)
    for at in found:
        yield tag(
            "text",
            scales.label(at, step),
            x=percent((at - since).total_seconds() / span),
            y=str(height + BELOW - 6),
            class_="tick",
            data_tick=str(int(at.timestamp())),
            data_step=str(step),
        )


def within(since: datetime, until: datetime) -> dict[str, str]:
    """Return the data attributes that the script needs to move time labels to full hours or days of the viewer's
    time zone."""
    return {"data_since": str(since.timestamp()), "data_until": str(until.timestamp())}


# ── figure, legend and plot around a drawing ──────────────────────────────────────────────────────────────────────


def figure(label: str, keys: Iterable[Safe], drawing: Safe, table: Safe) -> Safe:
    legend = tag("ul", *(tag("li", key) for key in keys), class_="legend")
    return tag("figure", tag("figcaption", tag("b", label), legend), drawing, table, class_="chart")


def key(shade: str, name: Child, value: str | None = None, dash: str = "") -> Safe:
    """Return one entry of a legend."""
    swatch = tag("span", class_=f"swatch shade-{shade} {dash}".rstrip(), aria_hidden="true")
    return join(swatch, name, tag("b", value) if value is not None else None)


def plot(label: str, *drawn: Child, height: int, **data: str) -> Safe:
    """Return the drawing. The pointer and the arrow keys move from value to value."""
    inner = tag("svg", *drawn, width="100%", height=str(height), aria_hidden="true")
    words = f"{label}: read its values with the arrow keys"
    return tag("div", inner, class_="plot", tabindex="0", role="group", aria_label=words, **data)


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Child]]) -> Safe:
    """Return the values as a table, for screen readers and for people who want the numbers."""
    every = -(-len(rows) // MAX_ROWS) or 1
    note = f" (one in {every} of the values)" if every > 1 else ""
    head = tag("tr", *(tag("th", name, scope="col") for name in columns))
    shown = list(reversed(rows))[::every]
    body = (tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in shown)
    inner = tag("table", tag("caption", f"{caption}{note}", class_="unseen"), tag("thead", head), tag("tbody", *body))
    summary = tag("summary", "Data", aria_label=f"{caption}: as a table")
    scrolled = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=f"{caption}: values")
    return tag("details", summary, scrolled, class_="data")


def instant(at: datetime) -> Safe:
    return tag("time", f"{at:%Y-%m-%d %H:%M} UTC", datetime=f"{at:%Y-%m-%dT%H:%M:%SZ}", data_clock="minute")
