"""A copy of the database contains no readable secret, whether it came from the API, the pages or the settings."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from hookline import clock
from hookline.engine.alerting import channels as alert_channels
from hookline.model.catalogue import Application, Organization
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from hookline.security import tokens
from hookline.store import Store
from tests.api.conftest import JWT_SECRET
from tests.api.conftest import Client as Api
from tests.dashboard.client import Client
from tests.dashboard.page_content import posting
from tests.dashboard.test_sign_in import RIGHT, let_in
from tests.support import factory
from tests.support.raw import Raw
from tests.support.sealing import everything

NAMED = {"idempotency_key": "the same for all: each path has its own"}
HOOK = "https://hooks.example.com/sentinel-of-operational?token=sentinel-of-operational"
ENDPOINT: dict[str, Any] = {
    "url": "https://hooks.example.com/in?token=sentinel-of-query",
    "headers": {"x-a": "sentinel-of-header"},
}
CHANNELS = Channels(webhook_url="https://a.example.com/sentinel-w", slack_url="https://hooks.slack.com/sentinel-s")


async def by_api(client: Api, app: Application) -> dict[str, str]:
    """Create all kinds of secrets through the API and return them by kind.

    The requests have idempotency keys, so that the server stores the answers too.
    """
    path = f"/api/v1/app/{app.id}"
    given, own = factory.secret_key(), factory.secret_key()
    made = (await client.post(f"{path}/endpoint", ENDPOINT | {"secret": given}, **NAMED)).json(201)
    told = {"url": HOOK, "secret": own, "filterTypes": ["endpoint.created"]}
    operational = (await client.post("/api/v1/operational-webhook/endpoint", told, **NAMED)).json(201)
    assert operational["url"] == HOOK
    await client.post(f"{path}/endpoint/{made['id']}/secret/rotate", {}, **NAMED)
    rotated = (await client.get(f"{path}/endpoint/{made['id']}/secret")).json()["key"]
    key = (await client.post("/api/v1/api-key", {"name": "shop"}, **NAMED)).json(201)["key"]
    portal = (await client.post(f"/api/v1/auth/app-portal-access/{app.id}", {}, **NAMED)).json()
    return {
        "given": given,
        "own": own,
        "rotated": rotated,
        "key": key,
        "portal": portal["token"],
        "link": portal["url"],
    }


async def by_pages(address: str, token: str) -> dict[str, str]:
    person, holder = Client(address), Client(address)
    await person.sign_in(name="ada", password=RIGHT)
    await holder.sign_in(token=token)
    cookies = {
        f"{n} {name}": each.value for n, who in enumerate((person, holder)) for name, each in who.cookies.items()
    }
    return {"password": RIGHT, "token": token, **cookies}


def spellings(secret: str) -> list[bytes]:
    """Return the secret, its last 24 characters, and the bytes that its base64 text stands for."""
    found = [secret.encode(), secret[-24:].encode()]
    return [*found, b64decode(secret.removeprefix("whsec_"))] if secret.startswith("whsec_") else found


async def test_no_secret_is_in_a_copy_of_the_database(
    address: str, store: Store, raw: Raw, database_url: str, organization: Organization, app: Application
) -> None:
    await let_in(store, organization, "ada")
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    client = Api(address).holding(token)
    secrets = await by_api(client, app) | await by_pages(address, token)
    await alert_channels.settle(store, Guard(()), CHANNELS)
    await client.post("/api/v1/auth/logout", b"")

    held = await everything(raw, database_url)
    assert ENDPOINT["url"].encode() in held
    found = {name for name, secret in secrets.items() if any(each in held for each in spellings(secret))}
    assert found == set()
    words = ("sentinel-of-header", "sentinel-of-operational", "sentinel-w", "sentinel-s", JWT_SECRET)
    assert [word for word in words if word.encode() in held] == []


async def test_the_audit_log_has_no_query_of_a_url(operator: Client, app: Application, raw: Raw) -> None:
    """The audit log is kept for a year, longer than most endpoints, and the query of a URL may contain a token."""
    form = posting(await operator.page(f"/endpoints/new?app={app.id}"), "/endpoints/new")
    answer = await operator.submit(form, url=ENDPOINT["url"])
    await operator.post(f"{answer.location.partition('?')[0]}/delete")
    noted = [row["detail"] for row in await raw.rows("SELECT detail FROM audit WHERE action LIKE 'endpoint.%'")]
    assert noted == ["https://hooks.example.com/in?…"] * 2
