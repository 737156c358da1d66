"""What is sealed, sealed anew; and the secrets that still verify tokens."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.store import sealed
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import Connection
from hookline.store.sealed import KeySeals, OlderSecret, Place, Range, Resealed, Seals, Spot, Value


class Sealed(Part):
    async def seals(self, most: int) -> Seals:
        heads = self._vault.heads
        async with self._db.hot() as connection:
            counts = [await self._count_sealed(connection, sealed.of_key(head), most) for head in heads]
            unknown = [await self._count_sealed(connection, within, most) for within in sealed.others(heads)]
        first, *older = map(KeySeals, heads, counts)
        return Seals(first=first, older=tuple(older), unknown=sum(unknown))

    async def _count_sealed(self, connection: Connection, within: Range, most: int) -> int:
        count = 0
        for place in Place:
            asked = (place.value, within.start, within.stop, most)
            count += await connection.fetchval(self._sql["sealed_count"], *asked)
        return count

    async def reseal(self, place: Place, within: Range, after: Spot, limit: int) -> Resealed:
        asked = (place.value, within.start, within.stop, after.head, after.row, limit)

        async def work(connection: Connection) -> Resealed:
            found = [Value.read(*row) for row in await connection.fetch(self._sql["sealed_next"], *asked)]
            renewed, faults = sealed.renew(self._vault, place, found)
            columns = [[getattr(one, name) for one in renewed] for name in ("row", "old", "new")]
            return sealed.step(found, faults, await connection.fetchval(self._sql[place.statement], *columns))

        return await self._db.transact(work)

    async def watch_secrets(self, signs: bytes, older: Sequence[bytes]) -> None:
        await self._db.execute("secret_signs", signs)
        await self._db.execute("secrets_watch", list(older))

    async def secret_seen(self, hashed: bytes) -> None:
        await self._db.execute("secret_seen", hashed)

    async def older_secrets(self) -> list[OlderSecret]:
        return [OlderSecret(row["id"], row["since"], row["seen_at"]) for row in await self._db.fetch("older_secrets")]
