"""Migrations, the store's clock, and closing the store."""

from __future__ import annotations

from datetime import datetime

from hookline.store.sqlite import migrate
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import instant


class SchemaVersion(Base):
    async def version(self) -> int:
        return await self._read(migrate.version)

    async def migrate(self) -> list[int]:
        return await self._write(migrate.apply_missing)

    async def now(self) -> datetime:
        return instant(self._context.clock.micros())

    async def close(self) -> None:
        await self._readers.close()
        await self._writer.close()
