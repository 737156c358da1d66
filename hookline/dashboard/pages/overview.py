"""The overview page: problems, backlog, activity. This module reads the data; `overview_view.py` draws it.

Operators of the deployment see the data of all organizations: pulses and counts of the database. Others see only their
organization or application. The cost of a page does not grow with the number of messages. The page of an organization
costs more if the organization has more applications.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hookline.dashboard.charts import series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import alerts
from hookline.dashboard.pages.overview_view import MAX_UNHEALTHY, Fleet, OverviewData, body
from hookline.model.activity import MINUTE, Activity
from hookline.model.dead import DeadFilter
from hookline.model.depths import Backlog, Depths
from hookline.model.pulses import Pulse
from hookline.observe.fleet_history import charted
from hookline.observe.fleet_overview import ALIVE, living
from hookline.store import Page as Rows

MAX_ALERTS = 20
FRESH = 2.0  # seconds for which the counts of open deliveries are reused
CHECKS_KEPT = timedelta(hours=2)  # the store keeps the results of backlog checks for this time


@get("/", portal=True)
async def show(context: PageContext) -> Page:
    context.check_app()
    data = await (_deployment(context) if context.runs_deployment and context.app is None else _organization(context))
    return Page(title="Overview", body=body(context, data))


# ── the deployment ────────────────────────────────────────────────────────────────────────────────────────────────


async def _deployment(context: PageContext) -> OverviewData:
    store, span, now = context.store, context.span, context.now
    depths = await store.monitoring.depths(fresh=FRESH)
    steps = _steps(context, await _work(context))
    firing = await store.monitoring.alerts(Rows(limit=MAX_ALERTS), firing=True)
    fleet = Fleet(
        depths=depths,
        alerts=firing,
        names=await alerts.names_of(context, firing),
        living=living(await store.monitoring.pulses(now - ALIVE), now),
        steps=steps,
        checks=(await store.monitoring.alert_checks(span.length.total_seconds())).checks
        if span.length <= CHECKS_KEPT
        else (),
    )
    return OverviewData(
        series=_outcomes(context, steps),
        backlog=_backlog(depths),
        dead={reason: count for reason, count in depths.dead.items() if count},
        unhealthy=await store.history.unhealthy_lanes(MAX_UNHEALTHY + 1),
        fleet=fleet,
    )


async def _work(context: PageContext) -> list[Pulse]:
    past, read = context.services.history, context.store.monitoring.pulses
    since = series.begins(context.span, context.now)
    if context.span.grain == MINUTE:
        return await past.minutes(read, since)
    return await past.quarters(read, since, context.now)


def _steps(context: PageContext, found: Sequence[Pulse]) -> list[Pulse]:
    length, first = series.step(context.span), series.begins(context.span, context.now)
    groups: list[list[Pulse]] = [[] for _ in range(context.span.steps)]
    for each in found:
        at = (each.at - first) // length
        if 0 <= at < len(groups):
            groups[at].append(each)
    return [charted(group, first + at * length) for at, group in enumerate(groups)]


def _outcomes(context: PageContext, steps: Sequence[Pulse]) -> Series:
    found = []
    for each in steps:
        delivered, retried, dead = (round(each.attempts.get(name, 0.0)) for name in ("delivered", "retry", "dead"))
        found.append(Activity(at=each.at, delivered=delivered, retried=retried, dead=dead))
    return series.laid_out(found, series.steps(context.span, context.now))


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


async def _organization(context: PageContext) -> OverviewData:
    store = context.store
    dead = await store.repair.dead_summary(DeadFilter(org_id=context.org_id, app_no=context.app_no))
    return OverviewData(
        series=await series.read(context, context.app_no),
        backlog=await store.history.backlog(context.org_id, context.app_no),
        dead={reason.value: number for reason, number in dead.by_reason()},
        more_dead=dead.more,
        unhealthy=await store.history.unhealthy_lanes(MAX_UNHEALTHY + 1, org_id=context.org_id, app_no=context.app_no),
    )
