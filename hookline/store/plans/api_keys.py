"""API keys and revoked tokens."""

from __future__ import annotations

from datetime import datetime

from hookline import ids
from hookline.clock import wall
from hookline.errors import NotFound
from hookline.model import ApiKey, NewApiKey
from hookline.model.audit import Note
from hookline.store import rows
from hookline.store.plans.plan import Plan, Shared, Step, by_text, changes, noted, reads, row
from hookline.store.protocols import Page


class ApiKeys(Shared):
    @changes
    def create_api_key(self, org_id: str, new: NewApiKey, *, note: Note[ApiKey] | None = None) -> Plan[ApiKey]:
        key_id = ids.mint(ids.API_KEY, wall())
        made = yield Step(
            "api_key_insert",
            id=key_id,
            org_id=org_id,
            app_no=new.app_no,
            name=new.name,
            scope=new.scope,
            hash=new.hash,
            hint=new.hint,
            expires_at=new.expires_at,
        )
        if not made:
            raise NotFound("no such organization or application")
        found = yield from row("api_key", org_id=org_id, key_id=key_id)
        assert found is not None
        return (yield from noted(note, rows.api_key(found, self._reading)))

    @reads
    def api_key(self, org_id: str, key_id: str) -> Plan[ApiKey | None]:
        found = yield from row("api_key", org_id=org_id, key_id=key_id)
        return None if found is None else rows.api_key(found, self._reading)

    @reads
    def api_keys(self, org_id: str, page: Page) -> Plan[list[ApiKey]]:
        found = yield from by_text("api_keys", page, org_id=org_id)
        return [rows.api_key(each, self._reading) for each in found]

    @reads
    def api_key_by_hash(self, hashed: bytes) -> Plan[ApiKey | None]:
        found = yield from row("api_key_by_hash", hash=hashed)
        return None if found is None else rows.api_key(found, self._reading)

    @changes
    def revoke_api_key(self, org_id: str, key_id: str, *, note: Note[None] | None = None) -> Plan[None]:
        if not (yield Step("api_key_revoke", org_id=org_id, key_id=key_id)):
            raise NotFound("no such API key")
        yield from noted(note, None)

    @changes
    def touch_api_key(self, key_id: str) -> Plan[None]:
        yield Step("api_key_touch", key_id=key_id)

    @changes
    def revoke_token(self, hashed: bytes, until: datetime, *, note: Note[bool] | None = None) -> Plan[bool]:
        revoked = yield Step("token_revoke", hash=hashed, until=until)
        return (yield from noted(note, bool(revoked)))

    @reads
    def token_revoked(self, hashed: bytes) -> Plan[bool]:
        return bool((yield Step("token_revoked", hash=hashed)))
