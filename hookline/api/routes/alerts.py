"""Alerts of the whole deployment. They name endpoints of all organizations, so only the default organization sees them."""

from __future__ import annotations

from enum import StrEnum

from starlette.responses import Response

from hookline.api.call import Call, listing, page_of
from hookline.api.operation import ListQuery, Operations
from hookline.api.wire.alerts import AlertOut, alert
from hookline.api.wire.base import ListResponse

OPERATIONS = Operations()


class AlertStatus(StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"


class AlertQuery(ListQuery, frozen=True, kw_only=True):
    status: AlertStatus | None = None


@OPERATIONS.get("/alert", "v1.alert.list", ListResponse[AlertOut], query=AlertQuery, whole=True, operator=True)
async def list_all(call: Call) -> Response:
    """List alerts of the deployment, newest first: those that fire, and those that are resolved."""
    asked = call.query(AlertQuery)
    page = page_of(asked)
    firing = None if asked.status is None else asked.status == AlertStatus.FIRING
    found = await call.store.monitoring.alerts(page, firing=firing)
    return listing([alert(each) for each in found], [str(each.id) for each in found], page)
