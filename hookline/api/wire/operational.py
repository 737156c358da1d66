"""Operational webhooks: endpoints that hear of the organization's own endpoints and deliveries."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from hookline.api.wire.base import In, Instant, Out
from hookline.api.wire.endpoints import Description, Key, Rate, Uid, Url, rate
from hookline.model import Endpoint
from hookline.model.states import EndpointStatus
from hookline.rules.operational_events import Kind

Kinds = Annotated[tuple[Kind, ...], Meta(min_length=1, max_length=100)]


class OperationalWebhookEndpointIn(In, frozen=True, kw_only=True):
    url: Url
    uid: Uid | None = None
    description: Description = ""
    disabled: bool = False
    event_types: Kinds | None = None
    filter_types: Kinds | None = None  # what older SDKs call it
    throttle_rate: Rate | None = None
    rate_limit: Rate | None = None  # what older SDKs call it
    secret: Key | None = None
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without the secret, and without the values of the headers: receivers are let in by them."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        fields["secret"] = None if self.secret is None else "…"
        fields["headers"] = dict.fromkeys(self.headers, "…")
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class OperationalWebhookEndpointUpdate(In, frozen=True, kw_only=True):
    """What is left out goes back to its default, apart from the uid: that stays."""

    url: Url
    uid: Uid | UnsetType | None = UNSET
    description: Description = ""
    disabled: bool = False
    event_types: Kinds | None = None
    filter_types: Kinds | None = None
    throttle_rate: Rate | None = None
    rate_limit: Rate | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class OperationalWebhookEndpointOut(Out, frozen=True, kw_only=True):
    id: str
    uid: str | None
    url: str
    description: str
    disabled: bool
    status: str
    status_reason: str | None
    event_types: tuple[str, ...] | None
    filter_types: tuple[str, ...] | None
    throttle_rate: int | float | None
    rate_limit: int | float | None
    metadata: dict[str, str]
    created_at: Instant
    updated_at: Instant


def operational_endpoint(found: Endpoint) -> OperationalWebhookEndpointOut:
    return OperationalWebhookEndpointOut(
        id=found.id,
        uid=found.uid,
        url=found.url,
        description=found.description,
        disabled=found.status == EndpointStatus.DISABLED,
        status=found.status.name.lower(),
        status_reason=found.status_reason,
        event_types=found.event_types,
        filter_types=found.event_types,
        throttle_rate=rate(found.throttle_rate),
        rate_limit=rate(found.throttle_rate),
        metadata=found.metadata,
        created_at=found.created_at,
        updated_at=found.updated_at,
    )
