"""The charts of the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from operator import itemgetter

from hookline.dashboard import components
from hookline.dashboard.charts import figures, series
from hookline.dashboard.charts.figures import Bar, Curve
from hookline.dashboard.charts.scales import exact
from hookline.dashboard.charts.series import Series
from hookline.dashboard.page_context import PageContext
from hookline.model.alerts import EarlierCheck
from hookline.model.measures import ATTEMPTS, SECONDS, quantile
from hookline.model.pulses import Pulse, Row
from hookline.observe.fleet_history import charted
from hookline.web.html import Safe

_QUANTILES = (("p50", 0.5, "delivered"), ("p95", 0.95, "scheduled"), ("p99", 0.99, "dead"))


def outcomes(context: PageContext, found: Series) -> Safe:
    label = f"Attempts {series.rate_words(context.span)}"
    return components.section("Attempts", figures.areas(label, found.curves(), found.times))


def backlog(steps: Sequence[Pulse], checks: Sequence[EarlierCheck]) -> Safe:
    """Draw the start delay of attempts (the time from the due time of an attempt to its start) and, if there are
    checks, the number of due deliveries.

    Each check of the alert rules stored the number of due deliveries. `checks` is empty if the checks do not cover the
    range of the chart.
    """
    times = [each.at for each in steps]
    late = [Curve(name="p95", shade="scheduled", values=[_at(0.95, each.lag) for each in steps])]
    age = figures.lines("Start delay (p95)", late, times, seconds=True)
    if checks:
        due = [Curve(name="due", shade="pending", values=_highest(checks, times))]
        age = components.columns(figures.lines("Due deliveries", due, times), age)
    return components.section("Backlog", age, id_="backlog")


def _highest(checks: Sequence[EarlierCheck], times: Sequence[datetime]) -> list[float | None]:
    """Return the largest backlog in each step of the chart. None: no check of the alert rules was in that step."""
    found: list[float | None] = []
    for begin, end in zip_longest(times, times[1:]):
        values = [each.backlog for each in checks if begin <= each.at and (end is None or each.at < end)]
        found.append(float(max(values)) if values else None)
    return found


def latency(context: PageContext, steps: Sequence[Pulse]) -> Safe:
    total, times = charted(steps, steps[0].at), [each.at for each in steps]
    curves = [
        Curve(name=name, shade=shade, values=[_at(part, each.latency) for each in steps])
        for name, part, shade in _QUANTILES
    ]
    totals = (("Accepted to the first attempt", total.first_latency), ("Accepted to delivered", total.latency))
    rows = [[words, *(length(_at(part, row)) for _, part, _ in _QUANTILES)] for words, row in totals]
    names = [name for name, _, _ in _QUANTILES]
    columns = [(name, itemgetter(at)) for at, name in enumerate(["", *names])]
    table = components.table(rows, columns, caption=f"Latency, {context.span.words.lower()}", numeric=names)
    chart = figures.lines("Accepted to delivered", curves, times, seconds=True)
    return components.section("Latency", table, chart, id_="latency")


def _at(part: float, row: Row) -> float | None:
    return quantile(part, row, SECONDS) if row else None


def length(seconds: float | None) -> str:
    return exact(seconds, seconds=True)


def attempts(steps: Sequence[Pulse]) -> Safe:
    used = charted(steps, steps[0].at).used[: len(ATTEMPTS) + 1]
    total, last = sum(used), max((at for at, count in enumerate(used) if count), default=-1)
    names = [*(f"{number:.0f}" for number in ATTEMPTS), f"more than {ATTEMPTS[-1]:.0f}"]
    found = []
    for at, (name, count) in enumerate(zip(names, used[: last + 1], strict=False)):
        noun = "attempt" if name == "1" else "attempts"
        words = f"{series.percent(count / total)}, {count:,.0f}"
        shade = "delivered" if at == 0 else "scheduled"
        found.append(Bar(name=f"{name} {noun}", value=count, words=words, shade=shade))
    return components.section("Attempts used", figures.bars("Attempts needed per successful delivery", found))


def dead_letters(context: PageContext, dead: Mapping[str, int]) -> Safe:
    found = []
    for reason, count in sorted(dead.items(), key=lambda each: (-each[1], each[0])):
        href = context.link("/dead-letters", reason=reason)
        found.append(Bar(name=reason, value=count, words=f"{count:,}", shade="dead", href=href))
    shown = figures.bars("Dead letters by reason", found) if found else components.quiet("No dead letters.")
    return components.section("Dead letters", shown, id_="dead")
