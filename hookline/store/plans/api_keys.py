"""API keys and revoked tokens."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import asdict

from hookline import ids
from hookline.clock import wall
from hookline.errors import NotFound
from hookline.model.actors import ApiKey, NewApiKey
from hookline.model.audit import Note
from hookline.store.pages import Page
from hookline.store.plans.plan import Plan, Plans, Step, by_text, changes, noted, reads, row


class ApiKeys(Plans):
    """Create, find and revoke API keys and tokens."""

    @changes
    def create_api_key(self, org_id: str, new: NewApiKey, *, note: Note[ApiKey] | None = None) -> Plan[ApiKey]:
        """Create an API key. Raises `NotFound` if the organization or the key's application does not exist."""
        key_id = ids.mint(ids.API_KEY, wall())
        if not (yield Step("api_key_insert", id=key_id, org_id=org_id, **asdict(new))):
            raise NotFound("no such organization or application")
        found = yield from row("api_key", org_id=org_id, key_id=key_id)
        assert found is not None
        return (yield from noted(note, self._reading.struct(ApiKey, found)))

    @reads
    def api_key(self, org_id: str, key_id: str) -> Plan[ApiKey | None]:
        """Return the API key, or None if it does not exist or was revoked."""
        found = yield from row("api_key", org_id=org_id, key_id=key_id)
        return None if found is None else self._reading.struct(ApiKey, found)

    @reads
    def api_keys(self, org_id: str, page: Page) -> Plan[list[ApiKey]]:
        """Return a page of API keys that were not revoked, ordered by id."""
        found = yield from by_text("api_keys", page, org_id=org_id)
        return [self._reading.struct(ApiKey, each) for each in found]

    @reads
    def api_key_by_hash(self, hashed: bytes) -> Plan[ApiKey | None]:
        """Return the API key with this hash. None: it does not exist, it was revoked, or its application was deleted.
        The caller must check whether the key has expired."""
        found = yield from row("api_key_by_hash", hash=hashed)
        return None if found is None else self._reading.struct(ApiKey, found)

    @changes
    def revoke_api_key(self, org_id: str, key_id: str, *, note: Note[None] | None = None) -> Plan[None]:
        """Revoke the key permanently. Raises `NotFound` if it does not exist or was already revoked."""
        if not (yield Step("api_key_revoke", org_id=org_id, key_id=key_id)):
            raise NotFound("no such API key")
        yield from noted(note, None)

    @changes
    def touch_api_key(self, key_id: str) -> Plan[None]:
        """Set the key's last use to now. The value is written at most once a minute."""
        yield Step("api_key_touch", key_id=key_id)

    @changes
    def revoke_token(self, hashed: bytes, until: datetime, *, note: Note[bool] | None = None) -> Plan[bool]:
        """Revoke one token. The revocation is stored until the instant `until`. Return False if the token was already
        revoked. If several callers revoke it at once, only one gets True."""
        revoked = yield Step("token_revoke", hash=hashed, until=until)
        return (yield from noted(note, bool(revoked)))

    @changes
    def revoke_tokens(
        self, org_id: str, app_no: int | None, before: datetime, *, note: Note[None] | None = None
    ) -> Plan[None]:
        """Revoke all tokens of the organization, or of one application, that were issued before an instant. Raises
        `NotFound` if the organization or application does not exist."""
        if app_no is None:
            revoked = yield Step("revoke_org_tokens", org_id=org_id, before=before)
        else:
            revoked = yield Step("revoke_app_tokens", org_id=org_id, app_no=app_no, before=before)
        if not revoked:
            raise NotFound("no such organization or application")
        yield from noted(note, None)

    @reads
    def token_revoked(self, hashed: bytes) -> Plan[bool]:
        return bool((yield Step("token_revoked", hash=hashed)))
