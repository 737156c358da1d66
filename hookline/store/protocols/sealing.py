"""Protocols for encrypted values and for the secrets that sign tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookline.store.sealed import OlderSecret, Place, Range, Resealed, Seals, Spot


class Sealing(Protocol):
    """Find the values and tokens that still need an old vault key or an old signing secret."""

    async def seals(self, most: int) -> Seals:
        """Count how many values each key has encrypted. Each count stops at `most`."""

    async def reseal(self, place: Place, within: Range, after: Spot, limit: int) -> Resealed:
        """Re-encrypt one batch of values with the first key, in one transaction.

        Values that changed since they were read, that another transaction has locked, or that no key decrypts stay
        unchanged.
        """

    async def watch_secrets(self, signs: bytes, older: Sequence[bytes]) -> None:
        """Register the secret that signs tokens and the older ones that only verify them. All are given as hashes."""

    async def secret_seen(self, hashed: bytes) -> None:
        """Set the last use of an older secret to now, because a token of it was used. The value is written at most once
        a minute."""

    async def older_secrets(self) -> list[OlderSecret]: ...
