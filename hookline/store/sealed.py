"""What the vault has sealed, and where: so that all of it can be sealed anew with the first key. Pure.

A sealed value begins with its head, which names its key. Indexes on the heads make "what did this key seal" a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.errors import VaultError
from hookline.security.vault import Vault

_LAST = b"\xff" * 6  # after every head


class Place(StrEnum):
    """A column of sealed values. The view `sealed_value` has each of them."""

    SECRETS = "endpoint.secrets"
    HEADERS = "endpoint.headers"
    URL = "endpoint.sealed_url"
    ANSWER = "answer.response"

    @property
    def statement(self) -> str:
        return f"reseal_{self.replace('.', '_')}"

    def bound(self, row: str) -> str:
        """What the vault binds the value of this row to."""
        return _BOUND[self].format(row)


_BOUND = {Place.SECRETS: "{}", Place.HEADERS: "{}/headers", Place.URL: "{}/url", Place.ANSWER: "answer/{}"}


class Range(Struct, frozen=True):
    """Heads from the first to before the last."""

    start: bytes
    stop: bytes


class Spot(Struct, frozen=True):
    """A value's place in the order in which they are walked."""

    head: bytes = b""
    row: str = ""


class Value(Struct, frozen=True):
    spot: Spot
    sealed: bytes

    @classmethod
    def read(cls, head: bytes, row: str, sealed: bytes) -> Value:
        return cls(Spot(head, row), sealed)


class Renewed(Struct, frozen=True):
    row: str
    old: bytes
    new: bytes


class Resealed(Struct, frozen=True, kw_only=True):
    """What a step came to."""

    done: int
    faults: tuple[str, ...] = ()  # of values that no key opens: they stay as they are
    last: Spot | None = None  # the next step goes on after it; None: there is nothing more


class KeySeals(Struct, frozen=True):
    head: bytes
    count: int

    @property
    def key_id(self) -> str:
        """For people. It is the beginning of a hash, and tells nothing of the key."""
        return self.head[1:].hex()


class Seals(Struct, frozen=True, kw_only=True):
    """How many values each key has sealed. A count may stop at a bound."""

    first: KeySeals  # it seals
    older: tuple[KeySeals, ...]
    unknown: int  # with keys that are not configured, or with none

    @property
    def left(self) -> int:
        """All that the first key has not sealed."""
        return sum(key.count for key in self.older) + self.unknown


class OlderSecret(Struct, frozen=True):
    """One that no longer signs tokens and still verifies them."""

    id: bytes
    since: datetime
    seen_at: datetime | None  # when one of its tokens was last used


def of_key(head: bytes) -> Range:
    return Range(head, head + b"\0")


def others(heads: Sequence[bytes]) -> Iterator[Range]:
    """What none of these begins."""
    start = b""
    for head in sorted(heads):
        yield Range(start, head)
        start = head + b"\0"
    yield Range(start, _LAST)


def renew(vault: Vault, place: Place, found: Sequence[Value]) -> tuple[list[Renewed], tuple[str, ...]]:
    """Those that a key opens, sealed with the first one; and why the others cannot be."""
    renewed, faults = [], []
    for value in found:
        bound = place.bound(value.spot.row)
        try:
            plain = vault.open(value.sealed, bound)
        except VaultError as fault:
            faults.append(f"{place}: {fault}")
        else:
            renewed.append(Renewed(value.spot.row, value.sealed, vault.seal(plain, bound)))
    return renewed, tuple(faults)


def step(found: Sequence[Value], faults: tuple[str, ...], done: int) -> Resealed:
    return Resealed(done=done, faults=faults, last=found[-1].spot if found else None)
