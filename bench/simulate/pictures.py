"""The charts and tables of all experiments, for `docs/simulations/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.simulate import fleet, isolation
from bench.simulate.fleet import BACKLOGS, SAMPLE, Case, Tally, percentile
from bench.simulate.outage import AWAY, MESSAGES, SOON, Drain, Fragile, Limited, Outcome
from bench.simulate.plans import DEFAULT, EXPONENTIAL, FULL_JITTER
from bench.simulate.plot import Axis, Curve, Page, Span, chart, panels

BACK = AWAY.total_seconds()
NEVER = "not all delivered in the simulated time"
DOWN = (Span(-BACK, 0, "down"),)


# ── one endpoint ──────────────────────────────────────────────────────────────────────────────────────────────────


def outage_load(outcomes: Sequence[Outcome]) -> str:
    page = Page(
        name="outage",
        title=f"Load on an endpoint that was down for {BACK:.0f} s, {MESSAGES:,} messages waiting",
        description=_described(outcomes, "The endpoint's requests in each second, one row per plan."),
        x=Axis("seconds after its return", -BACK, 90),
        y=_up_to("requests in each second, all rows to one scale", [outcome.seen.load() for outcome in outcomes]),
        start=-BACK,
        spans=DOWN,
    )
    return panels(page, [_row(outcome, f"{outcome.seen.wasted:,} failed requests", BACK) for outcome in outcomes])


def first_seconds(outcomes: Sequence[Outcome]) -> str:
    chosen = [outcome for outcome in outcomes if outcome.plan in (EXPONENTIAL, FULL_JITTER) or outcome.ours]
    tails = [_from_first_answer(outcome) for outcome in chosen]
    page = Page(
        name="recovery",
        title="The same, from the first answered request on",
        description=_described(chosen, "Requests in each second from the first answer on, on a logarithmic scale."),
        x=Axis("seconds after the first answer", 0, 20),
        y=Axis("requests in each second, logarithmic", 0, max(map(max, tails)), log=True),
    )
    styles = {True: 0, False: 1}
    return chart(
        page,
        [
            Curve(outcome.plan.name, tail, style=2 if outcome.plan is FULL_JITTER else styles[outcome.ours])
            for outcome, tail in zip(chosen, tails, strict=True)
        ],
    )


def fragile_load(outcomes: Sequence[Outcome]) -> str:
    page = Page(
        name="fragile",
        title=f"The same, when more than {Fragile.LIMIT} requests in a second knock it down again",
        description=_described(outcomes, "The endpoint's requests in each second, one row per plan."),
        x=Axis("seconds after its first return", -BACK, 210),
        y=_up_to("requests in each second, all rows to one scale", [outcome.seen.load() for outcome in outcomes]),
        start=-BACK,
        spans=DOWN,
    )
    return panels(page, [_row(outcome, f"knocked down again: {_falls(outcome)}", BACK) for outcome in outcomes])


def limited_load(outcomes: Sequence[Outcome]) -> str:
    page = Page(
        name="limited",
        title=f"An endpoint that takes {Limited.LIMIT} requests a second and answers 429 to the rest",
        description=_described(outcomes, "The endpoint's requests in each second, one row per plan."),
        x=Axis("seconds", 0, 120),
        y=_up_to("requests in each second, all rows to one scale", [outcome.seen.load() for outcome in outcomes]),
    )
    return panels(page, [_row(outcome, f"{_refused(outcome):,} refused", 0) for outcome in outcomes])


def outage_table(outcomes: Sequence[Outcome]) -> str:
    head = (
        "plan",
        f"most in a second, within {SOON} s of its return",
        f"most in a second, within {SOON} s of its first answer",
        "first delivered after its return",
        "all delivered after its return",
        "all delivered after the first",
        "failed requests",
        f"used up {DEFAULT.max_attempts} attempts",
    )
    return _table(head, map(_outage_row, outcomes))


def _outage_row(outcome: Outcome) -> tuple[str, ...]:
    seen, first = outcome.seen, outcome.answered_at
    return (
        _name(outcome),
        f"{seen.peak(BACK, BACK + SOON):,}",
        f"{seen.peak(first, first + SOON):,}",
        f"{first - BACK:,.1f} s",
        _after(outcome, BACK),
        _after(outcome, first),
        f"{seen.wasted:,}",
        f"{seen.worn_out:,}",
    )


def drain_table(found: Sequence[Drain]) -> str:
    head = ("messages waiting", "unlimited sending", "Hookline, after an outage", "Hookline takes longer by")
    rows = (
        (f"{one.messages:,}", f"{one.unlimited:,.1f} s", f"{one.ours:,.1f} s", f"{one.ours - one.unlimited:,.1f} s")
        for one in found
    )
    return _table(head, rows)


def fragile_table(outcomes: Sequence[Outcome]) -> str:
    head = ("plan", "knocked down again", "all delivered after its first return", "failed requests", _USED_UP)
    rows = (
        (
            _name(outcome),
            _falls(outcome),
            _after(outcome, BACK),
            f"{outcome.seen.wasted:,}",
            f"{outcome.seen.worn_out:,}",
        )
        for outcome in outcomes
    )
    return _table(head, rows)


def limited_table(outcomes: Sequence[Outcome]) -> str:
    head = ("plan", "most in a second", "all delivered after", "refused with 429", _USED_UP)
    rows = (
        (
            _name(outcome),
            f"{max(outcome.seen.load()):,}",
            _after(outcome, 0),
            f"{_refused(outcome):,}",
            f"{outcome.seen.worn_out:,}",
        )
        for outcome in outcomes
    )
    return _table(head, rows)


_USED_UP = f"used up {DEFAULT.max_attempts} attempts"


def _name(outcome: Outcome) -> str:
    return f"**{outcome.plan.name}**" if outcome.ours else outcome.plan.name


def _row(outcome: Outcome, what: str, origin: float) -> Curve:
    drained = outcome.drained_at is not None
    return Curve(
        outcome.plan.name,
        outcome.seen.load(),
        note=_ending(outcome, what, origin),
        ended=drained,
        style=0 if outcome.ours else 5,
    )


def _after(outcome: Outcome, origin: float) -> str:
    return NEVER if outcome.drained_at is None else f"{outcome.drained_at - origin:,.1f} s"


def _ending(outcome: Outcome, what: str, origin: float) -> str:
    done = NEVER if outcome.drained_at is None else f"all delivered after {_after(outcome, origin)}"
    return f"{what}, {done}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times" if number else "never"


def _falls(outcome: Outcome) -> str:
    assert isinstance(outcome.endpoint, Fragile)
    return _times(outcome.endpoint.falls)


def _refused(outcome: Outcome) -> int:
    assert isinstance(outcome.endpoint, Limited)
    return outcome.endpoint.refused


def _from_first_answer(outcome: Outcome) -> list[int]:
    bins = outcome.seen.bins[round(outcome.answered_at * 10) :]
    return [sum(bins[first : first + 10]) for first in range(0, len(bins), 10)]


def _up_to(label: str, loads: Iterable[Sequence[int]]) -> Axis:
    return Axis(label, 0, max(map(max, loads)))


def _described(outcomes: Sequence[Outcome], what: str) -> str:
    peaks = "; ".join(f"{outcome.plan.name}: at most {max(outcome.seen.load()):,}" for outcome in outcomes)
    return f"{what} {peaks}."


# ── the fleet ─────────────────────────────────────────────────────────────────────────────────────────────────────

Tallies = Mapping[Case, Tally]
QUARTILES = ((0.5, "half"), (0.99, "99 %"), (0.999, "99.9 %"), (1.0, "all"))


def fleet_course(tallies: Tallies) -> str:
    """Draw the open deliveries over two hours from the first message on."""
    curves = _curves(tallies, {case: tally.open_by_sample for case, tally in tallies.items()})
    page = Page(
        name="fleet",
        title="Open deliveries of 100,000 endpoints, a third of them failing at times",
        description="Open deliveries every half minute over two hours; messages are accepted in the first. "
        + _at_most(curves),
        x=Axis("minutes", 0, 120),
        y=Axis("open deliveries", 0, max(max(curve.values) for curve in curves)),
        width=SAMPLE.total_seconds() / 60,
    )
    return chart(page, curves)


def fleet_requests(tallies: Tallies) -> str:
    seconds = SAMPLE.total_seconds()
    chosen = (Case.OURS, Case.WITHOUT_CIRCUIT)
    curves = _curves(tallies, {case: [n / seconds for n in tallies[case].sick_requests_by_sample] for case in chosen})
    page = Page(
        name="fleet-requests",
        title="Requests to endpoints that were failing at that moment",
        description="Requests a second, every half minute over two hours. " + _at_most(curves),
        x=Axis("minutes", 0, 120),
        y=Axis("requests a second, all endpoints together", 0, max(max(curve.values) for curve in curves)),
        width=seconds / 60,
    )
    return chart(page, curves, height=220)


STYLES = {Case.OURS: 0, Case.WITHOUT_CIRCUIT: 1, Case.WITHOUT_SICK: 2}


def _curves(tallies: Tallies, samples: Mapping[Case, Sequence[float]]) -> list[Curve]:
    """Return one curve per case. If only some workers of a case were simulated, its values are scaled up."""
    most = max(tally.workers for tally in tallies.values())
    curves = []
    for case, values in samples.items():
        times = most // tallies[case].workers
        name = case if times == 1 else f"{case} ({_part(tallies, case)}, times {times})"
        curves.append(Curve(name, [value * times for value in values], style=STYLES[case]))
    return curves


def _part(tallies: Tallies, case: Case) -> str:
    most = max(tally.workers for tally in tallies.values())
    return f"{tallies[case].workers} of {most} workers"


def _at_most(curves: Sequence[Curve]) -> str:
    return "; ".join(f"{curve.name}: at most {max(curve.values):,.0f}" for curve in curves) + "."


def fleet_table(tallies: Tallies) -> str:
    rows: list[tuple[str, ...]] = [
        ("simulated", *(_part(tallies, case) for case in tallies)),
        _across(
            tallies,
            "endpoints, and how many of them fail at times",
            lambda tally: f"{tally.endpoints:,}, {tally.sick:,}",
        ),
        _across(tallies, "messages", lambda tally: f"{tally.accepted:,}"),
        _across(tallies, "open when the last message was accepted", lambda tally: f"{tally.open_after_hour:,}"),
        _across(tallies, "open an hour later", lambda tally: f"{tally.open_after_two:,}"),
        _across(tallies, "delivered in the end", lambda tally: f"{tally.delivered:,}"),
        _across(tallies, "dead in the end", lambda tally: f"{tally.dead:,}"),
        _across(
            tallies, "requests, and how many of them failed", lambda tally: f"{tally.requests:,}, {tally.failed:,}"
        ),
        _across(tallies, "most in flight at one worker", lambda tally: f"{max(tally.most_in_flight):,} of 512"),
    ]
    return _table(("", *tallies), rows)


def latency_table(tallies: Tallies) -> str:
    def spread(histogram: Mapping[int, int]) -> tuple[str, ...]:
        return tuple(_duration(percentile(histogram, part)) for part, _ in QUARTILES)

    rows: list[tuple[str, ...]] = []
    for case, tally in tallies.items():
        rows.append((f"healthy endpoints in the run *{case}*: from accepted to claimed", *spread(tally.waits)))
        rows.append(
            (f"healthy endpoints in the run *{case}*: from accepted to delivered", *spread(tally.latency["healthy"]))
        )
    rows.append(
        (
            f"failing endpoints in the run *{Case.OURS}*: from accepted to delivered",
            *spread(tallies[Case.OURS].latency["sick"]),
        )
    )
    return _table(("time of deliveries to", *(name for _, name in QUARTILES)), rows)


def isolation_table(outcomes: Sequence[isolation.Outcome]) -> str:
    head = (
        "applications",
        "endpoints that hang",
        "waits: half",
        "99 %",
        "all",
        "most requests in flight to endpoints that hang",
    )
    return _table(
        head,
        (
            (
                "one for all endpoints" if one.together else "one for each endpoint",
                one.crowd.name,
                *(f"{percentile(one.waits, part):,} ms" for part in (0.5, 0.99, 1.0)),
                f"{one.most_hanging:,}",
            )
            for one in outcomes
        ),
    )


def recovery_table(tally: Tally) -> str:
    rows: list[tuple[str, ...]] = []
    for _, name in BACKLOGS:
        peaks = tally.peaks[name]
        spread = [f"{percentile(peaks, part):,}" for part in (0.5, 0.99, 1.0)]
        rows.append((name, f"{sum(peaks.values()):,}", *spread))
    return _table(("messages waiting", "recoveries", "requests in the busiest second: half", "99 %", "all"), rows)


def probes_table(tally: Tally) -> str:
    spread = (f"{percentile(tally.probed, part):,}" for part in (0.5, 0.99, 1.0))
    head = ("failing endpoints", "probes in 25 hours", "half got at most", "99 % got at most", "all got at most")
    return _table(head, [(f"{tally.sick:,}", f"{tally.probes:,}", *spread)])


def _across(tallies: Tallies, name: str, value: fleet.Reading) -> tuple[str, ...]:
    return (name, *(value(tally) for tally in tallies.values()))


def _duration(millis: int) -> str:
    if millis < 1_000:
        return f"{millis} ms"
    if millis < 120_000:
        return f"{millis / 1_000:.1f} s"
    return f"{millis / 60_000:,.0f} min"


# ── markdown ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
