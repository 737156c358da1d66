"""The page of the audit log: the actor of each action, filters in the URL, and no entries of other tenants."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hookline.model.actors import Actor, ActorKind
from hookline.model.audit import NewAuditEntry
from hookline.model.catalogue import Organization
from hookline.store import Store
from tests.dashboard.conftest import Client, Enter
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = "<script>alert(1)</script>"


def entry(org_id: str, **fields: Any) -> NewAuditEntry:
    given: dict[str, Any] = {
        "org_id": org_id,
        "actor": Actor(kind=ActorKind.OPERATOR, name=f"ada{factory.number()}"),
        "action": "endpoint.pause",
        "subject": f"subject{factory.number()}",
        "detail": f"detail {factory.number()}",
        "address": f"192.0.2.{factory.number() % 250}",
    }
    return NewAuditEntry(**(given | fields))


async def rows(client: Client, path: str = "/audit") -> list[list[str]]:
    """Return the rows of the page, without those about signing in and out."""
    page = await client.page(path)
    found = page.rows() if page.has("tbody") else []
    return [row for row in found if not row[2].startswith("session.")]


async def test_actions_on_pages_are_in_the_audit_log(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await operator.post(f"/endpoints/{endpoint.id}/pause", cause="maintenance at theirs")
    page = await operator.page("/audit")
    (row,) = await rows(operator)
    assert row[1:3] == ["an API token", "endpoint.pause"]
    assert "maintenance at theirs" in row[4]
    assert row[5] == "127.0.0.1"
    assert page.has("a", href=f"/endpoints/{endpoint.id}")


async def test_each_kind_of_actor_has_a_label(operator: Client, store: Store, organization: Organization) -> None:
    await store.access.add_audit(
        [entry(organization.id, actor=Actor(kind=kind), action=f"k.{kind.value}", address="") for kind in ActorKind]
    )
    found = {row[2].removeprefix("k."): row for row in await rows(operator)}
    assert set(found) == {kind.value for kind in ActorKind}
    assert len({row[1] for row in found.values()}) == len(found)
    assert found["command_line"][5] == "–"


@pytest.mark.parametrize("name", ["actor", "action", "subject"])
async def test_filters(operator: Client, store: Store, organization: Organization, name: str) -> None:
    wanted, other = entry(organization.id), entry(organization.id, action="key.revoke")
    await store.access.add_audit([wanted, other])
    value = {"actor": wanted.actor.name, "action": wanted.action, "subject": wanted.subject}[name]
    assert [row[4] for row in await rows(operator, f"/audit?{name}={value}")] == [wanted.detail]
    assert "No entry matches" in (await operator.page(f"/audit?{name}=nobody")).text
    page = await operator.page(f"/audit?{name}={value}")
    assert page.first(id=f"field-{name}")["value"] == value


async def test_entries_are_filtered_by_time(operator: Client, scene: Scene) -> None:
    old, new = entry(scene.organization.id), entry(scene.organization.id)
    await scene.store.access.add_audit([old])
    await scene.age(7200)
    await scene.store.access.add_audit([new])
    hour_ago = f"{await scene.store.now() - timedelta(hours=1):%Y-%m-%dT%H:%M}"
    assert [row[4] for row in await rows(operator)] == [new.detail, old.detail]
    assert [row[4] for row in await rows(operator, f"/audit?since={hour_ago}")] == [new.detail]
    assert [row[4] for row in await rows(operator, f"/audit?until={hour_ago}Z")] == [old.detail]
    assert await rows(operator, f"/audit?since={hour_ago}&until={hour_ago}") == []


async def test_an_invalid_filter_shows_an_error_and_keeps_the_others(operator: Client) -> None:
    for text in ("yesterday", "2026-13-01", "9999999-01-01T00:00", "%3Cscript%3E"):
        page = (await operator.get(f"/audit?since={text}&actor=ada")).page(422)
        assert page.first(id="field-since").get("aria-invalid") == "true"
        assert page.first(id="field-actor")["value"] == "ada"
    assert (await operator.get("/audit?after=x")).status == 422
    assert (await operator.get("/audit?app=app_nobody")).status == 404


async def test_one_application(operator: Client, store: Store, scene: Scene) -> None:
    mine = entry(scene.organization.id, app_id=scene.app.id)
    await store.access.add_audit([mine, entry(scene.organization.id)])
    assert [row[4] for row in await rows(operator, f"/audit?app={scene.app.id}")] == [mine.detail]


async def test_tenants_see_only_their_own_entries(
    operator: Client, portal: Client, enter: Enter, store: Store, organization: Organization
) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    theirs = entry(other.id)
    await store.access.add_audit([theirs, entry(organization.id)])
    assert theirs.detail not in (await operator.get("/audit")).text
    assert [row[4] for row in await rows(await enter(org_id=other.id))] == [theirs.detail]
    assert (await portal.get("/portal/audit")).status == 404


async def test_paging(operator: Client, store: Store, organization: Organization) -> None:
    made = [entry(organization.id, action="a.b") for _ in range(120)]
    await store.access.add_audit(made)
    path, seen = "/audit?action=a.b", []
    for _ in range(3):
        page = await operator.page(path)
        seen += [row[4] for row in page.rows()]
        more = page.all(class_="more")
        if not more:
            break
        path = more[0].first("a")["href"]
        assert "action=a.b" in path
    assert seen == [each.detail for each in reversed(made)]


async def test_text_of_others_is_escaped(operator: Client, store: Store, organization: Organization) -> None:
    actor = Actor(kind=ActorKind.KEY, name=HOSTILE)
    await store.access.add_audit(
        [entry(organization.id, actor=actor, subject=f"ep_{HOSTILE}", detail=HOSTILE, address=HOSTILE)]
    )
    shown = await operator.get("/audit")
    assert "<script>alert" not in shown.text
    assert HOSTILE in shown.page().text
