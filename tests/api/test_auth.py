"""Tokens: how they are issued and revoked, and which organization they give access to.

`test_tenants.py` tests the access on every route.
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hookline import clock, ids
from hookline.api.routes import OPERATIONS
from hookline.model.catalogue import Application, Organization
from hookline.security import tokens
from hookline.store import Page, Store
from hookline.web.authorize import Needs
from hookline.web.callers import RecentCache
from hookline.web.context import WebContext
from tests.api.conftest import JWT_SECRET, Answer, Client, serving
from tests.support import factory
from tests.support.raw import Raw

MESSAGE = {"eventType": "order.paid", "payload": {"id": 1}}
WEEK = 7 * 86_400


# ── invalid tokens ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("token", ["x", "a.b.c", "Bearer"])
async def test_malformed_tokens_are_refused(nobody: Client, token: str) -> None:
    answer = await nobody.holding(token).get("/api/v1/app")
    answer.problem(401, "authentication_failed")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic dTpw", "\xff\xfe", "Bearer \xff"])
async def test_malformed_authorization_headers_are_refused(nobody: Client, header: str) -> None:
    (await nobody.get("/api/v1/app", authorization=header)).problem(401, "authentication_failed")


async def test_forged_foreign_and_expired_tokens_are_refused(nobody: Client, organization: Organization) -> None:
    now = clock.wall()
    forged = tokens.issue("another secret, which is long enough to sign", organization.id, now=now)
    stranger = tokens.issue(JWT_SECRET, ids.mint(ids.ORG, now), now=now)
    expired = tokens.issue(JWT_SECRET, organization.id, now=now - timedelta(days=2), lifetime=3600)
    for token in (forged, stranger, expired):
        (await nobody.holding(token).get("/api/v1/app")).problem(401, "authentication_failed")


async def test_an_applications_token_reaches_only_its_application(
    narrow: Client, client: Client, store: Store, organization: Organization, app: Application
) -> None:
    sibling = await store.catalogue.create_application(organization.id, factory.new_application(uid="sibling"))

    (await narrow.post(f"/api/v1/app/{app.id}/msg", MESSAGE)).json(202)
    for ref in (sibling.id, "sibling"):
        (await narrow.post(f"/api/v1/app/{ref}/msg", MESSAGE)).problem(404, "not_found")
        (await narrow.get(f"/api/v1/app/{ref}")).problem(404, "not_found")
    (await narrow.get("/api/v1/app")).problem(403, "insufficient_access")
    (await narrow.post("/api/v1/app", {"name": "mine"})).problem(403, "insufficient_access")
    assert (await client.get(f"/api/v1/app/{sibling.id}/msg")).json()["data"] == []


# ── revoked tokens ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_revoked_tokens(nobody: Client, store: Store, organization: Organization, app: Application) -> None:
    early = clock.wall() - timedelta(minutes=5)
    wide = tokens.issue(JWT_SECRET, organization.id, now=early)
    narrow = tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=early)
    await store.access.revoke_tokens(organization.id, app.no, early + timedelta(minutes=1))

    (await nobody.holding(narrow).get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")
    await store.access.revoke_tokens(organization.id, None, early + timedelta(minutes=2))
    (await nobody.holding(wide).get("/api/v1/app")).problem(401, "authentication_failed")
    fresh = tokens.issue(JWT_SECRET, organization.id, now=early + timedelta(minutes=3))
    (await nobody.holding(fresh).get("/api/v1/app")).json()


async def test_all_tokens_of_the_organization_are_revoked_at_once(
    nobody: Client, client: Client, narrow: Client, app: Application, organization: Organization
) -> None:
    key = (await client.post("/api/v1/api-key", {"name": "stays"})).json(201)["key"]
    for caller in (client, narrow):
        (await caller.get(f"/api/v1/app/{app.id}")).json()
    assert (await client.post("/api/v1/auth/revoke-tokens", b"")).status == 204
    for caller in (client, narrow):
        assert "revoked" in (await caller.get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")
    fresh = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    for token in (key, fresh):
        (await nobody.holding(token).get("/api/v1/app")).json()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"expiry": null}', b'{"expiry": 0, "sessionIds": []}'])
async def test_all_tokens_of_one_application_are_revoked(
    client: Client, narrow: Client, nobody: Client, store: Store, app: Application, body: bytes
) -> None:
    sibling = await store.catalogue.create_application(app.org_id, factory.new_application())
    other = nobody.holding(tokens.issue(JWT_SECRET, app.org_id, app_id=sibling.id, now=clock.wall()))
    (await narrow.get(f"/api/v1/app/{app.id}")).json()
    assert (await client.post(f"/api/v1/auth/app/{app.id}/expire-all", body)).status == 204
    (await narrow.get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")
    (await other.get(f"/api/v1/app/{sibling.id}")).json()
    (await client.get("/api/v1/app")).json()


async def test_unsupported_fields_of_expire_all_are_refused(client: Client, narrow: Client, app: Application) -> None:
    for body in ({"expiry": 60}, {"sessionIds": ["a"]}):
        (await client.post(f"/api/v1/auth/app/{app.id}/expire-all", body)).faults()
    (await narrow.get(f"/api/v1/app/{app.id}")).json()


async def test_logout_ends_this_token_and_no_other(
    nobody: Client, narrow: Client, client: Client, raw: Raw, served: WebContext, app: Application
) -> None:
    other = nobody.holding(tokens.issue(JWT_SECRET, app.org_id, app_id=app.id, now=clock.wall()))
    for caller in (narrow, other):
        (await caller.get(f"/api/v1/app/{app.id}")).json()
    assert (await narrow.post("/api/v1/auth/logout/", b"")).status == 204
    assert "revoked" in (await narrow.get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")
    (await other.get(f"/api/v1/app/{app.id}")).json()
    assert narrow.token is not None
    assert not [row for row in await raw.rows("SELECT * FROM revoked_token") if narrow.token in str(row)]
    padded = nobody.holding(narrow.token + "=")  # a different spelling of the same token
    (await padded.get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")


async def test_an_idempotency_key_of_one_token_keeps_no_other_alive(
    nobody: Client, narrow: Client, app: Application
) -> None:
    other = nobody.holding(tokens.issue(JWT_SECRET, app.org_id, app_id=app.id, now=clock.wall()))
    for caller in (narrow, other):
        answer = await caller.post("/api/v1/auth/logout", b"", idempotency_key="logout")
        assert (answer.status, answer.headers.get("idempotent-replayed")) == (204, None)
        (await caller.get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")


async def test_logout_is_for_an_applications_token(client: Client, nobody: Client, app: Application, raw: Raw) -> None:
    key = (await client.post("/api/v1/api-key", {"name": "n", "appId": app.id})).json(201)["key"]
    for caller in (client, nobody.holding(key)):
        (await caller.post("/api/v1/auth/logout", b"")).problem(403, "insufficient_access")
        (await caller.get(f"/api/v1/app/{app.id}")).json()
    assert await raw.count("revoked_token") == 0


# ── portal access ─────────────────────────────────────────────────────────────────────────────────────────────────


def login_of(url: str, address: str) -> dict[str, str]:
    page, _, fragment = url.partition("#")
    assert page == f"{address}/login"
    assert fragment.startswith("key=")
    encoded = fragment.removeprefix("key=")
    found: dict[str, str] = msgspec.json.decode(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    return found


async def portal(client: Client, ref: str, body: object = None) -> Answer:
    return await client.post(f"/api/v1/auth/app-portal-access/{ref}", {} if body is None else body)


@pytest.mark.parametrize("path", ["app-portal-access", "dashboard-access"])
@pytest.mark.parametrize("body", [b"", b"{}", b'{"featureFlags": ["a"], "sessionId": "s", "expiry": null}'])
async def test_a_link_to_the_portal(client: Client, nobody: Client, app: Application, path: str, body: bytes) -> None:
    found = (await client.post(f"/api/v1/auth/{path}/{app.id}", body)).json()
    assert set(found) == {"url", "token"}
    assert login_of(found["url"], f"http://{client.address}") == {"appId": app.id, "token": found["token"]}
    assert (await nobody.get("/login")).status == 200

    holder = nobody.holding(found["token"])
    (await holder.get(f"/api/v1/app/{app.id}")).json()
    (await holder.get("/api/v1/app")).problem(403, "insufficient_access")
    grant = tokens.read(JWT_SECRET, found["token"], clock.wall())
    assert abs((grant.expires_at - grant.issued_at).total_seconds() - WEEK) < 2


async def test_the_token_lives_as_long_as_asked(client: Client, app: Application) -> None:
    token = (await portal(client, app.id, {"expiry": 3600})).json()["token"]
    grant = tokens.read(JWT_SECRET, token, clock.wall())
    assert abs((grant.expires_at - grant.issued_at).total_seconds() - 3600) < 2
    for expiry in (0, -1, 3599, WEEK + 1, 10**30):
        (await portal(client, app.id, {"expiry": expiry})).faults()


async def test_a_link_that_may_only_read(client: Client, nobody: Client, app: Application) -> None:
    holder = nobody.holding((await portal(client, app.id, {"readOnly": True})).json()["token"])
    (await holder.get(f"/api/v1/app/{app.id}/endpoint")).json()
    given = {"url": "https://hooks.example.com"}
    (await holder.post(f"/api/v1/app/{app.id}/endpoint", given)).problem(403, "insufficient_access")
    assert (await holder.post("/api/v1/auth/logout", b"")).status == 204


# ── messages with a portal's token ──

BODIES = {"": MESSAGE, "/batch": {"messages": [MESSAGE, MESSAGE]}}


async def publishes(holder: Client, app: Application) -> set[int]:
    """Return the status codes of all routes that create messages."""
    refs = [app.id, *([app.uid] if app.uid else [])]
    paths = [(f"/api/v1/app/{ref}/msg{end}", body) for ref in refs for end, body in BODIES.items()]
    return {(await holder.post(path, body)).status for path, body in paths}


async def test_every_way_to_create_messages_is_covered() -> None:
    creating = {operation.path for operation in OPERATIONS if operation.needs == Needs.PUBLISH}
    assert creating == {f"/app/{{app_id}}/msg{end}" for end in BODIES}


@pytest.mark.parametrize("body", [{}, {"readOnly": False}, {"capabilities": []}, {"readOnly": True}])
async def test_a_portals_token_creates_no_message(
    client: Client, nobody: Client, app: Application, body: dict[str, Any]
) -> None:
    holder = nobody.holding((await portal(client, app.id, body)).json()["token"])
    assert await publishes(holder, app) == {403}
    told = (await holder.post(f"/api/v1/app/{app.id}/msg", b"not even JSON")).problem(403, "insufficient_access")
    assert ("only read" if body.get("readOnly") else "CreateMessages") in told
    assert (await client.get(f"/api/v1/app/{app.id}/msg")).json()["data"] == []


async def test_a_portals_token_that_was_given_the_capability(client: Client, nobody: Client, app: Application) -> None:
    token = (await portal(client, app.id, {"capabilities": ["CreateMessages"]})).json()["token"]
    assert await publishes(nobody.holding(token), app) == {202}
    grant = tokens.read(JWT_SECRET, token, clock.wall())
    assert (grant.portal, grant.publishes) == (True, True)


async def test_an_applications_own_token_goes_on_publishing(nobody: Client, app: Application) -> None:
    for lifetime in (60.0, float(WEEK), None):
        token = tokens.issue(JWT_SECRET, app.org_id, app_id=app.id, now=clock.wall(), lifetime=lifetime)
        assert await publishes(nobody.holding(token), app) == {202}


@pytest.mark.parametrize(
    "body",
    [
        {"capabilities": ["ViewBase"]},
        {"capabilities": ["CreateMessages", "ManageEndpoint"]},
        {"capabilities": ["createmessages"]},
        {"capabilities": ["CreateMessages"], "readOnly": True},
    ],
)
async def test_unsupported_capabilities_are_refused(client: Client, app: Application, body: dict[str, Any]) -> None:
    (fault,) = (await portal(client, app.id, body)).faults()
    assert "readOnly" in fault["msg"]


async def test_only_the_organization_gives_access(narrow: Client, app: Application) -> None:
    (await portal(narrow, app.id)).problem(403, "insufficient_access")


async def test_the_application_may_be_made_with_the_link(client: Client, store: Store, app: Application) -> None:
    (await portal(client, "new")).problem(404, "not_found")
    (await portal(client, "app_new", {"application": {"name": "New"}})).problem(404, "not_found")
    (await portal(client, "new", {"application": {"name": "New", "uid": "other"}})).faults()
    for _ in range(2):
        (await portal(client, "new", {"application": {"name": "New"}})).json()
    made = await store.catalogue.application(app.org_id, "new")
    assert made is not None
    assert (made.name, made.uid) == ("New", "new")
    assert len(await store.catalogue.applications(app.org_id, Page())) == 2


async def test_the_portal_link_uses_the_public_url(served: WebContext, token: str, app: Application) -> None:
    async with serving(replace(served, public_url="https://hooks.example.com")) as address:
        found = (await portal(Client(address, token), app.id)).json()
        assert found["url"].startswith("https://hooks.example.com/login#key=")


# ── cached lookups ────────────────────────────────────────────────────────────────────────────────────────────────


def test_cached_lookups_expire() -> None:
    now = 100.0
    recent: RecentCache[str, int] = RecentCache(lambda: now)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.drop_where(lambda value: value == 2)
    assert (recent.get("a"), recent.get("b")) == (1, None)
    now = 102.5
    assert recent.get("a") is None


async def test_another_process_hears_of_a_revocation(
    nobody: Client, client: Client, store: Store, served: WebContext, app: Application, narrow: Client
) -> None:
    """Each process caches callers for a few seconds. After that time it refuses a token that another process revoked."""
    now: dict[str, Any] = {"at": 1000.0}
    elsewhere = replace(
        served, auth=type(served.auth)(store, JWT_SECRET, wall=clock.wall, monotonic=lambda: float(now["at"]))
    )
    async with serving(elsewhere) as address:
        away = Client(address, narrow.token)
        (await away.get(f"/api/v1/app/{app.id}")).json()
        assert (await narrow.post("/api/v1/auth/logout", b"")).status == 204
        (await away.get(f"/api/v1/app/{app.id}")).json()
        now["at"] += 2.1
        (await away.get(f"/api/v1/app/{app.id}")).problem(401, "authentication_failed")
