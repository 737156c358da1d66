"""Operational webhooks: endpoints that receive events about the organization's own endpoints and deliveries."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from hookline.api.wire.base import In, Instant, Out, fill
from hookline.api.wire.endpoints import Description, EndpointIn, Key, Rate, Uid, Url, endpoint
from hookline.model import Endpoint
from hookline.rules.operational_events import Kind

Kinds = Annotated[tuple[Kind, ...], Meta(min_length=1, max_length=100)]


class OperationalWebhookEndpointIn(In, frozen=True, kw_only=True):
    url: Url
    uid: Uid | None = None
    description: Description = ""
    disabled: bool = False
    event_types: Kinds | None = None
    filter_types: Kinds | None = None  # name of the field in older SDKs
    throttle_rate: Rate | None = None
    rate_limit: Rate | None = None  # name of the field in older SDKs
    secret: Key | None = None
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    __repr__ = EndpointIn.__repr__


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
    return fill(OperationalWebhookEndpointOut, endpoint(found))
