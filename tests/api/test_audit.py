"""The audit log of the API has one entry for each change, none for reads and publishing, and never a secret."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.model.actors import Actor, ActorKind
from hookline.model.audit import AuditEntry, AuditFilter
from hookline.model.catalogue import Application, Organization
from hookline.store import Page, Store
from tests.api.conftest import Client
from tests.support import factory

URL = "https://example.com/hooks"


async def log_of(store: Store, organization: Organization) -> list[AuditEntry]:
    """Return the audit log, oldest entry first."""
    found = await store.access.audit_log(AuditFilter(org_id=organization.id), Page(limit=100))
    return found.rows[::-1]


async def deeds(store: Store, organization: Organization) -> list[tuple[str, str, str | None]]:
    return [(each.action, each.subject, each.app_id) for each in await log_of(store, organization)]


async def send(client: Client, method: str, path: str, body: object = None) -> Any:
    answer = await client.request(method, path, None if body is None else msgspec.json.encode(body), {})
    assert answer.status < 300, answer
    return msgspec.json.decode(answer.body) if answer.body else None


async def test_every_action_on_an_endpoint_is_logged(
    client: Client, store: Store, organization: Organization, app: Application
) -> None:
    base = f"/api/v1/app/{app.uid or app.id}/endpoint"
    made = await send(client, "POST", base, {"url": URL, "uid": "one"})
    for method, path, body in (
        ("PATCH", "/one", {"description": "new", "disabled": False}),
        ("PUT", "/one", {"url": URL, "uid": "one"}),
        ("PUT", "/one/headers", {"headers": {"x-secret": "sesame"}}),
        ("PATCH", "/one/headers", {"headers": {"x-secret": "sesame"}}),
        ("POST", "/one/secret/rotate", {}),
        ("POST", "/one/pause", {}),
        ("POST", "/one/resume", {}),
        ("POST", "/one/circuit/open", {}),
        ("POST", f"/{made['id']}/recover", {"since": "2026-01-01T00:00:00Z"}),
        ("DELETE", "/one", None),
    ):
        await send(client, method, base + path, body)
    assert await deeds(store, organization) == [
        (name, made["id"], app.id)
        for name in (
            "endpoint.create",
            "endpoint.edit",
            "endpoint.edit",
            "endpoint.headers",
            "endpoint.headers",
            "endpoint.rotate_secret",
            "endpoint.pause",
            "endpoint.resume",
            "endpoint.open_circuit",
            "endpoint.recover",
            "endpoint.delete",
        )
    ]
    entries = await log_of(store, organization)
    assert entries[1].detail == "description"  # `disabled` is not listed, because its value was already false
    assert "sesame" not in repr(entries)
    assert {each.address for each in entries} == {"127.0.0.1"}
    assert {each.actor for each in entries} == {Actor(kind=ActorKind.TOKEN)}


async def test_actions_outside_applications_are_logged(
    client: Client, store: Store, organization: Organization
) -> None:
    made = await send(client, "POST", "/api/v1/app", {"name": "Acme", "uid": "acme"})
    await send(client, "PATCH", "/api/v1/app/acme", {"name": "Acme Inc."})
    await send(client, "PUT", "/api/v1/app/acme", {"name": "Acme", "uid": "acme"})
    await send(client, "POST", "/api/v1/auth/app-portal-access/acme", {})
    await send(client, "POST", "/api/v1/event-type", {"name": "order.paid", "description": ""})
    key = await send(client, "POST", "/api/v1/api-key", {"name": "shop", "scope": "full"})
    await send(client.holding(key["key"]), "DELETE", "/api/v1/app/acme")
    await send(client, "DELETE", f"/api/v1/api-key/{key['id']}")

    entries = await log_of(store, organization)
    assert [(each.action, each.subject, each.app_id) for each in entries] == [
        ("application.create", made["id"], made["id"]),
        ("application.edit", made["id"], made["id"]),
        ("application.edit", made["id"], made["id"]),
        ("application.portal_link", made["id"], made["id"]),
        ("event_type.create", "order.paid", None),
        ("api_key.create", key["id"], None),
        ("application.delete", made["id"], made["id"]),
        ("api_key.revoke", key["id"], None),
    ]
    assert key["key"] not in repr(entries)
    assert entries[6].actor == Actor(kind=ActorKind.KEY, name="shop")


async def test_reading_a_secret_is_logged(
    client: Client, narrow: Client, store: Store, organization: Organization, app: Application
) -> None:
    path = f"/api/v1/app/{app.id}/endpoint"
    made = await send(client, "POST", path, {"url": URL, "uid": "one"})
    operational = await send(client, "POST", "/api/v1/operational-webhook/endpoint", {"url": URL})
    shown = [
        await send(client, "GET", f"{path}/one/secret"),
        await send(narrow, "GET", f"{path}/one/secret"),
        await send(client, "GET", f"/api/v1/operational-webhook/endpoint/{operational['id']}/secret"),
    ]
    assert (await client.get(f"{path}/none/secret")).status == 404
    entries = (await log_of(store, organization))[2:]
    assert [(each.action, each.subject, each.actor.kind) for each in entries] == [
        ("endpoint.reveal_secret", made["id"], ActorKind.TOKEN),
        ("endpoint.reveal_secret", made["id"], ActorKind.APPLICATION_TOKEN),
        ("operational_webhook.reveal_secret", operational["id"], ActorKind.TOKEN),
    ]
    assert not [each["key"] for each in shown if each["key"] in repr(entries)]


async def test_requests_that_change_nothing_are_not_logged(
    client: Client, store: Store, organization: Organization, app: Application
) -> None:
    base = f"/api/v1/app/{app.id}"
    assert (await client.post(f"{base}/msg", {"eventType": "a", "payload": {}})).status == 202
    assert (await client.get(base)).status == 200
    assert (await client.post(f"{base}/endpoint", {"url": "ftp://nowhere"})).status == 422
    assert (await client.request("DELETE", f"{base}/endpoint/ep_none", None, {})).status == 404
    await store.catalogue.create_application(organization.id, factory.new_application(uid="there"))
    again = await client.post("/api/v1/app?get_if_exists=true", {"name": "there", "uid": "there"})
    assert again.status == 200
    assert await deeds(store, organization) == []


async def test_a_request_repeated_with_its_idempotency_key_is_logged_once(
    client: Client, store: Store, organization: Organization, app: Application
) -> None:
    for _ in range(3):
        answer = await client.post(f"/api/v1/app/{app.id}/endpoint", {"url": URL}, idempotency_key="k1")
        assert answer.status == 201
    assert [name for name, _, _ in await deeds(store, organization)] == ["endpoint.create"]


async def test_an_application_s_own_token(
    narrow: Client, store: Store, organization: Organization, app: Application
) -> None:
    await send(narrow, "POST", f"/api/v1/app/{app.id}/endpoint", {"url": URL})
    (entry,) = await log_of(store, organization)
    assert (entry.actor.kind, entry.app_id) == (ActorKind.APPLICATION_TOKEN, app.id)
