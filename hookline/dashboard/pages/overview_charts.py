"""The charts of the overview. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest

from hookline.dashboard import components
from hookline.dashboard.charts import figures, series
from hookline.dashboard.charts.figures import Bar, Curve
from hookline.dashboard.charts.scales import exact
from hookline.dashboard.charts.series import Series
from hookline.dashboard.page_context import PageContext
from hookline.model.alerts import EarlierCheck as Asked
from hookline.model.measures import ATTEMPTS, SECONDS, quantile
from hookline.model.pulses import Row
from hookline.observe import fleet_history
from hookline.observe.fleet_history import Work
from hookline.web.html import Child, Safe, tag

_QUANTILES = (("p50", 0.5, "delivered"), ("p95", 0.95, "scheduled"), ("p99", 0.99, "dead"))


def outcomes(context: PageContext, found: Series) -> Safe:
    label = f"Attempts {series.rate_words(context.span)}"
    return components.section("Attempts", figures.areas(label, found.curves(), found.times))


def backlog(steps: Sequence[Work], looks: Sequence[Asked]) -> Safe:
    """How much is due, where it is remembered for long enough, and how late what was sent was."""
    times = [each.at for each in steps]
    late = [Curve(name="p95", shade="scheduled", values=[_at(0.95, each.lag) for each in steps])]
    age = figures.lines("How late attempts started, 95 of 100 sooner than", late, times, unit="s")
    if not looks:
        return components.section("Backlog", age, id_="backlog")
    due = [Curve(name="due", shade="pending", values=_highest(looks, times))]
    return components.section(
        "Backlog", components.columns(figures.lines("Deliveries that are due", due, times), age), id_="backlog"
    )


def _highest(looks: Sequence[Asked], times: Sequence[datetime]) -> list[float | None]:
    """Of each step; None where nobody looked."""
    found: list[float | None] = []
    for begin, end in zip_longest(times, times[1:]):
        seen = [each.backlog for each in looks if begin <= each.at and (end is None or each.at < end)]
        found.append(float(max(seen)) if seen else None)
    return found


def latency(context: PageContext, steps: Sequence[Work]) -> Safe:
    total, times = fleet_history.together(steps, steps[0].at), [each.at for each in steps]
    curves = [
        Curve(name=name, shade=shade, values=[_at(part, each.latency) for each in steps])
        for name, part, shade in _QUANTILES
    ]
    rows: list[list[Child]] = [
        [words, *(length(_at(part, row)) for _, part, _ in _QUANTILES)]
        for words, row in (
            ("Accepted to the first attempt", total.first_latency),
            ("Accepted to delivered", total.latency),
        )
    ]
    return components.section(
        "Latency",
        components.table(
            ("", *(name for name, _, _ in _QUANTILES)),
            rows,
            caption=f"Latency, {context.span.words.lower()}",
            numeric=(1, 2, 3),
        ),
        figures.lines("Accepted to delivered", curves, times, unit="s"),
        id_="latency",
    )


def _at(part: float, row: Row) -> float | None:
    return quantile(part, row, SECONDS) if row else None


def length(seconds: float | None) -> str:
    return exact(seconds, "s")


def attempts(steps: Sequence[Work]) -> Safe:
    used = fleet_history.together(steps, steps[0].at).used[: len(ATTEMPTS) + 1]
    total, most = sum(used), max((at for at, count in enumerate(used) if count), default=-1)
    names = [*(f"{number:.0f}" for number in ATTEMPTS), f"more than {ATTEMPTS[-1]:.0f}"]
    found = [
        Bar(
            name=f"{name} {'attempt' if name == '1' else 'attempts'}",
            value=count,
            words=f"{series.percent(count / total)}, {count:,.0f}",
            shade="delivered" if at == 0 else "scheduled",
        )
        for at, (name, count) in enumerate(zip(names, used, strict=False))
        if at <= most
    ]
    return components.section(
        "Attempts used", figures.bars("Attempts that deliveries took until they were delivered", found)
    )


def dead_letters(context: PageContext, dead: Mapping[str, int]) -> Safe:
    found = [
        Bar(
            name=reason,
            value=count,
            words=f"{count:,}",
            shade="dead",
            href=context.link("/dead-letters", reason=reason),
        )
        for reason, count in sorted(dead.items(), key=lambda each: (-each[1], each[0]))
    ]
    if not found:
        return components.section(
            "Dead letters", tag("p", "None: nothing has been given up.", class_="quiet"), id_="dead"
        )
    return components.section("Dead letters", figures.bars("Dead letters by reason", found), id_="dead")
