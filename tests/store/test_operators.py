"""Operators, on both engines."""

from __future__ import annotations

import pytest

from hookline.errors import Conflict, InvalidInput, NotFound
from hookline.model.actors import Scope
from hookline.model.catalogue import Organization
from hookline.model.operators import NewSession, Operator
from hookline.store import Page, Store
from tests.support import factory
from tests.support.operators import new_operator, new_session
from tests.support.raw import Raw


async def test_every_field_of_an_operator_is_stored(store: Store, organization: Organization) -> None:
    given = new_operator(organization.id, role=Scope.READ)
    before = await store.now()
    made = await store.access.create_operator(given)

    assert (made.name, made.org_id, made.role, made.password) == (
        given.name,
        organization.id,
        Scope.READ,
        given.password,
    )
    assert before <= made.created_at <= await store.now()
    assert await store.access.operator(given.name) == made
    assert given.password not in repr(made)


async def test_an_operator_name_is_unique_in_the_whole_deployment(store: Store, organization: Organization) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    made = await store.access.create_operator(new_operator(organization.id))
    with pytest.raises(Conflict):
        await store.access.create_operator(new_operator(other.id, name=made.name))
    with pytest.raises(NotFound):
        await store.access.create_operator(new_operator("org_none"))
    assert await store.access.operators(None, Page()) == [made]


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
async def test_a_name_that_cannot_be_stored_is_refused(store: Store, organization: Organization, name: str) -> None:
    with pytest.raises(InvalidInput):
        await store.access.create_operator(new_operator(organization.id, name=name))
    assert await store.access.operator(name) is None


async def test_names_are_case_sensitive(store: Store, organization: Organization) -> None:
    made = await store.access.create_operator(new_operator(organization.id, name="Zoë"))
    assert await store.access.operator("zoë") is None
    assert await store.access.operator("Zoë ") is None
    assert await store.access.operator("Zoë") == made


async def test_listing_in_both_directions(store: Store, organization: Organization) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    names = ["Ada", "ada", "bob", "cy", "éva"]  # ordered by their bytes
    made = {
        name: await store.access.create_operator(new_operator(organization.id, name=name)) for name in reversed(names)
    }
    foreign = await store.access.create_operator(new_operator(other.id, name="bart"))

    async def listed(page: Page, org_id: str | None = organization.id) -> list[str]:
        found = await store.access.operators(org_id, page)
        assert all(each in (*made.values(), foreign) for each in found)
        return [each.name for each in found]

    assert await listed(Page(limit=3)) == names[:3]
    assert await listed(Page(limit=3, iterator="bob")) == names[3:]
    assert await listed(Page(limit=2, iterator="cy", backwards=True)) == names[1:3]
    assert await listed(Page(limit=2, backwards=True)) == names[3:]
    assert await listed(Page(), None) == ["Ada", "ada", "bart", "bob", "cy", "éva"]
    assert await listed(Page(), other.id) == ["bart"]


async def test_a_changed_role_applies_to_existing_sessions(store: Store, organization: Organization) -> None:
    made = await store.access.create_operator(new_operator(organization.id, role=Scope.FULL))
    began = await _begin(store, made)
    changed = await store.access.change_operator(made.name, role=Scope.READ)

    assert (changed.role, changed.password, changed.created_at) == (Scope.READ, made.password, made.created_at)
    session = await store.access.session(began.hash)
    assert session is not None
    assert session.role == Scope.READ


async def test_a_new_password_ends_the_sessions_of_the_old_one(
    store: Store, raw: Raw, organization: Organization
) -> None:
    made = await store.access.create_operator(new_operator(organization.id))
    other = await store.access.create_operator(new_operator(organization.id))
    began, others = await _begin(store, made), await _begin(store, other)

    changed = await store.access.change_operator(made.name, password="scrypt$new")
    assert (changed.password, changed.role) == ("scrypt$new", made.role)
    assert await store.access.session(began.hash) is None
    assert await raw.count("session") == 1
    assert await store.access.session(others.hash) is not None
    assert await store.access.session((await _begin(store, changed)).hash) is not None


async def test_an_unknown_operator_cannot_be_changed(store: Store, organization: Organization) -> None:
    for change in (
        store.access.change_operator("nobody", role=Scope.FULL),
        store.access.change_operator("nobody", password="scrypt$x"),
        store.access.delete_operator("nobody"),
    ):
        with pytest.raises(NotFound):
            await change


async def test_deleting_an_operator_ends_their_sessions(store: Store, organization: Organization) -> None:
    made = await store.access.create_operator(new_operator(organization.id))
    began = await _begin(store, made)
    await store.access.delete_operator(made.name)
    assert await store.access.operator(made.name) is None
    assert await store.access.session(began.hash) is None

    again = await store.access.create_operator(new_operator(organization.id, name=made.name))
    assert await store.access.session(began.hash) is None
    assert await store.access.session((await _begin(store, again)).hash) is not None


async def _begin(store: Store, operator: Operator) -> NewSession:
    new = new_session(operator.org_id, operator=operator.name, password=operator.password, role=operator.role)
    await store.access.add_session(new)
    return new
