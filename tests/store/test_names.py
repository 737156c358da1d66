"""Names of objects for pages that have only their ids, and search for applications by a part of their name."""

from __future__ import annotations

import pytest

from hookline.model.catalogue import Application
from hookline.store import Page
from hookline.store.plans import names
from tests.support import factory
from tests.support.scene import Scene


async def named(scene: Scene, name: str, uid: str | None = None) -> Application:
    return await scene.store.catalogue.create_application(
        scene.organization.id, factory.new_application(name=name, uid=uid)
    )


async def called(scene: Scene, text: str, *, limit: int = 2) -> tuple[list[str], int]:
    """Return all applications with this text in their name, and the number of calls."""
    found: list[str] = []
    page, calls = Page(limit=limit), 0
    while True:
        walk = await scene.store.catalogue.applications_called(scene.organization.id, text, page)
        calls += 1
        found += [app.name for app in walk.rows]
        onward = walk.end or (walk.rows[-1].id if len(walk.rows) == limit else None)
        if onward is None:
            return found, calls
        page = Page(limit=limit, iterator=onward)


async def test_applications_are_found_by_a_part_of_their_name_or_uid(scene: Scene) -> None:
    made = [
        await named(scene, name, uid)
        for name, uid in (("Acme & Söhne", None), ("acme 100%", "ten"), ("Other", "ACME-3"), ("Nobody", "nobody"))
    ]
    other = await scene.store.catalogue.save_organization(factory.organization())
    await scene.store.catalogue.create_application(other.id, factory.new_application(name="Acme of others"))
    await scene.store.catalogue.delete_application((await named(scene, "Acme that was")).no)
    by_id = {app.name: app.id for app in made}
    expected = sorted(("Acme & Söhne", "acme 100%", "Other"), key=by_id.__getitem__)
    assert (await called(scene, "aCMe"))[0] == expected
    assert (await called(scene, "SÖHNE"))[0] == ["Acme & Söhne"]
    # the same letter as a letter and a combining mark
    assert (await called(scene, "so\u0308hne"))[0] == ["Acme & Söhne"]
    assert (await called(scene, "0%"))[0] == ["acme 100%"]
    assert (await called(scene, "_"))[0] == []


async def test_one_call_reads_a_bounded_number_of_applications(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_SEARCHED", 2)
    made = [await named(scene, f"Shop {number}") for number in range(5)]
    last = max(made, key=lambda app: app.id)
    first = await scene.store.catalogue.applications_called(scene.organization.id, last.name, Page())
    assert (first.rows, first.end is None) == ([], False)
    found, calls = await called(scene, last.name)
    assert found == [last.name]
    assert calls >= 3


async def test_names_are_returned_for_the_ids_on_a_page(scene: Scene) -> None:
    endpoint = await scene.endpoint(url="https://a.example.com/hook", description="the warehouse")
    other = await scene.store.catalogue.save_organization(factory.organization())
    theirs = await scene.store.catalogue.create_application(other.id, factory.new_application())
    asked = (scene.app.id, theirs.id, "app_none")
    assert await scene.store.catalogue.application_names(scene.organization.id, asked) == {scene.app.id: scene.app.name}
    assert await scene.store.catalogue.application_names(scene.organization.id, ()) == {}
    found = await scene.store.catalogue.endpoint_names((endpoint.id, "ep_none"))
    [name] = found.values()
    assert (found.keys(), name.url, name.description) == ({endpoint.id}, endpoint.url, "the warehouse")
    assert (name.app_id, name.app_name, name.org_id) == (scene.app.id, scene.app.name, scene.organization.id)
    assert not name.deleted
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    assert (await scene.store.catalogue.endpoint_names((endpoint.id,)))[endpoint.id].deleted
