"""What tests look for on a page, and what was done there."""

from __future__ import annotations

from hookline.model import Endpoint
from hookline.model.audit import AuditEntry, AuditFilter
from hookline.store import Store
from hookline.store.protocols import Page
from tests.dashboard.markup import Node
from tests.support.scene import Scene


def verdict(page: Node) -> str:
    """The first line of sight."""
    return page.first(class_="verdict").text


def notice(page: Node) -> str:
    """What the action before had to say."""
    return page.first(class_="notice").text


def numbers(page: Node) -> dict[str, str]:
    """By what they count."""
    return {each.first("span").text: each.first("b").text for each in page.all(class_="number")}


def section(page: Node, title: str) -> Node:
    [found] = [each for each in page.all("section") if each.has("h2") and each.first("h2").text == title]
    return found


def posting(page: Node, end: str) -> Node:
    """The form that posts to an address that ends so."""
    [form] = [
        each
        for each in page.all("form")
        if each.get("method") == "post" and each["action"].partition("?")[0].endswith(end)
    ]
    return form


async def audited(scene: Scene) -> list[AuditEntry]:
    """What was done in the organization by hand, newest first; without signing in and out."""
    found = await scene.store.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    return [each for each in found.rows if each.action.startswith(("endpoint.", "application."))]


async def again(store: Store, endpoint: Endpoint) -> Endpoint:
    """As it is now."""
    found = await store.endpoint(endpoint.app_no, endpoint.id)
    assert found is not None
    return found
