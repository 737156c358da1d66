"""The timeline of a drill as SVG: acknowledged, delivered, dead and waiting messages over time, and the faults."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from bench.simulate.plot import Axis, Curve, Page, Span, chart
from tests.faults.drill import Outcome
from tests.faults.history import Told

STEPS = 240  # values of each curve


def timeline(outcome: Outcome, title: str) -> str:
    """Draw the drill. Dead letters are drawn from the last request of their message on."""
    history, start = outcome.history, outcome.started
    acknowledged = sorted(one.at - start for one in history.published if one.told is Told.ACKNOWLEDGED)
    delivered, dead = _ends(outcome)
    width = max(outcome.seconds, 1.0) / STEPS
    counts = [_counted(times, width) for times in (acknowledged, delivered, dead)]
    waiting = [max(0, a - b - c) for a, b, c in zip(*counts, strict=True)]
    page = Page(
        name=f"{outcome.drill}-{outcome.engine}",
        title=f"{title} ({'PostgreSQL' if outcome.engine == 'postgres' else 'SQLite'})",
        description=_described(outcome),
        x=Axis("seconds", 0, width * STEPS),
        y=Axis("messages; shaded: a fault", 0, float(max(1, *counts[0], *counts[1]))),
        width=width,
        spans=tuple(_spans(outcome, width)),
    )
    curves = [
        Curve("acknowledged", counts[0], ended=False, style=2),
        Curve("delivered", counts[1], ended=False, style=0),
        Curve("dead", counts[2], ended=False, style=1),
        Curve("waiting", waiting, ended=False, style=3),
    ]
    return chart(page, curves)


def _ends(outcome: Outcome) -> tuple[list[float], list[float]]:
    """Return when messages were first accepted, and when dead ones were last sent."""
    states = {one.message_id: one.state for one in outcome.history.deliveries}
    accepted: dict[str, float] = {}
    last: dict[str, float] = {}
    for one in sorted(outcome.history.arrivals, key=lambda one: one.at):
        last[one.message_id] = one.at - outcome.started
        if one.accepted:
            accepted.setdefault(one.message_id, one.at - outcome.started)
    dead = [last.get(message_id, outcome.seconds) for message_id, state in states.items() if state == "dead"]
    return sorted(accepted.values()), sorted(dead)


def _counted(times: Sequence[float], width: float) -> list[float]:
    return [float(bisect_right(times, (step + 1) * width)) for step in range(STEPS)]


def _spans(outcome: Outcome, width: float) -> list[Span]:
    """Return the faults. Only the first one of each kind has its name, because names would cover each other."""
    spans, named = [], set[str]()
    for fault in sorted(outcome.faults, key=lambda one: one.start):
        start = fault.start - outcome.started
        name = "" if fault.kind in named else fault.kind
        named.add(fault.kind)
        long = fault.end - fault.start > 2 * width
        spans.append(Span(start, fault.end - outcome.started if long else start, name))
    return spans


def _described(outcome: Outcome) -> str:
    faults = ", ".join(f"{count} times {kind}" for kind, count in outcome.kinds.items()) or "no fault"
    found = outcome.findings
    return (
        f"{outcome.messages:,} messages in {outcome.seconds:.0f} s; {faults}; {found.lost} lost; "
        f"{sum(found.duplicates.values()):,} sent twice"
    )
