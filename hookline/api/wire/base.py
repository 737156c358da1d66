"""What every shape is made of."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct
from msgspec.structs import asdict

from hookline.model import PolicyOverride, Strategy

T = TypeVar("T")

Instant = Annotated[
    datetime, Meta(tz=True)
]  # with its offset: one without is refused, and the document says `date-time`


def documented(**schema: object) -> Meta:
    """Constraints for the OpenAPI document alone: the service checks them, in the words that every front end shows."""
    return Meta(extra_json_schema=schema)


def either(new: T, older: T) -> T:
    """A value that older SDKs give under another name."""
    return older if (new is None or new is UNSET) and older is not UNSET else new


NAMED = documented(minLength=1, maxLength=256, pattern=r"^[a-zA-Z0-9\-_.]+$")  # most of what callers name

encode = msgspec.json.Encoder().encode


class In(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A body. Unknown fields are refused: a misspelt filter would deliver everything."""


# A field that Svix's SDKs can send and that has no effect here: null is taken, anything else is refused by name.
Unsupported = Annotated[None, Meta(description="Not supported: leave it out.")]


class Out(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class ListResponse(Out, Generic[T], frozen=True, kw_only=True):
    data: list[T]
    done: bool
    iterator: str | None = None
    prev_iterator: str | None = None


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """A retry policy's override. A misspelt field is refused: it would silently change nothing."""

    strategy: Strategy | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_attempts: int | None = None
    max_age: float | None = None
    schedule: tuple[float, ...] | None = None
    retry_after_cap: float | None = None

    def override(self) -> PolicyOverride:
        return PolicyOverride(**asdict(self))


def policy(found: PolicyOverride | None) -> Policy | None:
    return None if found is None else Policy(**asdict(found))
