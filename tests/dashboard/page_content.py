"""Helpers that read parts of a page, and the audit log."""

from __future__ import annotations

from hookline.model.audit import AuditEntry, AuditFilter
from hookline.model.endpoints import Endpoint
from hookline.store import Page, Store
from tests.dashboard.markup import Node
from tests.support.scene import Scene


def verdict(page: Node) -> str:
    """Return the first line of the page, which sums up its state."""
    return page.first(class_="verdict").text


def notice(page: Node) -> str:
    """Return the notice that the previous action left."""
    return page.first(class_="notice").text


def numbers(page: Node) -> dict[str, str]:
    """Return the large numbers of a page by their labels."""
    return {each.first("span").text: each.first("b").text for each in page.all(class_="number")}


def section(page: Node, title: str) -> Node:
    [found] = [each for each in page.all("section") if each.has("h2") and each.first("h2").text == title]
    return found


def posting(page: Node, end: str) -> Node:
    """Return the form that posts to a path with this end."""
    [form] = [
        each
        for each in page.all("form")
        if each.get("method") == "post" and each["action"].partition("?")[0].endswith(end)
    ]
    return form


async def audited(scene: Scene) -> list[AuditEntry]:
    """Return the audit entries about endpoints and applications, newest first."""
    found = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    return [each for each in found.rows if each.action.startswith(("endpoint.", "application."))]


async def again(store: Store, endpoint: Endpoint) -> Endpoint:
    """Read the endpoint again from the store."""
    found = await store.catalogue.endpoint(endpoint.app_no, endpoint.id)
    assert found is not None
    return found
