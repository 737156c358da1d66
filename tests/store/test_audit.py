"""The audit log, on both engines."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline.errors import InvalidInput
from hookline.model.actors import Actor, ActorKind
from hookline.model.audit import AuditEntry, AuditFilter
from hookline.model.catalogue import Organization
from hookline.store import Page, Store
from hookline.store.plans import listing
from hookline.store.rows import MAX_NAME, MAX_TEXT
from tests.support import factory
from tests.support.operators import new_audit
from tests.support.raw import Raw
from tests.support.timeshift import age


async def _all(store: Store, where: AuditFilter) -> list[AuditEntry]:
    found = await store.access.audit_log(where, Page(limit=1000))
    assert found.end is None
    return found.rows


async def test_every_field_of_an_entry_is_stored(store: Store, organization: Organization) -> None:
    given = [new_audit(organization.id), new_audit(organization.id, app_id=None, detail="", address="")]
    before = await store.now()
    await store.access.add_audit(given)
    newer, older = await _all(store, AuditFilter(org_id=organization.id))

    for entry, found in zip(given, (older, newer), strict=True):
        assert (found.org_id, found.app_id, found.actor) == (entry.org_id, entry.app_id, entry.actor)
        assert (found.action, found.subject, found.detail) == (entry.action, entry.subject, entry.detail)
        assert found.address == entry.address
        assert before <= found.at <= await store.now()
    assert newer.id > older.id


@pytest.mark.parametrize("kind", ActorKind)
async def test_every_kind_of_actor_is_stored(store: Store, organization: Organization, kind: ActorKind) -> None:
    await store.access.add_audit([new_audit(organization.id, actor=Actor(kind=kind))])
    (found,) = await _all(store, AuditFilter(org_id=organization.id))
    assert found.actor == Actor(kind=kind)


async def test_invalid_or_long_texts_do_not_prevent_an_entry(store: Store, organization: Organization) -> None:
    odd = "a\x00b\ud800c"
    entry = new_audit(
        organization.id,
        actor=Actor(kind=ActorKind.KEY, name=odd),
        action=odd,
        subject="s" * 10_000,
        detail="d" * 100_000,
        address=odd,
    )
    await store.access.add_audit([entry])
    (found,) = await _all(store, AuditFilter(org_id=organization.id))
    assert found.action == found.actor.name == found.address == "a�b?c"
    assert found.subject == "s" * (MAX_NAME - 1) + "…"
    assert found.detail == "d" * (MAX_TEXT - 1) + "…"


async def test_writing_no_entries_does_nothing(store: Store, organization: Organization) -> None:
    await store.access.add_audit([])
    assert await _all(store, AuditFilter(org_id=organization.id)) == []


async def test_each_field_of_the_filter_works(store: Store, organization: Organization) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    ada = Actor(kind=ActorKind.OPERATOR, name="ada")
    given = [
        new_audit(organization.id, actor=ada, action="key.create", app_id="app_1", subject="x"),
        new_audit(organization.id, actor=ada, action="key.revoke", app_id="app_2", subject="y"),
        new_audit(organization.id, actor=Actor(kind=ActorKind.COMMAND_LINE), action="key.create", app_id=None),
    ]
    await store.access.add_audit(
        [*given, new_audit(other.id, actor=ada, action="key.create", app_id="app_1", subject="x")]
    )

    async def subjects(**fields: str) -> list[str]:
        found = await _all(store, AuditFilter(org_id=organization.id, **fields))  # type: ignore[arg-type]
        return [each.subject for each in found]

    third = given[2].subject
    assert await subjects() == [third, "y", "x"]
    assert await subjects(action="key.create") == [third, "x"]
    assert await subjects(actor="ada") == ["y", "x"]
    assert await subjects(actor="command_line") == [third]
    assert await subjects(app_id="app_1") == ["x"]
    assert await subjects(subject="y") == ["y"]
    assert await subjects(actor="ada", action="key.create", app_id="app_1", subject="x") == ["x"]
    assert await subjects(actor="ada", app_id="app_3") == []
    assert await subjects(subject="a\x00b") == []
    assert await subjects(action="\ud800") == []


async def test_entries_are_filtered_by_time(store: Store, raw: Raw, organization: Organization) -> None:
    """The entries are from several days. Days outside the time window are not read."""
    for number in range(4):
        await store.access.add_audit([new_audit(organization.id, subject=f"day {number}") for _ in range(2)])
        await age(raw, 86_400)
    now = await store.now()

    async def days(since: float | None, until: float | None) -> list[str]:
        where = AuditFilter(
            org_id=organization.id,
            since=None if since is None else now - timedelta(days=since),
            until=None if until is None else now - timedelta(days=until),
        )
        return [each.subject.removeprefix("day ") for each in await _all(store, where)]

    assert await days(None, None) == ["3", "3", "2", "2", "1", "1", "0", "0"]
    assert await days(2.5, None) == ["3", "3", "2", "2"]
    assert await days(None, 2.5) == ["1", "1", "0", "0"]
    assert await days(3.5, 1.5) == ["2", "2", "1", "1"]
    assert await days(10, 8) == []
    assert await days(0.5, None) == []


async def test_entries_are_paged_in_both_directions(store: Store, organization: Organization) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    for _ in range(7):
        await store.access.add_audit([new_audit(organization.id), new_audit(other.id)])
    where = AuditFilter(org_id=organization.id)
    every = [each.id for each in await _all(store, where)]

    async def page(**fields: object) -> list[int]:
        found = await store.access.audit_log(where, Page(**fields))  # type: ignore[arg-type]
        return [each.id for each in found.rows]

    assert every == sorted(every, reverse=True)
    assert await page(limit=3) == every[:3]
    assert await page(limit=3, iterator=str(every[2])) == every[3:6]
    assert await page(limit=3, iterator=str(every[5])) == every[6:]
    assert await page(limit=3, iterator=str(every[4]), backwards=True) == every[1:4]
    assert await page(limit=3, backwards=True) == every[4:]
    for wrong in ("", "-1", "x", "9" * 30):
        with pytest.raises(InvalidInput):
            await store.access.audit_log(where, Page(iterator=wrong))


async def test_a_filter_that_rarely_matches_reads_in_bounded_steps(
    store: Store, organization: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call reads a limited number of entries and returns where to continue. This holds in both directions."""
    monkeypatch.setattr(listing, "STRIDE", 5)
    await store.access.add_audit(
        [new_audit(organization.id, subject="rare" if n in (1, 4, 9) else "usual") for n in range(14)]
    )
    where = AuditFilter(org_id=organization.id, subject="rare")
    every = [each.id for each in await _all(store, AuditFilter(org_id=organization.id))]

    async def walked(*, backwards: bool) -> list[list[int]]:
        found, iterator = [], None
        while True:
            page = await store.access.audit_log(where, Page(limit=3, iterator=iterator, backwards=backwards))
            found.append([each.id for each in page.rows])
            if page.end is None:
                return found
            iterator = page.end

    assert await walked(backwards=False) == [[every[4]], [every[9]], [every[12]]]
    assert await walked(backwards=True) == [[every[9], every[12]], [every[4]], []]


async def test_entries_outside_the_time_window_are_not_read(
    store: Store, raw: Raw, organization: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "STRIDE", 4)
    for _ in range(5):
        await store.access.add_audit([new_audit(organization.id) for _ in range(3)])
        await age(raw, 86_400)
    now = await store.now()
    third = {"since": now - timedelta(days=3, hours=12), "until": now - timedelta(days=2, hours=12)}
    for backwards in (False, True):
        where = AuditFilter(org_id=organization.id, subject="none", **third)
        assert (await store.access.audit_log(where, Page(backwards=backwards))).end is None
        unbounded = AuditFilter(org_id=organization.id, subject="none")
        assert (await store.access.audit_log(unbounded, Page(backwards=backwards))).end is not None


@pytest.mark.store_options(audit_retention_days=10, retention_days=2)
async def test_old_entries_are_deleted(store: Store, raw: Raw, organization: Organization) -> None:
    await store.access.add_audit([new_audit(organization.id, subject="old")])
    await age(raw, 86_400)
    await store.access.add_audit([new_audit(organization.id, subject="new")])
    await age(raw, 9 * 86_400 - 60)
    assert (await store.upkeep.retire()).retired == 0
    await age(raw, 120)
    assert (await store.upkeep.retire()).retired == 1
    assert [each.subject for each in await _all(store, AuditFilter(org_id=organization.id))] == ["new"]
