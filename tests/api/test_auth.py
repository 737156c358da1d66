"""Who may do what: tenants stay apart on every route."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline import clock, ids, tokens
from hookline.api.app import PREFIX
from hookline.api.auth import Recent
from hookline.api.routes import OPERATIONS
from hookline.model import Application, Organization
from hookline.store import Store
from tests.api.conftest import JWT_SECRET, Client
from tests.support import factory

MESSAGE = {"eventType": "order.paid", "payload": {"id": 1}}


def filled(path: str, app: Application) -> str:
    """A route's path with this application in it, and an id that nothing has elsewhere."""
    return PREFIX + path.replace("{app_id}", app.id).replace("{endpoint_id}", "ep_none").replace("{msg_id}", "msg_none")


async def test_every_route_needs_a_token(nobody: Client, app: Application) -> None:
    for method, path in ((one.method, one.path) for one in OPERATIONS):
        answer = await nobody.request(method, filled(path, app), b"{}", {})
        answer.problem(401, "authentication_failed")


@pytest.mark.parametrize("token", ["x", "a.b.c", "Bearer"])
async def test_what_is_no_token(nobody: Client, token: str) -> None:
    (await nobody.holding(token).get("/api/v1/app")).problem(401, "authentication_failed")


async def test_tokens_of_elsewhere(nobody: Client, organization: Organization) -> None:
    now = clock.wall()
    forged = tokens.issue("another secret, which is long enough to sign", organization.id, now=now)
    stranger = tokens.issue(JWT_SECRET, ids.mint(ids.ORG, now), now=now)
    expired = tokens.issue(JWT_SECRET, organization.id, now=now - timedelta(days=2), lifetime=3600)
    for token in (forged, stranger, expired):
        (await nobody.holding(token).get("/api/v1/app")).problem(401, "authentication_failed")


async def test_another_organization_reaches_nothing(
    client: Client, nobody: Client, store: Store, app: Application
) -> None:
    other = await store.save_organization(factory.organization())
    stranger = nobody.holding(tokens.issue(JWT_SECRET, other.id, now=clock.wall()))

    for method, path in ((one.method, one.path) for one in OPERATIONS):
        if "{app_id}" in path:
            answer = await stranger.request(method, filled(path, app), b'{"url": "https://a.example"}', {})
            assert app.id in answer.problem(404, "not_found")
    assert (await stranger.get("/api/v1/app")).json()["data"] == []
    (await client.get(f"/api/v1/app/{app.id}")).json()


async def test_an_applications_token_reaches_only_its_application(
    narrow: Client, client: Client, store: Store, organization: Organization, app: Application
) -> None:
    sibling = await store.create_application(organization.id, factory.new_application(uid="sibling"))

    (await narrow.post(f"/api/v1/app/{app.id}/msg", MESSAGE)).json(202)
    for ref in (sibling.id, "sibling"):
        (await narrow.post(f"/api/v1/app/{ref}/msg", MESSAGE)).problem(404, "not_found")
        (await narrow.get(f"/api/v1/app/{ref}")).problem(404, "not_found")
    (await narrow.get("/api/v1/app")).problem(403, "insufficient_access")
    (await narrow.post("/api/v1/app", {"name": "mine"})).problem(403, "insufficient_access")
    assert (await client.get(f"/api/v1/app/{sibling.id}/msg")).json()["data"] == []


async def test_a_message_of_a_sibling_is_not_found(
    client: Client, store: Store, organization: Organization, app: Application
) -> None:
    sibling = await store.create_application(organization.id, factory.new_application())
    sent = (await client.post(f"/api/v1/app/{app.id}/msg", MESSAGE)).json(202)

    assert (await client.get(f"/api/v1/app/{app.id}/msg/{sent['id']}")).json()["payload"] == {"id": 1}
    (await client.get(f"/api/v1/app/{sibling.id}/msg/{sent['id']}")).problem(404, "not_found")


async def test_revoked_tokens(nobody: Client, store: Store, organization: Organization, app: Application) -> None:
    early = clock.wall() - timedelta(minutes=5)
    wide = tokens.issue(JWT_SECRET, organization.id, now=early)
    narrow = tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=early)
    await store.revoke_tokens(organization.id, app.no, early + timedelta(minutes=1))

    (await nobody.holding(narrow).get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")
    await store.revoke_tokens(organization.id, None, early + timedelta(minutes=2))
    (await nobody.holding(wide).get("/api/v1/app")).problem(401, "authentication_failed")
    fresh = tokens.issue(JWT_SECRET, organization.id, now=early + timedelta(minutes=3))
    (await nobody.holding(fresh).get("/api/v1/app")).json()


def test_what_was_looked_up_is_forgotten_in_time() -> None:
    now = 100.0
    recent: Recent[str, int] = Recent(lambda: now)
    recent.put("a", 1)
    assert recent.get("a") == 1
    now = 102.5
    assert recent.get("a") is None
