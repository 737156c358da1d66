"""Format the lines that `top` shows, for screens that are at least 80 characters wide. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from textwrap import wrap

from msgspec import Struct
from rich.text import Text

from hookline.model.alerts import Alert, Severity, UnhealthyEndpoint
from hookline.model.depths import Depths
from hookline.model.states import Circuit, EndpointStatus
from hookline.observe.fleet_overview import Overview, Quantiles, Rate
from hookline.rules.checks.text import clean, lasting

BLOCKS = " ▁▂▃▄▅▆▇█"
QUIET = "bright_black"
_LABEL = 10
_NUMBER = 11
FEWER_ALERTS = (3, 1)  # if the screen is too small for all alerts, these numbers of alerts are tried in turn


class Picture(Struct, frozen=True, kw_only=True):
    database: str
    overview: Overview
    depths: Depths
    alerts: list[Alert]  # alerts that fire now
    unhealthy: dict[int, UnhealthyEndpoint]  # by endpoint number: those that fail most, or whose circuit is not closed
    trouble: str | None = None  # why the picture could not be updated


def lines(picture: Picture, width: int, *, max_alerts: int | None = None) -> list[Text]:
    parts = (
        _head(picture),
        _alerts(picture.alerts, picture.depths.at, width, max_alerts),
        _rates(picture.overview.rates),
        _waiting(picture.depths, picture.overview.outbox_lag),
        _latencies(picture.overview),
        _distribution(picture.overview),
        _lanes(picture.depths),
        _failing(picture),
    )
    found = [line for part in parts for line in (*part, Text())]
    for line in found:
        line.truncate(width, overflow="ellipsis")
    return found[:-1]


def screen(picture: Picture, width: int, height: int) -> list[Text]:
    """Return the lines that fit. If there are too many, leave out empty lines first, then alerts."""
    for max_alerts in (len(picture.alerts), *FEWER_ALERTS):
        found = lines(picture, width, max_alerts=max_alerts)
        if len(found) >= height:
            found = [line for line in found if line.plain]
        if len(found) < height:
            break
    return found[: height - 1]


# ── sections of the screen ────────────────────────────────────────────────────────────────────────────────────────


def _head(picture: Picture) -> Iterator[Text]:
    seen = picture.overview
    fleet = "no process has reported in the last half minute"
    if seen.processes:
        processes = f"{seen.processes:,} {'process' if seen.processes == 1 else 'processes'}"
        fleet = f"{processes}, {seen.in_flight:,} of {seen.slots:,} requests in flight"
    yield Text.assemble(
        ("hookline top", "bold"), f"  {clean(picture.database)}  ", (f"{seen.at.astimezone():%H:%M:%S}", QUIET)
    )
    yield Text(fleet, "" if seen.processes else "yellow")
    if picture.trouble is not None:
        yield Text(f"! {clean(picture.trouble)}; this is the last known state", "red")


def _alerts(alerts: Sequence[Alert], now: datetime, width: int, limit: int | None) -> Iterator[Text]:
    if not alerts:
        yield _row("alerts", ("● none", "green"))
    worst_first = sorted(alerts, key=lambda each: (-each.severity.rank, each.fired_at))
    for at, alert in enumerate(worst_first[:limit]):
        style = "red" if alert.severity == Severity.CRITICAL else "yellow"
        since = lasting(max(0.0, (now - alert.began_at).total_seconds()))
        about = f" {clean(alert.subject)}" if alert.subject else ""
        yield _row("alerts" if at == 0 else "", (f"✕ {clean(alert.name)}{about} for {since}", style))
        for line in wrap(clean(alert.text), max(20, width - _LABEL - 2)):
            yield _row("", (f"  {line}", QUIET))
    if limit is not None and len(alerts) > limit:
        yield _row("", (f"and {len(alerts) - limit} more: hookline alerts list", "yellow"))


def _rates(rates: Mapping[str, Rate]) -> Iterator[Text]:
    yield Text(f"{'a second':<{_LABEL}}{'1 min':>{_NUMBER}}{'5 min':>{_NUMBER}}  the last 5 minutes", QUIET)
    for name, rate in rates.items():
        bad = name == "dead" and rate.window > 0
        figures = f"{_figure(rate.recent):>{_NUMBER}}{_figure(rate.window):>{_NUMBER}}  "
        yield _row(name, (figures, "red" if bad else ""), (curve(rate.curve), "red" if bad else "cyan"))


def _waiting(depths: Depths, behind: float) -> Iterator[Text]:
    late = f", the oldest for {lasting(depths.backlog_age)}" if depths.due else ""
    yield _row("waiting", f"{depths.due:,} due{late}; {depths.held:,} held back")
    yield _row("open", _named(depths.states))
    total = sum(depths.dead.values())
    reasons = f": {_named({reason: count for reason, count in depths.dead.items() if count})}" if total else ""
    yield _row("dead", (f"{total:,} unresolved{reasons}", "red" if total else ""))
    lag = f", the oldest for {lasting(depths.outbox_lag)}" if depths.outbox_waiting else ""
    aside = f"; {depths.outbox_set_aside:,} set aside" if depths.outbox_set_aside else ""
    others = f"; an application's: behind for {lasting(behind)}" if behind else ""
    yield _row("outbox", f"{depths.outbox_waiting:,} waiting{lag}", (aside, "red"), (others, "yellow"))


def _latencies(seen: Overview) -> Iterator[Text]:
    yield Text(f"{'latency':<{_LABEL}}{'p50':>{_NUMBER}}{'p95':>{_NUMBER}}{'p99':>{_NUMBER}}", QUIET)
    yield _quantiles("first", seen.first_attempt, "accepted to the first attempt")
    yield _quantiles("delivered", seen.latency, "accepted to delivered")
    yield _quantiles("request", seen.request, "one attempt")


def _quantiles(name: str, found: Quantiles, about: str) -> Text:
    figures = "".join(f"{'-' if each is None else lasting(each):>{_NUMBER}}" for each in found.values())
    return _row(name, figures, (f"  {about}", QUIET))


def _distribution(seen: Overview) -> Iterator[Text]:
    """Show how many attempts deliveries needed, and the results of attempts."""
    if seen.attempts:
        first, second, third = (*seen.attempts, 0.0, 0.0)[:3]
        rest = max(0.0, 1.0 - first - second - third)
        shares = (("1st", first), ("2nd", second), ("3rd", third), ("later", rest))
        yield _row("attempts", "   ".join(f"{name} {part:.1%}" for name, part in shares))
    if seen.results:
        total = sum(seen.results.values())
        ordered = sorted(seen.results.items(), key=lambda found: -found[1])
        yield _row("results", "   ".join(f"{clean(name)} {count / total:.1%}" for name, count in ordered[:6]))
    if not seen.attempts and not seen.results:
        yield _row("attempts", ("none in the last 5 minutes", QUIET))


def _lanes(depths: Depths) -> Iterator[Text]:
    shut = sum(count for name, count in depths.circuits.items() if name != "closed")
    yield _row("circuits", (_named(depths.circuits), "magenta" if shut else ""))
    if any(depths.lanes.values()):
        yield _row("lanes", (_named({name: count for name, count in depths.lanes.items() if count}), "magenta"))


def _failing(picture: Picture) -> Iterator[Text]:
    failing = picture.overview.failing
    shut = [one for no, one in picture.unhealthy.items() if no not in failing and one.circuit != Circuit.CLOSED]
    if not failing and not shut:
        return
    yield Text(f"{'failing endpoints':<32}{'failed':>8}{'of':>9}  state", QUIET)
    for no, (good, failed) in failing.items():
        if no in picture.unhealthy:
            yield _endpoint(picture.unhealthy[no], f"{failed / (good + failed):.0%}", f"{good + failed:,}")
    for one in shut:
        yield _endpoint(one, "-", "-")


def _endpoint(one: UnhealthyEndpoint, failed: str, attempts: str) -> Text:
    healthy = one.status == EndpointStatus.ACTIVE and one.circuit == Circuit.CLOSED
    state = one.status.name.lower()
    if one.status == EndpointStatus.ACTIVE:
        state = f"circuit {one.circuit.name.lower().replace('_', '-')}"
    figures = f"{one.endpoint_id:<32}{failed:>8}{attempts:>9}  "
    return Text.assemble(
        figures, (state, "" if healthy else "magenta"), (f"  {clean(one.app_uid or one.app_id)}", QUIET)
    )


# ── lines and numbers within a section ────────────────────────────────────────────────────────────────────────────


def _row(name: str, *rest: str | tuple[str, str]) -> Text:
    return Text.assemble((f"{name:<{_LABEL}}", QUIET), *rest)


def _named(counts: Mapping[str, int]) -> str:
    return "   ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())


def _figure(rate: float) -> str:
    if rate >= 100:
        return f"{rate:,.0f}"
    return f"{rate:.1f}" if rate >= 1 or rate == 0 else f"{rate:.2f}"


def curve(values: Iterable[float]) -> str:
    """Draw values as blocks, relative to the highest value. A value above zero is always visible."""
    given = list(values)
    highest = max(given, default=0.0)
    if highest <= 0:
        return BLOCKS[0] * len(given)
    steps = len(BLOCKS) - 1
    return "".join(BLOCKS[max(1, round(value / highest * steps)) if value > 0 else 0] for value in given)
