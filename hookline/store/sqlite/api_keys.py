"""API keys, and tokens that were given up."""

from __future__ import annotations

from datetime import datetime

from hookline import ids
from hookline.errors import NotFound
from hookline.model import ApiKey, NewApiKey
from hookline.store import rows
from hookline.store.protocols import Page
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.catalogue import organization
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.paging import by_text
from hookline.store.sqlite.transaction import READ, Tx


class ApiKeys(Base):
    async def create_api_key(self, org_id: str, new: NewApiKey) -> ApiKey:
        return await self._write(_create_api_key, org_id, new)

    async def api_key(self, org_id: str, key_id: str) -> ApiKey | None:
        return await self._read(_api_key, org_id, key_id)

    async def api_keys(self, org_id: str, page: Page) -> list[ApiKey]:
        return await self._read(_api_keys, org_id, page)

    async def api_key_by_hash(self, hashed: bytes) -> ApiKey | None:
        return await self._read(_api_key_by_hash, hashed)

    async def revoke_api_key(self, org_id: str, key_id: str) -> None:
        await self._write(_revoke_api_key, org_id, key_id)

    async def touch_api_key(self, key_id: str) -> None:
        await self._write(_touch_api_key, key_id)

    async def revoke_token(self, hashed: bytes, until: datetime) -> bool:
        return await self._write(_revoke_token, hashed, until)

    async def token_revoked(self, hashed: bytes) -> bool:
        return await self._read(_token_revoked, hashed)


def _create_api_key(tx: Tx, org_id: str, new: NewApiKey) -> ApiKey:
    if organization(tx, org_id) is None:
        raise NotFound("no such organization")
    if new.app_no is not None and not tx.rows("api_key_application", {"app_no": new.app_no, "org_id": org_id}):
        raise NotFound("no such application")
    key_id = ids.mint(ids.API_KEY, tx.at)
    params = {
        "id": key_id,
        "org_id": org_id,
        "app_no": new.app_no,
        "name": new.name,
        "scope": new.scope.value,
        "hash": new.hash,
        "hint": new.hint,
        "now": tx.now,
        "expires_at": None if new.expires_at is None else to_micros(new.expires_at),
    }
    tx.run("api_key_insert", params)
    made = _api_key(tx, org_id, key_id)
    assert made is not None
    return made


def _api_key(tx: Tx, org_id: str, key_id: str) -> ApiKey | None:
    row = tx.row("api_key", {"org_id": org_id, "key_id": key_id})
    return None if row is None else rows.api_key(row, READ)


def _api_keys(tx: Tx, org_id: str, page: Page) -> list[ApiKey]:
    return [rows.api_key(row, READ) for row in by_text(tx, "api_keys", org_id, page)]


def _api_key_by_hash(tx: Tx, hashed: bytes) -> ApiKey | None:
    row = tx.row("api_key_by_hash", (hashed,))
    return None if row is None else rows.api_key(row, READ)


def _revoke_api_key(tx: Tx, org_id: str, key_id: str) -> None:
    if not tx.run("api_key_revoke", {"org_id": org_id, "key_id": key_id, "now": tx.now}):
        raise NotFound("no such API key")


def _touch_api_key(tx: Tx, key_id: str) -> None:
    tx.run("api_key_touch", {"key_id": key_id, "now": tx.now})


def _revoke_token(tx: Tx, hashed: bytes, until: datetime) -> bool:
    return tx.run("token_revoke", (hashed, to_micros(until))) == 1


def _token_revoked(tx: Tx, hashed: bytes) -> bool:
    return tx.row("token_revoked", (hashed,)) is not None
