"""URLs of applications: secrets, filters, policy."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from hookline.model.policy import PolicyOverride
from hookline.model.states import EndpointStatus


class Scheme(StrEnum):
    """Names of the signature headers and what is signed."""  # `signing/__init__.py` has the details

    STANDARD = "standard"
    SVIX = "svix"
    HEX = "hex"
    GITHUB = "github"
    STRIPE = "stripe"


class Ordering(StrEnum):
    """What is sent to an endpoint one at a time, in the order in which it was accepted."""

    NONE = "none"  # nothing: keys are ignored
    KEY = "key"  # messages with the same ordering key
    FIFO = "fifo"  # all of them


class OnDeath(StrEnum):
    """What becomes of those that stand in line behind a delivery that died."""

    SKIP = "skip"  # they go on
    BLOCK = "block"  # they wait until it is replayed or resolved


class Secret(Struct, frozen=True, kw_only=True):
    key: str  # whsec_<base64> (HMAC) or whsk_<base64> (Ed25519)
    expires_at: datetime | None = None  # None: current; else it still signs until then, beside its successor

    def __repr__(self) -> str:
        return f"Secret(key='{self.key[:6]}…', expires_at={self.expires_at!r})"


class Veiled(Struct, frozen=True, kw_only=True):
    """Its text has the names of the custom headers and not their values: receivers are let in by them."""

    def __repr__(self) -> str:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        if isinstance(headers := fields["headers"], dict):
            fields["headers"] = dict.fromkeys(headers, "…")
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class Endpoint(Veiled, frozen=True, kw_only=True):
    no: int
    id: str
    app_no: int
    app_id: str
    org_id: str
    url: str
    created_at: datetime
    updated_at: datetime
    uid: str | None = None
    description: str = ""
    version: int = 1
    event_types: tuple[str, ...] | None = None  # None: all
    channels: tuple[str, ...] | None = None  # None: messages on any channel or none
    status: EndpointStatus = EndpointStatus.ACTIVE
    status_reason: str | None = None
    throttle_rate: float | None = None  # starts a second
    concurrency: int | None = None  # most requests in flight
    ordering: Ordering = Ordering.KEY
    on_death: OnDeath = OnDeath.SKIP
    scheme: Scheme = Scheme.STANDARD
    secrets: tuple[Secret, ...] = ()  # the current one first
    headers: dict[str, str] = {}
    metadata: dict[str, str] = {}
    policy: PolicyOverride | None = None
    revision: int = 1  # grows with each change; workers cache endpoints by it


class EndpointName(Struct, frozen=True, kw_only=True):
    """What people know it by."""

    id: str
    url: str
    description: str
    app_id: str
    app_name: str
    org_id: str
    deleted: bool


class NewEndpoint(Veiled, frozen=True, kw_only=True):
    """What a caller gives. Checked by `catalogue.check_endpoint` before it comes to the store."""

    url: str
    uid: str | None = None
    description: str = ""
    version: int = 1
    event_types: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    status: EndpointStatus = EndpointStatus.ACTIVE
    throttle_rate: float | None = None
    concurrency: int | None = None
    ordering: Ordering = Ordering.KEY
    on_death: OnDeath = OnDeath.SKIP
    scheme: Scheme = Scheme.STANDARD
    secrets: tuple[Secret, ...] = ()
    headers: dict[str, str] = {}
    metadata: dict[str, str] = {}
    policy: PolicyOverride | None = None


class EndpointChange(Veiled, frozen=True, kw_only=True):
    """Fields that are UNSET stay as they are."""

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
