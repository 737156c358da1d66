"""Organizations, applications, event types and endpoints: every field is stored, and no tenant sees another's data."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import asdict, replace

from hookline.errors import Conflict, NotFound, Overtaken, TooManyEndpoints
from hookline.model.catalogue import Application, ApplicationChange, Organization
from hookline.model.endpoints import EndpointChange, OnDeath, Ordering, Scheme, Secret
from hookline.model.lanes import LaneEventKind
from hookline.model.policy import PolicyOverride
from hookline.model.states import EndpointStatus
from hookline.store import Page, Store
from tests.support import factory
from tests.support.scene import Scene

NOBODY = 987_654_321


# ── organizations ──


async def test_every_field_of_an_organization_is_stored(store: Store) -> None:
    org = factory.organization()
    saved = await store.catalogue.save_organization(org)
    assert (saved.id, saved.name, saved.tokens_valid_after) == (org.id, org.name, None)
    assert await store.catalogue.organization(org.id) == saved


async def test_saving_an_organization_again_returns_the_first(store: Store) -> None:
    first = await store.catalogue.save_organization(factory.organization())
    again = await store.catalogue.save_organization(factory.organization(id=first.id))
    assert again == first


async def test_an_unknown_organization_is_not_found(store: Store) -> None:
    assert await store.catalogue.organization("org_nobody") is None


async def test_tokens_of_an_organization_are_revoked(store: Store, organization: Organization) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    before = factory.instant()
    await store.access.revoke_tokens(organization.id, None, before)
    found = await store.catalogue.organization(organization.id)
    assert found is not None
    assert found.tokens_valid_after == before
    assert await store.catalogue.organization(other.id) == other


async def test_tokens_of_one_application_are_revoked_alone(
    store: Store, organization: Organization, app: Application
) -> None:
    sibling = await store.catalogue.create_application(organization.id, factory.new_application())
    before = factory.instant()
    await store.access.revoke_tokens(organization.id, app.no, before)
    found = await store.catalogue.application(organization.id, app.id)
    assert found is not None
    assert found.tokens_valid_after == before
    assert await store.catalogue.application(organization.id, sibling.id) == sibling
    assert await store.catalogue.organization(organization.id) == organization


# ── applications ──


async def test_every_field_of_an_application_comes_back(store: Store, organization: Organization) -> None:
    new = factory.full_application()
    app = await store.catalogue.create_application(organization.id, new)
    assert (app.name, app.uid, app.throttle_rate, app.metadata) == (new.name, new.uid, new.throttle_rate, new.metadata)
    assert app.id.startswith("app_")
    assert app.org_id == organization.id
    assert app.created_at.tzinfo is not None


async def test_an_application_is_found_by_id_and_by_uid(store: Store, organization: Organization) -> None:
    app = await store.catalogue.create_application(organization.id, factory.full_application())
    assert app.uid is not None
    assert await store.catalogue.application(organization.id, app.id) == app
    assert await store.catalogue.application(organization.id, app.uid) == app
    assert await store.catalogue.application(organization.id, "app_unknown") is None


async def test_an_application_of_another_organization_is_not_found(store: Store, organization: Organization) -> None:
    app = await store.catalogue.create_application(organization.id, factory.full_application())
    stranger = await store.catalogue.save_organization(factory.organization())
    assert app.uid is not None
    assert await store.catalogue.application(stranger.id, app.id) is None
    assert await store.catalogue.application(stranger.id, app.uid) is None
    assert await store.catalogue.applications(stranger.id, Page()) == []


async def test_a_uid_is_taken_once_in_an_organization_only(store: Store, organization: Organization) -> None:
    await store.catalogue.create_application(organization.id, factory.new_application(uid="acme"))
    with pytest.raises(Conflict):
        await store.catalogue.create_application(organization.id, factory.new_application(uid="acme"))
    stranger = await store.catalogue.save_organization(factory.organization())
    assert (await store.catalogue.create_application(stranger.id, factory.new_application(uid="acme"))).uid == "acme"
    assert len(await store.catalogue.applications(organization.id, Page())) == 1


async def test_an_application_of_an_unknown_organization_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.catalogue.create_application("org_nobody", factory.new_application())


async def test_applications_are_listed_by_id_a_page_at_a_time(store: Store, organization: Organization) -> None:
    made = [await store.catalogue.create_application(organization.id, factory.new_application()) for _ in range(5)]
    by_id = sorted(made, key=lambda app: app.id)
    assert await store.catalogue.applications(organization.id, Page(limit=2)) == by_id[:2]
    assert await store.catalogue.applications(organization.id, Page(limit=2, iterator=by_id[1].id)) == by_id[2:4]
    assert await store.catalogue.applications(organization.id, Page(limit=2, iterator=by_id[3].id)) == by_id[4:]
    assert await store.catalogue.applications(organization.id, Page(limit=2, iterator=by_id[4].id)) == []


async def test_a_backward_page_has_the_rows_just_before_its_iterator(store: Store, organization: Organization) -> None:
    made = [await store.catalogue.create_application(organization.id, factory.new_application()) for _ in range(5)]
    by_id = sorted(made, key=lambda app: app.id)
    page = await store.catalogue.applications(organization.id, Page(limit=2, iterator=by_id[3].id, backwards=True))
    assert sorted(page, key=lambda app: app.id) == by_id[1:3]


async def test_a_descending_listing_goes_from_the_end_in_both_directions(
    store: Store, organization: Organization
) -> None:
    made = [await store.catalogue.create_application(organization.id, factory.new_application()) for _ in range(5)]
    down = sorted(made, key=lambda app: app.id, reverse=True)

    async def listed(**page: Any) -> list[Application]:
        return await store.catalogue.applications(organization.id, Page(limit=2, descending=True, **page))

    assert await listed() == down[:2]
    assert await listed(iterator=down[1].id) == down[2:4]
    assert await listed(iterator=down[4].id) == []
    assert await listed(iterator=down[4].id, backwards=True) == down[2:4]
    assert await listed(iterator=down[0].id, backwards=True) == []


async def test_a_change_of_an_application_touches_only_what_it_names(store: Store, organization: Organization) -> None:
    app = await store.catalogue.create_application(organization.id, factory.full_application())
    sibling = await store.catalogue.create_application(organization.id, factory.full_application())
    changed = await store.catalogue.change_application(app.no, ApplicationChange(name="new"))
    assert changed == replace(app, name="new", updated_at=changed.updated_at)
    assert changed.updated_at > app.updated_at
    cleared = await store.catalogue.change_application(
        app.no, ApplicationChange(uid=None, metadata={}, throttle_rate=None)
    )
    assert (cleared.name, cleared.uid, cleared.metadata, cleared.throttle_rate) == ("new", None, {}, None)
    assert await store.catalogue.application(organization.id, app.id) == cleared
    assert await store.catalogue.application(organization.id, sibling.id) == sibling


async def test_a_change_of_an_application_keeps_its_tokens_revoked(store: Store, organization: Organization) -> None:
    app = await store.catalogue.create_application(organization.id, factory.full_application())
    revoked = factory.instant()
    await store.access.revoke_tokens(organization.id, app.no, revoked)
    assert (
        await store.catalogue.change_application(app.no, ApplicationChange(name="new"))
    ).tokens_valid_after == revoked


async def test_a_change_of_an_application_cannot_take_a_uid_that_is_taken(
    store: Store, organization: Organization
) -> None:
    await store.catalogue.create_application(organization.id, factory.new_application(uid="taken"))
    app = await store.catalogue.create_application(organization.id, factory.new_application(uid="free"))
    with pytest.raises(Conflict):
        await store.catalogue.change_application(app.no, ApplicationChange(name="new", uid="taken"))
    assert await store.catalogue.application(organization.id, "free") == app


async def test_a_deleted_application_cannot_be_changed(store: Store, organization: Organization) -> None:
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    await store.catalogue.delete_application(app.no)
    for no in (app.no, NOBODY):
        with pytest.raises(NotFound):
            await store.catalogue.change_application(no, ApplicationChange(name="new"))


async def test_a_deleted_application_is_not_found_and_its_uid_is_free(store: Store, organization: Organization) -> None:
    app = await store.catalogue.create_application(organization.id, factory.new_application(uid="acme"))
    endpoint = await store.catalogue.create_endpoint(app.no, factory.new_endpoint())
    await store.catalogue.delete_application(app.no)
    assert await store.catalogue.application(organization.id, app.id) is None
    assert await store.catalogue.applications(organization.id, Page()) == []
    assert await store.catalogue.endpoint(app.no, endpoint.id) is None
    assert (await store.catalogue.create_application(organization.id, factory.new_application(uid="acme"))).no != app.no


# ── event types ──


async def test_every_field_of_an_event_type_comes_back(store: Store, organization: Organization) -> None:
    given = factory.full_event_type(organization.id)
    saved = await store.catalogue.save_event_type(given)
    for field, value in asdict(given).items():
        if field not in ("created_at", "updated_at"):
            assert getattr(saved, field) == value, field
    assert await store.catalogue.event_type(organization.id, given.name) == saved


async def test_saving_an_event_type_again_replaces_it(store: Store, organization: Organization) -> None:
    first = await store.catalogue.save_event_type(factory.full_event_type(organization.id))
    again = await store.catalogue.save_event_type(
        factory.event_type(organization.id, name=first.name, description="another")
    )
    assert again.created_at == first.created_at
    assert (again.description, again.policy, again.schemas, again.feature_flags) == ("another", None, None, ())
    assert await store.catalogue.event_type(organization.id, first.name) == again


async def test_event_types_are_listed_by_name(store: Store, organization: Organization) -> None:
    stranger = await store.catalogue.save_organization(factory.organization())
    await store.catalogue.save_event_type(factory.event_type(stranger.id, name="a.b"))
    names = ["b.a", "a.z", "B.a", "c"]
    for name in names:
        await store.catalogue.save_event_type(factory.event_type(organization.id, name=name))
    listed = [found.name for found in await store.catalogue.event_types(organization.id, Page())]
    assert listed == ["B.a", "a.z", "b.a", "c"]
    rest = await store.catalogue.event_types(organization.id, Page(limit=1, iterator="a.z"))
    assert [found.name for found in rest] == ["b.a"]
    assert await store.catalogue.event_type(stranger.id, "c") is None


async def test_event_types_are_listed_without_the_archived_ones(store: Store, organization: Organization) -> None:
    for number in range(6):
        await store.catalogue.save_event_type(
            factory.event_type(organization.id, name=f"t{number}", archived=number % 2 == 0)
        )

    async def listed(**page: Any) -> list[str]:
        found = await store.catalogue.event_types(organization.id, Page(limit=2, **page), archived=False)
        return [each.name for each in found]

    assert await listed() == ["t1", "t3"]
    assert await listed(iterator="t3") == ["t5"]
    assert await listed(descending=True) == ["t5", "t3"]
    assert await listed(iterator="t5", backwards=True) == ["t1", "t3"]
    assert await listed(iterator="t1", backwards=True, descending=True) == ["t5", "t3"]


async def test_an_event_type_is_replaced_only_if_nobody_changed_it_since(
    store: Store, organization: Organization
) -> None:
    new = factory.event_type(organization.id, description="first")
    first = await store.catalogue.save_event_type(new, replacing=None)
    with pytest.raises(Overtaken):
        await store.catalogue.save_event_type(replace(new, description="twin"), replacing=None)
    later = replace(first, description="second", updated_at=first.updated_at + timedelta(microseconds=1))
    second = await store.catalogue.save_event_type(later, replacing=first)
    with pytest.raises(Overtaken):
        await store.catalogue.save_event_type(replace(later, description="late"), replacing=first)
    assert await store.catalogue.event_type(organization.id, new.name) == second
    assert second.description == "second"


async def test_an_expunged_event_type_is_not_found(store: Store, organization: Organization) -> None:
    stranger = await store.catalogue.save_organization(factory.organization())
    kept = await store.catalogue.save_event_type(factory.event_type(stranger.id, name="a"))
    await store.catalogue.save_event_type(factory.event_type(organization.id, name="a"))
    await store.catalogue.expunge_event_type(organization.id, "a")
    assert await store.catalogue.event_type(organization.id, "a") is None
    assert await store.catalogue.event_type(stranger.id, "a") == kept
    with pytest.raises(NotFound):
        await store.catalogue.expunge_event_type(organization.id, "a")


# ── endpoints ──


async def test_every_field_of_an_endpoint_comes_back(store: Store, app: Application) -> None:
    new = factory.full_endpoint()
    made = await store.catalogue.create_endpoint(app.no, new)
    for field, value in asdict(new).items():
        assert getattr(made, field) == value, field
    assert (made.app_no, made.app_id, made.org_id) == (app.no, app.id, app.org_id)
    assert made.id.startswith("ep_")
    assert made.revision == 1
    assert await store.catalogue.endpoint(app.no, made.id) == made
    assert made.uid is not None
    assert await store.catalogue.endpoint(app.no, made.uid) == made
    assert await store.catalogue.endpoints_for([made.no]) == [made]


async def test_creating_an_endpoint_creates_its_lane(store: Store, app: Application) -> None:
    made = await store.catalogue.create_endpoint(app.no, factory.full_endpoint())
    view = await store.history.lane_view(made.no)
    assert view is not None
    assert (view.lane.throttle_rate, view.lane.concurrency) == (made.throttle_rate, made.concurrency)
    assert (view.lane.app_no, view.lane.status, view.lane.revision) == (app.no, EndpointStatus.ACTIVE, 1)
    assert (view.endpoint_id, view.url, view.app_id) == (made.id, made.url, app.id)


async def test_an_endpoint_of_an_unknown_application_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.catalogue.create_endpoint(NOBODY, factory.new_endpoint())


async def test_an_endpoint_uid_is_taken_once_in_an_application(
    store: Store, organization: Organization, app: Application
) -> None:
    await store.catalogue.create_endpoint(app.no, factory.new_endpoint(uid="gate"))
    with pytest.raises(Conflict):
        await store.catalogue.create_endpoint(app.no, factory.new_endpoint(uid="gate"))
    sibling = await store.catalogue.create_application(organization.id, factory.new_application())
    assert (await store.catalogue.create_endpoint(sibling.no, factory.new_endpoint(uid="gate"))).uid == "gate"
    assert len(await store.catalogue.endpoints(app.no, Page())) == 1


async def test_the_number_of_endpoints_is_limited(store: Store, organization: Organization, app: Application) -> None:
    """The limit holds for concurrent callers. Deleted endpoints and endpoints of other applications do not count."""
    sibling = await store.catalogue.create_application(organization.id, factory.new_application())
    for _ in range(4):
        await store.catalogue.create_endpoint(sibling.no, factory.new_endpoint())
    gone = await store.catalogue.create_endpoint(app.no, factory.new_endpoint())
    await store.catalogue.delete_endpoint(gone.no)
    asked = [store.catalogue.create_endpoint(app.no, factory.new_endpoint(), max_endpoints=3) for _ in range(8)]
    made = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in made if isinstance(each, BaseException)]
    assert {type(each) for each in refused} == {TooManyEndpoints}
    assert "limit of 3 endpoints" in str(refused[0])
    assert len(await store.catalogue.endpoints(app.no, Page())) == 3
    await store.catalogue.create_endpoint(app.no, factory.new_endpoint())
    with pytest.raises(Conflict):
        await store.catalogue.create_endpoint(app.no, factory.new_endpoint(), max_endpoints=3)
    with pytest.raises(NotFound):
        await store.catalogue.create_endpoint(NOBODY, factory.new_endpoint(), max_endpoints=3)


async def test_an_endpoint_of_another_application_is_not_found(
    store: Store, organization: Organization, app: Application
) -> None:
    made = await store.catalogue.create_endpoint(app.no, factory.new_endpoint(uid="gate"))
    sibling = await store.catalogue.create_application(organization.id, factory.new_application())
    assert await store.catalogue.endpoint(sibling.no, made.id) is None
    assert await store.catalogue.endpoint(sibling.no, "gate") is None
    assert await store.catalogue.endpoints(sibling.no, Page()) == []


async def test_an_endpoint_is_found_across_its_organization_only(
    store: Store, organization: Organization, app: Application
) -> None:
    made = await store.catalogue.create_endpoint(app.no, factory.new_endpoint())
    stranger = await store.catalogue.save_organization(factory.organization())
    assert await store.catalogue.endpoint_by_id(organization.id, made.id) == made
    assert await store.catalogue.endpoint_by_id(stranger.id, made.id) is None


async def test_endpoints_are_listed_a_page_at_a_time(store: Store, app: Application) -> None:
    made = [await store.catalogue.create_endpoint(app.no, factory.new_endpoint()) for _ in range(3)]
    by_id = sorted(made, key=lambda endpoint: endpoint.id)
    assert await store.catalogue.endpoints(app.no, Page(limit=2)) == by_id[:2]
    assert await store.catalogue.endpoints(app.no, Page(limit=2, iterator=by_id[1].id)) == by_id[2:]


async def test_endpoints_are_listed_from_the_end(store: Store, app: Application) -> None:
    made = [await store.catalogue.create_endpoint(app.no, factory.new_endpoint()) for _ in range(5)]
    down = sorted(made, key=lambda endpoint: endpoint.id, reverse=True)
    assert await store.catalogue.endpoints(app.no, Page(limit=2, descending=True)) == down[:2]
    assert await store.catalogue.endpoints(app.no, Page(limit=2, descending=True, iterator=down[1].id)) == down[2:4]
    back = Page(limit=2, descending=True, iterator=down[4].id, backwards=True)
    assert await store.catalogue.endpoints(app.no, back) == down[2:4]


async def test_a_change_of_an_endpoint_touches_only_what_it_names(store: Store, app: Application) -> None:
    made = await store.catalogue.create_endpoint(app.no, factory.full_endpoint())
    changed = await store.catalogue.change_endpoint(made.no, EndpointChange(description="moved", concurrency=None))
    expected = replace(made, description="moved", concurrency=None, revision=2, updated_at=changed.updated_at)
    assert changed == expected
    assert await store.catalogue.endpoint(app.no, made.id) == expected


async def test_every_field_of_an_endpoint_can_be_changed(store: Store, app: Application) -> None:
    made = await store.catalogue.create_endpoint(app.no, factory.full_endpoint())
    change = EndpointChange(
        url="https://elsewhere.example.com/x",
        uid="another",
        description="another",
        version=3,
        event_types=None,
        channels=("apac",),
        throttle_rate=2.5,
        concurrency=3,
        ordering=Ordering.NONE,
        on_death=OnDeath.SKIP,
        scheme=Scheme.GITHUB,
        secrets=(Secret(key=factory.secret_key()), *made.secrets[:1]),
        headers={"x-other": "1"},
        metadata={"k": "v"},
        policy=PolicyOverride(max_attempts=2),
    )
    changed = await store.catalogue.change_endpoint(made.no, change)
    for field, value in asdict(change).items():
        assert value is not UNSET, field
        assert getattr(changed, field) == value, field
    view = await store.history.lane_view(made.no)
    assert view is not None
    assert (view.lane.throttle_rate, view.lane.concurrency, view.lane.revision) == (2.5, 3, changed.revision)


async def test_a_change_cannot_take_a_uid_that_is_taken(store: Store, app: Application) -> None:
    await store.catalogue.create_endpoint(app.no, factory.new_endpoint(uid="gate"))
    made = await store.catalogue.create_endpoint(app.no, factory.new_endpoint(uid="door"))
    with pytest.raises(Conflict):
        await store.catalogue.change_endpoint(made.no, EndpointChange(uid="gate", description="never"))
    assert await store.catalogue.endpoint(app.no, "door") == made


async def test_an_unknown_endpoint_cannot_be_changed(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.catalogue.change_endpoint(NOBODY, EndpointChange(description="x"))
    with pytest.raises(NotFound):
        await store.catalogue.set_endpoint_status(NOBODY, EndpointStatus.PAUSED, "x")


async def test_a_change_of_status_raises_the_revision_and_writes_an_event(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    steps = [
        (EndpointStatus.PAUSED, LaneEventKind.ENDPOINT_PAUSED),
        (EndpointStatus.ACTIVE, LaneEventKind.ENDPOINT_RESUMED),
        (EndpointStatus.DISABLED, LaneEventKind.ENDPOINT_DISABLED),
        (EndpointStatus.ACTIVE, LaneEventKind.ENDPOINT_ENABLED),
    ]
    for turn, (status, kind) in enumerate(steps):
        changed = await scene.store.catalogue.set_endpoint_status(endpoint.no, status, f"cause {turn}")
        assert changed.status == status
        assert changed.revision > endpoint.revision
        assert (await scene.lane(endpoint)).status == status
        newest = (await scene.store.history.lane_events(endpoint.no))[0]
        assert (newest.kind, newest.cause, newest.endpoint_no) == (kind, f"cause {turn}", endpoint.no)
        endpoint = changed


async def test_a_deleted_endpoint_is_not_found_but_a_worker_can_still_read_it(scene: Scene) -> None:
    endpoint = await scene.endpoint(uid="gate")
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    assert await scene.store.catalogue.endpoint(scene.app.no, endpoint.id) is None
    assert await scene.store.catalogue.endpoint(scene.app.no, "gate") is None
    assert await scene.store.catalogue.endpoint_by_id(scene.organization.id, endpoint.id) is None
    assert await scene.store.catalogue.endpoints(scene.app.no, Page()) == []
    (left,) = await scene.store.catalogue.endpoints_for([endpoint.no])
    assert left.status == EndpointStatus.DELETED
    assert (await scene.endpoint(uid="gate")).no != endpoint.no


async def test_a_worker_reads_several_endpoints_at_once(scene: Scene) -> None:
    made = [await scene.endpoint() for _ in range(3)]
    found = await scene.store.catalogue.endpoints_for([made[2].no, made[0].no, NOBODY])
    assert sorted(found, key=lambda endpoint: endpoint.no) == [made[0], made[2]]
    assert await scene.store.catalogue.endpoints_for([]) == []
