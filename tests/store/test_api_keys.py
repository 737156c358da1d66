"""API keys and revoked tokens, on both engines."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.errors import NotFound
from hookline.model.actors import NewApiKey, Scope
from hookline.model.catalogue import Application, Organization
from hookline.security import api_keys
from hookline.store import Page, Store
from tests.support import factory
from tests.support.raw import Raw
from tests.support.timeshift import age


def new_key(**fields: object) -> NewApiKey:
    key = api_keys.make()
    given = {
        "name": f"key {factory.number()}",
        "scope": Scope.PUBLISH,
        "hash": api_keys.hashed(key),
        "hint": api_keys.hint(key),
        "expires_at": factory.instant() + timedelta(days=3650),
    }
    return NewApiKey(**(given | fields))  # type: ignore[arg-type]


async def test_every_field_of_a_key_is_stored(store: Store, organization: Organization, app: Application) -> None:
    given = new_key(app_no=app.no)
    made = await store.access.create_api_key(organization.id, given)

    assert made.id.startswith("key_")
    assert (made.org_id, made.app_id, made.name, made.scope) == (organization.id, app.id, given.name, given.scope)
    assert (made.hint, made.expires_at, made.last_used_at) == (given.hint, given.expires_at, None)
    assert await store.access.api_key(organization.id, made.id) == made
    assert await store.access.api_key_by_hash(given.hash) == made
    assert await store.access.api_key_by_hash(b"\0" * 32) is None


async def test_a_key_for_all_applications(store: Store, organization: Organization) -> None:
    made = await store.access.create_api_key(organization.id, new_key(scope=Scope.FULL, expires_at=None))
    assert (made.app_id, made.expires_at, made.scope) == (None, None, Scope.FULL)


async def test_keys_belong_to_their_organization(store: Store, organization: Organization, app: Application) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    made = await store.access.create_api_key(organization.id, new_key())

    assert await store.access.api_key(other.id, made.id) is None
    assert await store.access.api_keys(other.id, Page()) == []
    with pytest.raises(NotFound):
        await store.access.revoke_api_key(other.id, made.id)
    for org_id, app_no in ((other.id, app.no), ("org_none", None), (organization.id, 2**40)):
        with pytest.raises(NotFound):
            await store.access.create_api_key(org_id, new_key(app_no=app_no))
    assert await store.access.api_keys(organization.id, Page()) == [made]


async def test_listing_in_both_directions(store: Store, organization: Organization) -> None:
    made = [await store.access.create_api_key(organization.id, new_key()) for _ in range(5)]
    made.sort(key=lambda each: each.id)

    assert await store.access.api_keys(organization.id, Page(limit=3)) == made[:3]
    assert await store.access.api_keys(organization.id, Page(limit=3, iterator=made[2].id)) == made[3:]
    assert await store.access.api_keys(organization.id, Page(limit=2, iterator=made[3].id, backwards=True)) == made[1:3]


async def test_a_revoked_key_is_no_longer_found(store: Store, organization: Organization) -> None:
    given = new_key()
    made = await store.access.create_api_key(organization.id, given)
    await store.access.revoke_api_key(organization.id, made.id)

    assert await store.access.api_key_by_hash(given.hash) is None
    assert await store.access.api_key(organization.id, made.id) is None
    assert await store.access.api_keys(organization.id, Page()) == []
    with pytest.raises(NotFound):
        await store.access.revoke_api_key(organization.id, made.id)


async def test_the_key_of_a_deleted_application_is_not_valid(
    store: Store, organization: Organization, app: Application
) -> None:
    given = new_key(app_no=app.no)
    await store.access.create_api_key(organization.id, given)
    await store.catalogue.delete_application(app.no)
    assert await store.access.api_key_by_hash(given.hash) is None
    with pytest.raises(NotFound):
        await store.access.create_api_key(organization.id, new_key(app_no=app.no))


async def test_last_use_is_written_once_a_minute(store: Store, organization: Organization, raw: Raw) -> None:
    made = await store.access.create_api_key(organization.id, new_key())

    async def touched() -> object:
        await store.access.touch_api_key(made.id)
        found = await store.access.api_key(organization.id, made.id)
        assert found is not None
        return found.last_used_at

    first = await touched()
    assert first is not None
    assert await touched() == first
    await age(raw, 61)
    second = await touched()
    assert await touched() == second
    assert second != first


async def test_the_key_itself_is_not_stored(store: Store, organization: Organization, raw: Raw) -> None:
    key = api_keys.make()
    await store.access.create_api_key(organization.id, new_key(hash=api_keys.hashed(key), hint=api_keys.hint(key)))
    (row,) = await raw.rows("SELECT * FROM api_key")
    assert not [value for value in row.values() if key[3:20] in str(value)]


async def test_only_one_of_many_concurrent_revocations_of_a_token_is_the_first(store: Store, second: Store) -> None:
    until = await store.now() + timedelta(hours=1)
    found = await asyncio.gather(*(each.access.revoke_token(b"h" * 32, until) for each in (store, second) * 10))
    assert sorted(found) == [False] * 19 + [True]


async def test_a_revoked_token_is_remembered(store: Store, second: Store, raw: Raw) -> None:
    now = await store.now()
    assert not await store.access.token_revoked(b"h" * 32)
    assert await store.access.revoke_token(b"h" * 32, now + timedelta(hours=1))
    assert not await second.access.revoke_token(b"h" * 32, now + timedelta(hours=1))
    assert await second.access.token_revoked(b"h" * 32)
    assert not await store.access.token_revoked(b"i" * 32)

    await store.upkeep.retire()
    assert await store.access.token_revoked(b"h" * 32)
    await age(raw, 3700)
    assert (await store.upkeep.retire()).retired == 1
    assert not await store.access.token_revoked(b"h" * 32)
