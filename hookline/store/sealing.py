"""Types for encrypted values and for the secrets that sign tokens.

An encrypted value begins with its head: the bytes that name its key. Indexes on the heads find all values of one key
as a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

_LAST = b"\xff" * 6  # sorts after the head of every encrypted value


class Place(StrEnum):
    """A column of encrypted values. The view `sealed_value` contains the values of all these columns."""

    SECRETS = "endpoint.secrets"
    HEADERS = "endpoint.headers"
    URL = "endpoint.sealed_url"
    ANSWER = "answer.response"

    @property
    def statement(self) -> str:
        return f"reseal_{self.replace('.', '_')}"

    def bound(self, row: str) -> str:
        """Return the associated data with which the vault encrypts this row's value. A value that was copied to
        another row or column does not decrypt, because the associated data there is different."""
        return _BOUND[self].format(row)


_BOUND = {Place.SECRETS: "{}", Place.HEADERS: "{}/headers", Place.URL: "{}/url", Place.ANSWER: "answer/{}"}


class Range(Struct, frozen=True):
    """A range of heads, the first bytes of encrypted values. `start` is included, `stop` is excluded."""

    start: bytes
    stop: bytes


class Spot(Struct, frozen=True):
    """The position of a value in the order in which values are re-encrypted."""

    head: bytes = b""
    row: str = ""


class Resealed(Struct, frozen=True, kw_only=True):
    """The result of re-encrypting one batch of values."""

    done: int
    faults: tuple[str, ...] = ()  # errors of values that no key decrypts; they stay unchanged
    last: Spot | None = None  # the next batch begins after this value; None: no values are left


class KeySeals(Struct, frozen=True):
    head: bytes
    count: int

    @property
    def key_id(self) -> str:
        """Return the key's id for display. It is the start of a hash and does not reveal the key."""
        return self.head[1:].hex()


class Seals(Struct, frozen=True, kw_only=True):
    """The number of values that each key encrypted. Counts may stop at a limit."""

    first: KeySeals  # the key that encrypts new values
    older: tuple[KeySeals, ...]
    unknown: int  # values encrypted with a key that is not configured, or not encrypted

    @property
    def left(self) -> int:
        """The number of values that are encrypted with another key than the first one of `HOOKLINE_SECRET_KEY`, the one
        for new values."""
        return sum(key.count for key in self.older) + self.unknown


class OlderSecret(Struct, frozen=True):
    """A secret that no longer signs tokens and still verifies them."""

    id: bytes
    since: datetime
    seen_at: datetime | None  # last use of a token that this secret signed


def of_key(head: bytes) -> Range:
    return Range(head, head + b"\0")


def others(heads: Sequence[bytes]) -> Iterator[Range]:
    """Return the ranges that contain every head except those in `heads`. A head is the part of a value that
    names its key."""
    start = b""
    for head in sorted(heads):
        yield Range(start, head)
        start = head + b"\0"
    yield Range(start, _LAST)
