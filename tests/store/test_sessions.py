"""Sessions, on both engines. A session is valid only while the operator, key or token that started it is valid."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline.errors import InvalidInput, NotFound
from hookline.model.actors import ApiKey, Scope
from hookline.model.catalogue import Application, Organization
from hookline.model.operators import NewSession
from hookline.store import Store
from hookline.store.bounds import IDLE
from tests.store.test_api_keys import new_key
from tests.support import factory
from tests.support.operators import new_operator, new_session
from tests.support.raw import Raw
from tests.support.timeshift import age

DAY = 86_400.0


async def _begin(store: Store, org_id: str, **fields: object) -> NewSession:
    new = new_session(org_id, **fields)
    await store.access.add_session(new)
    assert await store.access.session(new.hash) is not None
    return new


async def test_every_field_of_a_session_is_stored(store: Store, organization: Organization, app: Application) -> None:
    issued = await store.now() - timedelta(minutes=3)
    before = await store.now()
    new = await _begin(
        store,
        organization.id,
        app_no=app.no,
        role=Scope.READ,
        token=b"t" * 32,
        token_issued_at=issued,
        lifetime=3600.0,
    )
    found = await store.access.session(new.hash)
    assert found is not None
    assert (found.hash, found.org_id, found.app_id, found.role) == (new.hash, organization.id, app.id, Scope.READ)
    assert (found.operator, found.key_id, found.key_name, found.token) == (None, None, None, b"t" * 32)
    assert before <= found.created_at <= await store.now()
    assert found.expires_at - found.created_at == timedelta(hours=1)


async def test_an_unknown_session_is_not_found(store: Store, organization: Organization) -> None:
    await _begin(store, organization.id)
    assert await store.access.session(b"\0" * 32) is None
    assert await store.access.session(b"") is None


async def test_a_hash_can_be_used_for_one_session_only(store: Store, organization: Organization) -> None:
    new = await _begin(store, organization.id)
    with pytest.raises(InvalidInput):
        await store.access.add_session(new_session(organization.id, hash=new.hash, role=Scope.READ))
    found = await store.access.session(new.hash)
    assert found is not None
    assert found.role == Scope.FULL


# ── end by time ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_ends_after_its_lifetime_even_if_it_is_used(
    store: Store, raw: Raw, organization: Organization
) -> None:
    new = await _begin(store, organization.id, lifetime=2.5 * DAY)
    for _ in range(4):
        await age(raw, 0.6 * DAY)
        await store.access.touch_session(new.hash)
        assert await store.access.session(new.hash) is not None
    await age(raw, 0.2 * DAY)
    assert await store.access.session(new.hash) is None


async def test_an_unused_session_ends(store: Store, raw: Raw, organization: Organization) -> None:
    used, idle = await _begin(store, organization.id), await _begin(store, organization.id)
    await age(raw, IDLE - 60)
    await store.access.touch_session(used.hash)
    await age(raw, 120)
    assert await store.access.session(used.hash) is not None
    assert await store.access.session(idle.hash) is None


async def test_the_last_use_of_a_session_is_written_once_a_minute(
    store: Store, raw: Raw, organization: Organization
) -> None:
    new = await _begin(store, organization.id)
    first = await raw.value("SELECT seen_at FROM session")
    await store.access.touch_session(new.hash)
    assert await raw.value("SELECT seen_at FROM session") == first
    await age(raw, 61)
    await store.access.touch_session(new.hash)
    assert await raw.value("SELECT seen_at FROM session") > first


async def test_reading_a_session_changes_nothing(store: Store, raw: Raw, organization: Organization) -> None:
    new = await _begin(store, organization.id)
    await age(raw, 3600)
    before = await raw.rows("SELECT * FROM session")
    await store.access.session(new.hash)
    assert await raw.rows("SELECT * FROM session") == before


async def test_a_session_can_be_ended(store: Store, second: Store, organization: Organization) -> None:
    new, other = await _begin(store, organization.id), await _begin(store, organization.id)
    await second.access.end_session(new.hash)
    await second.access.end_session(b"\0" * 32)
    assert await store.access.session(new.hash) is None
    assert await store.access.session(other.hash) is not None


async def test_old_sessions_are_deleted(store: Store, raw: Raw, organization: Organization) -> None:
    await _begin(store, organization.id, lifetime=60.0)
    kept = await _begin(store, organization.id, lifetime=3600.0)
    await age(raw, 61)
    assert (await store.upkeep.retire()).retired == 1
    assert [bytes(row["hash"]) for row in await raw.rows("SELECT hash FROM session")] == [kept.hash]


# ── end of the operator, key or token ─────────────────────────────────────────────────────────────────────────────


async def test_all_sessions_of_an_operator_can_be_ended(store: Store, organization: Organization) -> None:
    one = await store.access.create_operator(new_operator(organization.id))
    two = await store.access.create_operator(new_operator(organization.id))
    ended = [await _begin(store, organization.id, operator=one.name) for _ in range(3)]
    left = await _begin(store, organization.id, operator=two.name)

    assert await store.access.end_sessions(one.name) == 3
    assert await store.access.end_sessions(one.name) == 0
    assert [await store.access.session(each.hash) for each in ended] == [None] * 3
    found = await store.access.session(left.hash)
    assert found is not None
    assert found.operator == two.name


async def test_a_password_that_changes_during_the_sign_in_starts_no_session(
    store: Store, organization: Organization
) -> None:
    """The password changes while a sign-in with the old one is in progress."""
    made = await store.access.create_operator(new_operator(organization.id))
    late = new_session(organization.id, operator=made.name, password=made.password)
    await store.access.change_operator(made.name, password="scrypt$other")
    with pytest.raises(NotFound):
        await store.access.add_session(late)
    assert await store.access.session(late.hash) is None

    await store.access.delete_operator(made.name)
    with pytest.raises(NotFound):
        await store.access.add_session(late)


async def test_a_session_of_an_unknown_operator_is_not_valid(store: Store, organization: Organization) -> None:
    """No code creates such a session. If one existed, it would not be valid."""
    new = new_session(organization.id, operator="nobody")
    await store.access.add_session(new)
    assert await store.access.session(new.hash) is None

    other = await store.catalogue.save_organization(factory.organization())
    operator = await store.access.create_operator(new_operator(other.id))
    foreign = new_session(organization.id, operator=operator.name)
    await store.access.add_session(foreign)
    assert await store.access.session(foreign.hash) is None


async def test_a_revoked_key_ends_its_sessions(store: Store, organization: Organization) -> None:
    key = await store.access.create_api_key(organization.id, new_key(scope=Scope.FULL, expires_at=None))
    new = await _begin(store, organization.id, key_id=key.id)
    found = await store.access.session(new.hash)
    assert found is not None
    assert (found.key_id, found.key_name) == (key.id, key.name)
    await store.access.revoke_api_key(organization.id, key.id)
    assert await store.access.session(new.hash) is None


async def test_an_expired_key_ends_its_sessions(store: Store, raw: Raw, organization: Organization) -> None:
    expires = await store.now() + timedelta(hours=1)
    key: ApiKey = await store.access.create_api_key(organization.id, new_key(expires_at=expires))
    new = await _begin(store, organization.id, key_id=key.id)
    await age(raw, 3590)
    assert await store.access.session(new.hash) is not None
    await age(raw, 20)
    assert await store.access.session(new.hash) is None


async def test_a_revoked_token_ends_its_sessions(store: Store, organization: Organization) -> None:
    now = await store.now()
    new = await _begin(store, organization.id, token=b"t" * 32, token_issued_at=now)
    other = await _begin(store, organization.id, token=b"u" * 32, token_issued_at=now)
    await store.access.revoke_token(b"t" * 32, now + timedelta(hours=1))
    assert await store.access.session(new.hash) is None
    assert await store.access.session(other.hash) is not None


async def test_revoking_the_tokens_of_an_organization_ends_their_sessions(
    store: Store, organization: Organization, app: Application
) -> None:
    now = await store.now()
    operator = await store.access.create_operator(new_operator(organization.id))
    old = await _begin(store, organization.id, token=b"t" * 32, token_issued_at=now)
    portal = await _begin(store, organization.id, app_no=app.no, token=b"u" * 32, token_issued_at=now)
    unknown = await _begin(store, organization.id, token=b"v" * 32)
    person = await _begin(store, organization.id, operator=operator.name)

    await store.access.revoke_tokens(organization.id, None, now + timedelta(microseconds=1))
    assert [await store.access.session(each.hash) for each in (old, portal, unknown)] == [None] * 3
    assert await store.access.session(person.hash) is not None
    later = now + timedelta(microseconds=1)
    assert await _begin(store, organization.id, token=b"w" * 32, token_issued_at=later)


async def test_revoking_the_tokens_of_an_application_ends_their_sessions(
    store: Store, organization: Organization, app: Application
) -> None:
    now = await store.now()
    neighbour = await store.catalogue.create_application(organization.id, factory.new_application())
    ended = await _begin(store, organization.id, app_no=app.no, token=b"t" * 32, token_issued_at=now)
    left = await _begin(store, organization.id, app_no=neighbour.no, token=b"u" * 32, token_issued_at=now)
    whole = await _begin(store, organization.id, token=b"v" * 32, token_issued_at=now)

    await store.access.revoke_tokens(organization.id, app.no, now + timedelta(seconds=1))
    assert await store.access.session(ended.hash) is None
    assert await store.access.session(left.hash) is not None
    assert await store.access.session(whole.hash) is not None


async def test_deleting_an_application_ends_its_sessions(
    store: Store, organization: Organization, app: Application
) -> None:
    new = await _begin(store, organization.id, app_no=app.no, token=b"t" * 32, token_issued_at=await store.now())
    await store.catalogue.delete_application(app.no)
    assert await store.access.session(new.hash) is None


async def test_a_session_for_an_application_of_another_organization_is_not_valid(
    store: Store, organization: Organization, app: Application
) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    new = new_session(other.id, app_no=app.no, token=b"t" * 32, token_issued_at=await store.now())
    await store.access.add_session(new)
    assert await store.access.session(new.hash) is None
