"""The overview: what is wrong, what is done about it, and what is going on. `overview_view.py` draws what is read here.

Whoever runs the deployment sees all of it, from pulses and depths; an organization, an application and a customer see what is
theirs. Neither costs more the more was sent; an organization's grows with the number of its applications.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from hookline.dashboard import series
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.pages import alerts
from hookline.dashboard.pages.overview_view import MOST_TROUBLED, Fleet, Picture, body
from hookline.dashboard.series import Series
from hookline.errors import NotFound
from hookline.model import Backlog, DeadFilter, Depths
from hookline.observe.activity import MINUTE
from hookline.observe.history import Work
from hookline.observe.overview import ALIVE, living
from hookline.store.base import Page as Rows

MOST_ALERTS = 20
FRESH = 2.0  # seconds that a counting of what is open is good for
LOOKS_KEPT = timedelta(hours=2)  # of earlier backlogs


async def show(look: Look) -> Page:
    if look.app is None and look.param("app") is not None:
        raise NotFound(f"no application {look.param('app')!r}")  # never: all of them
    picture = await (_whole(look) if look.whole and look.app is None else _own(look))
    return Page(title="Overview", body=body(look, picture), rail="overview")


# ── the deployment ────────────────────────────────────────────────────────────────────────────────────────────────


async def _whole(look: Look) -> Picture:
    store, span, now = look.store, look.span, look.now
    depths = await store.depths(fresh=FRESH)
    steps = _steps(look, await _work(look))
    firing = await store.alerts(Rows(limit=MOST_ALERTS), firing=True)
    fleet = Fleet(
        depths=depths,
        alerts=firing,
        names=await alerts.names_of(look, firing),
        living=living(await store.pulses(now - ALIVE), now),
        steps=steps,
        looks=(await store.alert_looks(span.length.total_seconds())).looks if span.length <= LOOKS_KEPT else (),
    )
    return Picture(
        series=_outcomes(look, steps),
        backlog=_backlog(depths),
        dead={reason: count for reason, count in depths.dead.items() if count},
        troubled=await store.troubled(MOST_TROUBLED + 1),
        fleet=fleet,
    )


async def _work(look: Look) -> list[Work]:
    past, read = look.services.history, look.store.pulses
    since = series.begins(look.span, look.now)
    if look.span.grain == MINUTE:
        return await past.minutes(read, since)
    return await past.quarters(read, since, look.now)


def _steps(look: Look, found: Sequence[Work]) -> list[Work]:
    length, first = series.step(look.span), series.begins(look.span, look.now)
    steps = [Work(at=first + at * length) for at in range(look.span.steps)]
    for each in found:
        at = (each.at - first) // length
        if 0 <= at < len(steps):
            steps[at].take(each)
    return steps


def _outcomes(look: Look, steps: Sequence[Work]) -> Series:
    delivered = [round(each.delivered) for each in steps]
    retried = [round(each.retried) for each in steps]
    dead = [round(each.dead) for each in steps]
    over = series.drawn(series.steps(look.span, look.now), delivered, retried, dead)
    return Series(times=[each.at for each in steps], delivered=delivered, retried=retried, dead=dead, over=over)


def _backlog(depths: Depths) -> Backlog:
    stopped = depths.lanes["paused"] + depths.lanes["disabled"]
    shut = depths.circuits["open"] + depths.circuits["half_open"]
    return Backlog(
        lanes=sum(depths.circuits.values()) + stopped,
        held_lanes=stopped + shut + depths.lanes["held"],
        waiting=depths.due,
        held=depths.held,
        oldest_due=depths.oldest_due,
    )


# ── one organization or application ───────────────────────────────────────────────────────────────────────────────


async def _own(look: Look) -> Picture:
    store, span = look.store, look.span
    since = series.begins(span, look.now)
    did = await store.activity(since, org_id=look.org_id, app_no=look.app_no, grain=span.grain)
    dead = await store.dead_summary(DeadFilter(org_id=look.org_id, app_no=look.app_no))
    by_reason: Counter[str] = Counter()
    for group in dead.groups:
        by_reason[group.reason.value] += group.dead
    return Picture(
        series=series.laid_out(did, series.steps(span, look.now)),
        backlog=await store.backlog(look.org_id, look.app_no),
        dead=by_reason,
        more_dead=dead.more,
        troubled=await store.troubled(MOST_TROUBLED + 1, org_id=look.org_id, app_no=look.app_no),
    )


VIEWS = (View(path="/", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
