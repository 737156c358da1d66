"""API keys, and tokens that were given up."""

from __future__ import annotations

from datetime import datetime

from asyncpg import ForeignKeyViolationError

from hookline import ids
from hookline.clock import wall
from hookline.errors import InvalidInput, NotFound
from hookline.model import ApiKey, NewApiKey
from hookline.store import rows
from hookline.store.postgres.base import READ, Part
from hookline.store.postgres.database import DATA_ERRORS
from hookline.store.protocols import Page


class ApiKeys(Part):
    async def create_api_key(self, org_id: str, new: NewApiKey) -> ApiKey:
        key_id = ids.mint(ids.API_KEY, wall())
        values = (new.app_no, new.name, new.scope.value, new.hash, new.hint, new.expires_at)
        try:
            inserted = await self._db.fetchval("api_key_insert", key_id, org_id, *values)
        except ForeignKeyViolationError as error:
            raise NotFound("no such organization") from error
        except DATA_ERRORS as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error
        if inserted is None:
            raise NotFound("no such application")
        made = await self.api_key(org_id, key_id)
        if made is None:
            raise NotFound("the API key was revoked as soon as it was made")
        return made

    async def api_key(self, org_id: str, key_id: str) -> ApiKey | None:
        row = await self._db.fetchrow("api_key", org_id, key_id)
        return None if row is None else rows.api_key(row, READ)

    async def api_keys(self, org_id: str, page: Page) -> list[ApiKey]:
        name = "api_keys_back" if page.backwards else "api_keys"
        found = [rows.api_key(row, READ) for row in await self._db.fetch(name, org_id, page.iterator or "", page.limit)]
        return found[::-1] if page.backwards else found

    async def api_key_by_hash(self, hashed: bytes) -> ApiKey | None:
        row = await self._db.fetchrow("api_key_by_hash", hashed)
        return None if row is None else rows.api_key(row, READ)

    async def revoke_api_key(self, org_id: str, key_id: str) -> None:
        if await self._db.fetchval("api_key_revoke", org_id, key_id) is None:
            raise NotFound("no such API key")

    async def touch_api_key(self, key_id: str) -> None:
        await self._db.execute("api_key_touch", key_id)

    async def revoke_token(self, hashed: bytes, until: datetime) -> bool:
        return await self._db.fetchval("token_revoke", hashed, until) is not None

    async def token_revoked(self, hashed: bytes) -> bool:
        found: bool = await self._db.fetchval("token_revoked", hashed)
        return found
