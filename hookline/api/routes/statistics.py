from __future__ import annotations

from datetime import datetime, timedelta

from starlette.responses import Response

from hookline.api.call import Call, respond
from hookline.api.operation import Operation, Query
from hookline.api.routes.endpoints import find
from hookline.api.wire import statistics as wire
from hookline.api.wire.base import Instant
from hookline.model import StatsFilter
from hookline.rules.checks import catalogue
from hookline.rules.checks import text as text_checks
from hookline.web.authorize import Needs

LONGEST = timedelta(days=30)
DAY = timedelta(hours=24)


class WindowQuery(Query, frozen=True, kw_only=True):
    since: Instant | None = None
    until: Instant | None = None


async def of_endpoint(call: Call) -> Response:
    found = await find(call)
    since, until = _window(call, LONGEST)
    where = StatsFilter(org_id=found.org_id, app_no=found.app_no, endpoint_no=found.no, since=since, until=until)
    return respond(wire.endpoint_stats(await call.store.stats(where)))


async def of_application(call: Call) -> Response:
    app = await call.application()
    since, until = _window(call, DAY)
    return await _shown(call, StatsFilter(org_id=app.org_id, app_no=app.no, since=since, until=until))


async def of_organization(call: Call) -> Response:
    since, until = _window(call, DAY)
    return await _shown(call, StatsFilter(org_id=call.organization(), since=since, until=until))


async def _shown(call: Call, where: StatsFilter) -> Response:
    return respond(wire.stats(await call.store.stats(where), where))


def _window(call: Call, usual: timedelta) -> tuple[datetime, datetime]:
    """Up to now, and as long as usual, unless the caller says otherwise."""
    asked = call.query(WindowQuery)
    until = call.services.wall() if asked.until is None else text_checks.check_instant("until", asked.until)
    since = until - usual if asked.since is None else text_checks.check_instant("since", asked.since)
    catalogue.check_span(since, until, LONGEST)
    return since, until


_APP = "/app/{app_id}"

OPERATIONS = [
    Operation(
        name="v1.endpoint.get-stats",
        method="GET",
        path=f"{_APP}/endpoint/{{endpoint_id}}/stats",
        handler=of_endpoint,
        summary="Count one endpoint's deliveries, over the last 30 days unless told otherwise.",
        query=WindowQuery,
        answers={200: wire.EndpointStats},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.statistics.application",
        method="GET",
        path=f"{_APP}/stats",
        handler=of_application,
        summary="Count one application's messages, deliveries and attempts, over the last 24 hours unless told otherwise.",
        query=WindowQuery,
        answers={200: wire.StatsOut},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.statistics.organization",
        method="GET",
        path="/stats",
        handler=of_organization,
        summary="Count all messages, deliveries and attempts, over the last 24 hours unless told otherwise.",
        query=WindowQuery,
        answers={200: wire.StatsOut},
        needs=Needs.READ,
        whole=True,
    ),
]
