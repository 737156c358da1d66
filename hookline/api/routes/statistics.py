from __future__ import annotations

from datetime import datetime, timedelta

from starlette.responses import Response

from hookline.api.call import Call, respond
from hookline.api.operation import Operations, Query
from hookline.api.routes.endpoints import find
from hookline.api.wire import statistics as wire
from hookline.api.wire.base import Instant
from hookline.model import StatsFilter
from hookline.rules.checks import catalogue
from hookline.rules.checks import text as text_checks

LONGEST = timedelta(days=30)
DAY = timedelta(hours=24)

_APP = "/app/{app_id}"
OPERATIONS = Operations()


class WindowQuery(Query, frozen=True, kw_only=True):
    since: Instant | None = None
    until: Instant | None = None


@OPERATIONS.get(
    f"{_APP}/endpoint/{{endpoint_id}}/stats", "v1.endpoint.get-stats", wire.EndpointStats, query=WindowQuery
)
async def of_endpoint(call: Call) -> Response:
    """Count one endpoint's deliveries, over the last 30 days unless told otherwise."""
    found = await find(call)
    since, until = _window(call, LONGEST)
    where = StatsFilter(org_id=found.org_id, app_no=found.app_no, endpoint_no=found.no, since=since, until=until)
    return respond(wire.endpoint_stats(await call.store.monitoring.stats(where)))


@OPERATIONS.get(f"{_APP}/stats", "v1.statistics.application", wire.StatsOut, query=WindowQuery)
async def of_application(call: Call) -> Response:
    """Count one application's messages, deliveries and attempts, over the last 24 hours unless told otherwise."""
    app = await call.application()
    since, until = _window(call, DAY)
    return await _shown(call, StatsFilter(org_id=app.org_id, app_no=app.no, since=since, until=until))


@OPERATIONS.get("/stats", "v1.statistics.organization", wire.StatsOut, query=WindowQuery, whole=True)
async def of_organization(call: Call) -> Response:
    """Count all messages, deliveries and attempts, over the last 24 hours unless told otherwise."""
    since, until = _window(call, DAY)
    return await _shown(call, StatsFilter(org_id=call.organization(), since=since, until=until))


async def _shown(call: Call, where: StatsFilter) -> Response:
    return respond(wire.stats(await call.store.monitoring.stats(where), where))


def _window(call: Call, usual: timedelta) -> tuple[datetime, datetime]:
    """Return start and end of the window. By default it ends now and has the usual length."""
    asked = call.query(WindowQuery)
    until = call.services.wall() if asked.until is None else text_checks.check_instant("until", asked.until)
    since = until - usual if asked.since is None else text_checks.check_instant("since", asked.since)
    catalogue.check_span(since, until, LONGEST)
    return since, until
