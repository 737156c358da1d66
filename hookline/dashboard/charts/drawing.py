"""What charts are drawn with: paths, axes, legends, and the table of the same values. Pure.

A drawing is as wide as its page, which the server does not know: paths are in units of their own and stretched, everything else
is placed by percentages. Colours are classes, because the policy of these pages allows no style in the markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

from hookline.dashboard.charts import scales
from hookline.web.html import Child, Safe, join, tag

WIDE = 1000  # units of a path, whatever the width of the page
HEADROOM = 1  # pixels above the highest value, so that its line is not cut
BELOW = 22  # pixels for the ticks of time
MAX_ROWS = 20  # of the table that goes with a chart
LEAST = 4  # units of a value that stands alone

Values = Sequence[float | None]
_Run = list[tuple[float, float]]


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def places(times: Sequence[datetime]) -> list[float]:
    """Where each is between the first and the last: from 0 to 1."""
    if len(times) < 2:
        return [1.0] * len(times)
    span = (times[-1] - times[0]).total_seconds() or 1.0
    return [(at - times[0]).total_seconds() / span for at in times]


def edge(values: Values, at: Sequence[float], highest: float, height: int) -> str:
    """A line through the values, broken where one is not known."""
    return "".join(f"M{_through(run)}" for run in _runs(values, at, highest, height))


def area(values: Values, at: Sequence[float], highest: float, height: int) -> str:
    """From the line through the values down to the bottom."""
    return "".join(f"M{run[0][0]:.0f} {height}L{_through(run)}V{height}z" for run in _runs(values, at, highest, height))


def _runs(values: Values, at: Sequence[float], highest: float, height: int) -> list[_Run]:
    runs: list[_Run] = [[]]
    for value, place in zip(values, at, strict=True):
        if value is None:
            runs.append([])
        else:
            part = min(1.0, max(0.0, value) / highest)
            runs[-1].append((WIDE * place, height - part * (height - HEADROOM)))
    return [_seen(run) for run in runs if run]


def _seen(run: _Run) -> _Run:
    """One value alone has no width: it gets some."""
    if len(run) > 1:
        return run
    [(x, y)] = run
    return [(max(0.0, x - LEAST), y), (min(float(WIDE), x + LEAST), y)]


def _through(run: _Run) -> str:
    """In one go, and the numbers as short as `number` makes them: a page has thousands."""
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


def values_axis(ticks: Sequence[float], unit: str, height: int) -> Safe:
    """Beside the drawing."""
    labels = (
        tag("text", scales.short(tick, unit), x="100%", y=number(_height(tick, ticks, height) + 4)) for tick in ticks
    )
    return tag("svg", *labels, height=str(height + BELOW), class_="values", aria_hidden="true")


def grid(ticks: Sequence[float], height: int) -> Iterable[Safe]:
    for tick in ticks:
        y = number(round(_height(tick, ticks, height)) + 0.5)
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="base" if tick == 0 else "grid")


def _height(tick: float, ticks: Sequence[float], height: int) -> float:
    return height - tick / ticks[-1] * (height - HEADROOM)


def time_axis(since: datetime, until: datetime, height: int) -> Iterable[Safe]:
    """In UTC; the script puts them into the viewer's zone."""
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
    """What the script needs to know in order to move them."""
    return {"data_since": str(since.timestamp()), "data_until": str(until.timestamp())}


# ── around a drawing ──────────────────────────────────────────────────────────────────────────────────────────────


def figure(label: str, keys: Iterable[Safe], drawing: Safe, table: Safe) -> Safe:
    legend = tag("ul", *(tag("li", key) for key in keys), class_="legend")
    return tag("figure", tag("figcaption", tag("b", label), legend), drawing, table, class_="chart")


def key(shade: str, name: Child, value: str | None = None, dash: str = "") -> Safe:
    """One of a legend."""
    swatch = tag("span", class_=f"swatch shade-{shade} {dash}".rstrip(), aria_hidden="true")
    return join(swatch, name, tag("b", value) if value is not None else None)


def plot(label: str, *drawn: Child, height: int, **data: str) -> Safe:
    """The drawing itself, in which one can go from value to value: with the pointer, or with the arrow keys."""
    inner = tag("svg", *drawn, width="100%", height=str(height), aria_hidden="true")
    words = f"{label}: read its values with the arrow keys"
    return tag("div", inner, class_="plot", tabindex="0", role="group", aria_label=words, **data)


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Child]]) -> Safe:
    """For those who do not see the drawing, and for those who want the numbers."""
    every = -(-len(rows) // MAX_ROWS) or 1
    note = f" (one in {every} of the values)" if every > 1 else ""
    head = tag("tr", *(tag("th", name, scope="col") for name in columns))
    body = (
        tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest))
        for first, *rest in list(reversed(rows))[::every]
    )
    inner = tag("table", tag("caption", f"{caption}{note}", class_="unseen"), tag("thead", head), tag("tbody", *body))
    return tag(
        "details",
        tag("summary", "Data", aria_label=f"{caption}: as a table"),
        tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=f"{caption}: values"),
        class_="data",
    )


def instant(at: datetime) -> Safe:
    return tag("time", f"{at:%Y-%m-%d %H:%M} UTC", datetime=f"{at:%Y-%m-%dT%H:%M:%SZ}", data_clock="minute")
