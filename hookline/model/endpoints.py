"""Endpoints: the URLs that receive webhooks, with their secrets, filters and policy."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from hookline.model.policy import PolicyOverride
from hookline.model.states import EndpointStatus


class Scheme(StrEnum):
    """The signature scheme: which headers carry the signature, and which bytes are signed. See `hookline/signing`."""

    STANDARD = "standard"
    SVIX = "svix"
    HEX = "hex"
    GITHUB = "github"
    STRIPE = "stripe"


class Ordering(StrEnum):
    """Which messages an endpoint gets one at a time, in the order in which they were accepted."""

    NONE = "none"  # no messages: the endpoint gets several at a time, in any order; ordering keys are ignored
    KEY = "key"  # messages with the same ordering key
    FIFO = "fifo"  # all messages


class OnDeath(StrEnum):
    """How a dead delivery affects later ones with the same ordering key."""

    SKIP = "skip"  # later deliveries are sent
    BLOCK = "block"  # later deliveries wait until the dead letter is replayed or resolved


class Secret(Struct, frozen=True, kw_only=True):
    key: str  # whsec_<base64> (HMAC) or whsk_<base64> (Ed25519)
    expires_at: datetime | None = None  # when an old secret stops signing; None for the current secret

    def __repr__(self) -> str:
        return f"Secret(key='{self.key[:6]}…', expires_at={self.expires_at!r})"


class WithoutHeaderValues(Struct, frozen=True, kw_only=True):
    """A base class whose `repr` shows the names of custom headers but not their values, which may be credentials."""

    def __repr__(self) -> str:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        if isinstance(headers := fields["headers"], dict):
            fields["headers"] = dict.fromkeys(headers, "…")
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class NewEndpoint(WithoutHeaderValues, frozen=True, kw_only=True):
    """An endpoint to create. `rules.checks.catalogue.check_endpoint` must check it before the store gets it."""

    url: str
    uid: str | None = None
    description: str = ""
    version: int = 1
    event_types: tuple[str, ...] | None = None  # None means all event types
    channels: tuple[str, ...] | None = None  # None means all messages, with or without a channel
    status: EndpointStatus = EndpointStatus.ACTIVE
    throttle_rate: float | None = None  # maximum requests per second
    concurrency: int | None = None  # maximum number of requests in flight
    ordering: Ordering = Ordering.KEY
    on_death: OnDeath = OnDeath.SKIP
    scheme: Scheme = Scheme.STANDARD
    secrets: tuple[Secret, ...] = ()  # the current secret comes first
    headers: dict[str, str] = {}
    metadata: dict[str, str] = {}
    policy: PolicyOverride | None = None


class Endpoint(NewEndpoint, frozen=True, kw_only=True):
    """An endpoint as it is stored."""

    no: int  # internal key in the database; never shown to users
    id: str
    app_no: int
    app_id: str
    org_id: str
    created_at: datetime
    updated_at: datetime
    status_reason: str | None = None
    revision: int = 1  # increases with each change; workers cache endpoints by id and revision


class EndpointName(Struct, frozen=True, kw_only=True):
    """The ids and names of an endpoint and of its application, for display."""

    id: str
    url: str
    description: str
    app_id: str
    app_name: str
    org_id: str
    deleted: bool


class EndpointChange(WithoutHeaderValues, frozen=True, kw_only=True):
    """A change of an endpoint. A field that is UNSET keeps its value."""

    url: str | UnsetType = UNSET
    uid: str | UnsetType | None = UNSET
    description: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    event_types: tuple[str, ...] | UnsetType | None = UNSET
    channels: tuple[str, ...] | UnsetType | None = UNSET
    throttle_rate: float | UnsetType | None = UNSET
    concurrency: int | UnsetType | None = UNSET
    ordering: Ordering | UnsetType = UNSET
    on_death: OnDeath | UnsetType = UNSET
    scheme: Scheme | UnsetType = UNSET
    secrets: tuple[Secret, ...] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    policy: PolicyOverride | UnsetType | None = UNSET
