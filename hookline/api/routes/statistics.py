from __future__ import annotations

from datetime import timedelta
from typing import Any

from hookline.api.call import Call
from hookline.api.operation import Query, operation
from hookline.api.wire import statistics as wire
from hookline.api.wire.base import Instant
from hookline.model.stats import StatsFilter
from hookline.rules.checks import catalogue
from hookline.rules.checks import text as text_checks

LONGEST = timedelta(days=30)
DAY = timedelta(hours=24)

_APP = "/app/{app_id}"


class WindowQuery(Query, frozen=True, kw_only=True):
    since: Instant | None = None
    until: Instant | None = None


@operation("GET", f"{_APP}/endpoint/{{endpoint_id}}/stats", "v1.endpoint.get-stats")
async def of_endpoint(call: Call, asked: WindowQuery) -> wire.EndpointStats:
    """Count one endpoint's deliveries, by default over the last 30 days."""
    found = await call.endpoint()
    window = _window(call, asked, LONGEST)
    where = StatsFilter(org_id=found.org_id, app_no=found.app_no, endpoint_no=found.no, **window)
    return wire.endpoint_stats(await call.store.monitoring.stats(where))


@operation("GET", f"{_APP}/stats", "v1.statistics.application")
async def of_application(call: Call, asked: WindowQuery) -> wire.StatsOut:
    """Count one application's messages, deliveries and attempts, by default over the last 24 hours."""
    app = await call.application()
    return await _shown(call, StatsFilter(org_id=app.org_id, app_no=app.no, **_window(call, asked, DAY)))


@operation("GET", "/stats", "v1.statistics.organization", whole=True)
async def of_organization(call: Call, asked: WindowQuery) -> wire.StatsOut:
    """Count all messages, deliveries and attempts, by default over the last 24 hours."""
    return await _shown(call, StatsFilter(org_id=call.caller.org_id, **_window(call, asked, DAY)))


async def _shown(call: Call, where: StatsFilter) -> wire.StatsOut:
    return wire.stats(await call.store.monitoring.stats(where), where)


def _window(call: Call, asked: WindowQuery, usual: timedelta) -> dict[str, Any]:
    """Return start and end of the time window. By default it ends now and has the length `usual`."""
    until = call.services.wall() if asked.until is None else text_checks.check_instant("until", asked.until)
    since = until - usual if asked.since is None else text_checks.check_instant("since", asked.since)
    catalogue.check_span(since, until, LONGEST)
    return {"since": since, "until": until}
