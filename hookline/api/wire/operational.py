"""Operational webhooks: endpoints that receive events about the organization's own endpoints and deliveries."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from hookline.api.wire.base import In, fill
from hookline.api.wire.endpoints import Description, EndpointBase, Key, Rate, Uid, Url, endpoint
from hookline.model.endpoints import Endpoint
from hookline.rules.operational_events import Kind

Kinds = Annotated[tuple[Kind, ...], Meta(min_length=1, max_length=100)]


class OperationalWebhookEndpointUpdate(In, frozen=True, kw_only=True):
    """The new values of an endpoint. A field that is left out gets its default, except `uid`, which stays as it is."""

    url: Url
    uid: Uid | UnsetType | None = UNSET
    description: Description = ""
    disabled: bool = False
    event_types: Kinds | None = None
    filter_types: Kinds | None = None  # name of `event_types` in older SDKs
    throttle_rate: Rate | None = None
    rate_limit: Rate | None = None  # name of `throttle_rate` in older SDKs
    metadata: dict[str, str] = field(default_factory=dict)


class OperationalWebhookEndpointIn(OperationalWebhookEndpointUpdate, frozen=True, kw_only=True):
    uid: Uid | None = None
    secret: Key | None = None
    headers: dict[str, str] = field(default_factory=dict)


class OperationalWebhookEndpointOut(EndpointBase, frozen=True, kw_only=True):
    status: str
    status_reason: str | None
    metadata: dict[str, str]


def operational_endpoint(found: Endpoint) -> OperationalWebhookEndpointOut:
    return fill(OperationalWebhookEndpointOut, endpoint(found))
