"""Lists of choices have a maximum length and say so. Entries that are not in the list can be typed."""

from __future__ import annotations

import pytest

from hookline.model.catalogue import Application
from tests.dashboard.client import Client
from tests.dashboard.markup import Node
from tests.support import factory
from tests.support.scene import Scene

BEYOND = "The list has the first 1. Type the id to use another one."


def typed(page: Node, name: str) -> Node:
    """Return the text field of this name. It suggests one value and accepts any other."""
    main = page.first("main")
    entry = main.first("input", name=name)
    assert len(main.first("datalist", id=entry["list"]).all("option")) == 1
    return entry


async def test_applications_beyond_the_bound_can_be_typed(
    operator: Client, app: Application, other_app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, name in (("/endpoints/new", "application"), ("/api-keys/new", "app")):
        whole = await operator.page(path)
        assert len(whole.first("main").first("select", name=name).all("option")) == 3
        with monkeypatch.context() as patch:
            patch.setattr("hookline.dashboard.forms.MAX_APPS", 1)
            shown = await operator.page(path)
        typed(shown, name)
        assert BEYOND in shown.first("main").text
        for each in (app, other_app):
            fields = {"name": "k", "scope": "read", "url": "https://a.example.com/hook", name: each.id}
            assert (await operator.submit(shown.first("main").form(path), **fields)).status in (200, 303)


async def test_endpoints_beyond_the_bound_can_be_typed(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    [message] = await scene.send()
    endpoints = [await scene.endpoint() for _ in range(2)]
    monkeypatch.setattr("hookline.dashboard.pages.message.actions.MAX_OFFERED", 1)
    path = f"/messages/{message}/resend"
    shown = await operator.page(path)
    typed(shown, "endpoint")
    assert BEYOND in shown.first("main").text
    for endpoint in endpoints:
        assert (await operator.submit(shown.first("main").form(path), endpoint=endpoint.id)).status == 303
    assert (await operator.submit(shown.first("main").form(path), endpoint="ep_none")).status == 404


async def test_event_types_beyond_the_bound_can_be_typed(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await scene.endpoint()
    for name in ("order.paid", "order.sent"):
        await scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id, name=name))
    for page in ("endpoint.controls", "endpoint.form", "messages"):
        monkeypatch.setattr(f"hookline.dashboard.pages.{page}.MAX_TYPES", 1)
    shown = await operator.page(f"/endpoints/{endpoint.id}")
    assert "The list has the first 1." in typed(shown, "event_type")["placeholder"]
    form = shown.first("main").form(f"/endpoints/{endpoint.id}/test")
    assert (await operator.submit(form, event_type="order.sent")).status == 303
    assert (await operator.submit(form, event_type="order.none")).status == 422
    edit = await operator.page(f"/endpoints/{endpoint.id}/edit")
    assert [box["value"] for box in edit.all("input", name="types")] == ["order.paid"]
    assert "The catalogue has more than these 1 event types." in edit.first("main").text
    messages = await operator.page("/messages")
    typed(messages, "type")
    assert "The list has the first 1." in messages.first("main").text
