"""What is sealed at rest, and the secrets that tokens are verified with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookline.store.sealed import OlderSecret, Place, Range, Resealed, Seals, Spot


class Sealing(Protocol):
    """Keys of the vault and secrets of tokens come and go: what still needs them."""

    async def seals(self, most: int) -> Seals:
        """How many values each key has sealed: of each key, place and gap between two keys at most so many are counted."""

    async def reseal(self, place: Place, within: Range, after: Spot, limit: int) -> Resealed:
        """One step, in one transaction: open values, and seal them with the first key.

        A value that was changed since it was read, or that somebody else is about to change, stays as it is. So do those
        that no key opens.
        """

    async def watch_secrets(self, signs: bytes, older: Sequence[bytes]) -> None:
        """From now on this one signs tokens and these only verify them, by their hashes."""

    async def secret_seen(self, hashed: bytes) -> None:
        """A token of an older secret was used now; written at most once a minute."""

    async def older_secrets(self) -> list[OlderSecret]: ...
