"""Alerts of the whole deployment.

An alert can name endpoints of any organization, so only the default organization may read alerts.
"""

from __future__ import annotations

from enum import StrEnum

from hookline.api.call import Call, listing, page_of
from hookline.api.operation import ListQuery, operation
from hookline.api.wire import alerts as wire
from hookline.api.wire.base import ListResponse


class AlertStatus(StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"


class AlertQuery(ListQuery, frozen=True, kw_only=True):
    status: AlertStatus | None = None


@operation("GET", "/alert", "v1.alert.list", whole=True, operator=True)
async def list_all(call: Call, asked: AlertQuery) -> ListResponse[wire.AlertOut]:
    """List firing and resolved alerts of the deployment, newest first."""
    page = page_of(asked)
    firing = None if asked.status is None else asked.status == AlertStatus.FIRING
    return listing(await call.store.monitoring.alerts(page, firing=firing), page, wire.alert)
