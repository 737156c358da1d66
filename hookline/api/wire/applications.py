"""The JSON shapes of applications."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType, field

from hookline.api.wire.base import NAMED, In, Instant, Out, doc, fill, values
from hookline.model.catalogue import Application, ApplicationChange, NewApplication

Name = Annotated[str, doc("A text for people.", minLength=1, maxLength=1024)]
Uid = Annotated[
    str,
    NAMED,
    doc("Your own id, accepted wherever the id is. It must not begin with `app_`."),
]
Rate = Annotated[
    int,
    doc("Maximum requests per second to all endpoints together.", minimum=1, maximum=65_535),
]


class ApplicationPatch(In, frozen=True, kw_only=True):
    """A field that is left out stays as it is; null clears it."""

    name: Name | UnsetType = UNSET
    uid: Uid | UnsetType | None = UNSET
    throttle_rate: Rate | UnsetType | None = UNSET
    rate_limit: Rate | UnsetType | None = UNSET  # name of `throttle_rate` in older SDKs
    metadata: dict[str, str] | UnsetType = UNSET


class ApplicationUpdate(ApplicationPatch, frozen=True, kw_only=True):
    """A replacement. A field that is left out gets its default, but the uid keeps its value."""

    name: Name
    throttle_rate: Rate | None = None
    rate_limit: Rate | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class ApplicationIn(ApplicationUpdate, frozen=True, kw_only=True):
    uid: Uid | None = None


class ApplicationOut(Out, frozen=True, kw_only=True):
    id: str
    uid: str | None
    name: str
    throttle_rate: int | None
    rate_limit: int | None
    metadata: dict[str, str]
    created_at: Instant
    updated_at: Instant


def new_application(given: ApplicationIn) -> NewApplication:
    return NewApplication(**values(given, NewApplication))


def application_change(given: ApplicationPatch) -> ApplicationChange:
    return ApplicationChange(**values(given, ApplicationChange))


def application(app: Application) -> ApplicationOut:
    return fill(ApplicationOut, app, rate_limit=app.throttle_rate)
