"""What is sealed, sealed anew; and the secrets that still verify tokens."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.store import sealed
from hookline.store.sealed import KeySeals, OlderSecret, Place, Range, Resealed, Seals, Spot, Value
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.tx import Tx


class Sealed(Base):
    async def seals(self, most: int) -> Seals:
        return await self._read(_seals, most)

    async def reseal(self, place: Place, within: Range, after: Spot, limit: int) -> Resealed:
        return await self._write(_reseal, place, within, after, limit)

    async def watch_secrets(self, signs: bytes, older: Sequence[bytes]) -> None:
        await self._write(_watch_secrets, signs, older)

    async def secret_seen(self, hashed: bytes) -> None:
        await self._write(_secret_seen, hashed)

    async def older_secrets(self) -> list[OlderSecret]:
        return await self._read(_older_secrets)


def _seals(tx: Tx, most: int) -> Seals:
    heads = tx.vault.heads
    first, *older = [KeySeals(head, _count(tx, sealed.of_key(head), most)) for head in heads]
    unknown = sum(_count(tx, within, most) for within in sealed.others(heads))
    return Seals(first=first, older=tuple(older), unknown=unknown)


def _count(tx: Tx, within: Range, most: int) -> int:
    asked = {"start": within.start, "stop": within.stop, "most": most}
    return sum(tx.value("sealed_count", asked | {"place": place.value}) for place in Place)


def _reseal(tx: Tx, place: Place, within: Range, after: Spot, limit: int) -> Resealed:
    asked = {"start": within.start, "stop": within.stop, "head": after.head, "row": after.row, "limit": limit}
    found = [Value.read(*row) for row in tx.tuples("sealed_next", asked | {"place": place.value})]
    renewed, faults = sealed.renew(tx.vault, place, found)
    done = sum(tx.run(place.statement, {"row": one.row, "old": one.old, "new": one.new}) for one in renewed)
    return sealed.step(found, faults, done)


def _watch_secrets(tx: Tx, signs: bytes, older: Sequence[bytes]) -> None:
    tx.run("secret_signs", (signs,))
    tx.many("secrets_watch", [(each, tx.now) for each in older])


def _secret_seen(tx: Tx, hashed: bytes) -> None:
    tx.run("secret_seen", {"id": hashed, "now": tx.now})


def _older_secrets(tx: Tx) -> list[OlderSecret]:
    found = tx.tuples("older_secrets")
    return [OlderSecret(id_, instant(since), None if seen is None else instant(seen)) for id_, since, seen in found]
