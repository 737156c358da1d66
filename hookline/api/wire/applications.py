"""Applications."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from hookline.api.wire.base import In, Out
from hookline.model import Application


class ApplicationIn(In, frozen=True, kw_only=True):
    name: str
    uid: str | None = None
    throttle_rate: int | None = None
    rate_limit: int | None = None  # what older SDKs call it
    metadata: dict[str, str] = field(default_factory=dict)


class ApplicationOut(Out, frozen=True, kw_only=True):
    id: str
    uid: str | None
    name: str
    throttle_rate: int | None
    rate_limit: int | None
    metadata: dict[str, str]
    created_at: datetime
    updated_at: datetime


def application(app: Application) -> ApplicationOut:
    return ApplicationOut(
        id=app.id,
        uid=app.uid,
        name=app.name,
        throttle_rate=app.throttle_rate,
        rate_limit=app.throttle_rate,
        metadata=app.metadata,
        created_at=app.created_at,
        updated_at=app.updated_at,
    )
