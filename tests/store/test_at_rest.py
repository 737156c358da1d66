"""URLs of the deployment's own channels are secrets: they are sealed at rest, from the migration on."""

from __future__ import annotations

import pytest

from hookline.engine.alerting import channels as alert_channels
from hookline.model import Application, Endpoint, EndpointChange, NewApplication, Organization, Secret
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from hookline.rules.operational_events import MANAGEMENT
from hookline.security.vault import Vault, new_key
from hookline.store import Store, StoreOptions, open_store
from hookline.store.rows import seal_secrets
from tests.store.test_migrate import empty, up_to
from tests.store.test_secrets import at_rest
from tests.support import factory
from tests.support.raw import Raw, open_raw
from tests.support.scene import Scene

__all__ = ["empty"]

SLACK = "https://hooks.slack.com/services/T000/B000/plaintext-sentinel-of-slack"
OTHER = "https://user-sentinel@hooks.example.com:8443/plaintext-sentinel?token=plaintext-sentinel"
SHOWN = "https://hooks.slack.com/…"
SENTINEL = b"plaintext-sentinel"


async def channel(scene: Scene) -> Endpoint:
    await alert_channels.settle(scene.store, Guard(()), Channels(slack_url=SLACK))
    return (await alert_channels.endpoints(scene.store))["slack"]


async def test_the_url_of_an_alert_channel_is_not_readable_at_rest(scene: Scene, database_url: str) -> None:
    endpoint = await channel(scene)
    assert endpoint.url == SLACK
    assert SENTINEL not in await at_rest(scene, database_url)
    assert await scene.raw.value("SELECT url FROM endpoint WHERE no = $1", endpoint.no) == SHOWN


async def test_a_change_keeps_it_sealed_and_settling_again_changes_nothing(scene: Scene, database_url: str) -> None:
    endpoint = await channel(scene)
    for change in (EndpointChange(description="other"), EndpointChange(url=OTHER), EndpointChange(headers={"a": "b"})):
        endpoint = await scene.store.change_endpoint(endpoint.no, change)
    assert endpoint.url == OTHER
    held = await at_rest(scene, database_url)
    assert (SENTINEL in held, b"user-sentinel" in held) == (False, False)
    revision = (await channel(scene)).revision
    assert (await channel(scene)).revision == revision


async def test_views_show_the_host_alone(scene: Scene) -> None:
    endpoint = await channel(scene)
    view = await scene.store.lane_view(endpoint.no)
    assert view is not None
    assert view.url == SHOWN


async def test_a_sealed_url_is_bound_to_its_endpoint_and_its_column(scene: Scene) -> None:
    """Whoever can write to the table cannot send one channel's alerts to another's URL, nor a header's value in its place."""
    victim = await channel(scene)
    thief = await scene.endpoint(headers={"x": "y"})
    for column, source in (("sealed_url", victim.no), ("headers", thief.no), ("secrets", thief.no)):
        await scene.raw.execute(
            f"UPDATE endpoint SET sealed_url = (SELECT {column} FROM endpoint WHERE no = $1) WHERE no = $2",
            source,
            thief.no,
        )
        (found,) = await scene.store.endpoints_for([thief.no])
        assert (found.secrets, bool(found.status_reason)) == ((), True), column


async def test_urls_of_customers_stay_as_they_are(scene: Scene) -> None:
    """They search for them."""
    endpoint = await scene.endpoint(url="https://hooks.example.com/found?by=this")
    row = await scene.raw.row("SELECT url, sealed_url FROM endpoint WHERE no = $1", endpoint.no)
    assert row == {"url": endpoint.url, "sealed_url": None}


# ── what an earlier release left ──


async def plain_channel(store: Store, raw: Raw, vault: Vault, *, deleted: bool = False) -> str:
    """As a release before the migration wrote it."""
    at = factory.instant()
    await store.save_organization(Organization(id=MANAGEMENT, name="operational webhooks", created_at=at))
    app: Application = await store.create_application(MANAGEMENT, NewApplication(name=f"{factory.number()}"))
    id_ = f"ep_earlier{factory.number()}"
    secrets = seal_secrets(vault, id_, (Secret(key=factory.secret_key()),))
    await raw.execute(
        "INSERT INTO endpoint (id, app_no, url, secrets, created_at, updated_at, deleted_at)"
        " VALUES ($1, $2, $3, $4, $5, $5, $6)",
        id_,
        app.no,
        SLACK,
        secrets,
        at,
        at if deleted else None,
    )
    return id_


@pytest.mark.parametrize("same_key", [True, False])
async def test_the_migration_seals_what_is_there_and_only_with_a_key_that_is_the_deployments(
    empty: list[Store], empty_url: str, vault: Vault, monkeypatch: pytest.MonkeyPatch, same_key: bool
) -> None:
    await up_to(empty[0], 10, monkeypatch)
    raw = await open_raw(empty_url)
    ids = [await plain_channel(empty[0], raw, vault, deleted=deleted) for deleted in (False, True)]
    found = vault if same_key else Vault([new_key()])
    store = await open_store(empty_url, vault=found, options=StoreOptions(pool_size=2))
    await store.migrate()
    await store.close()
    kept = {row["id"]: row["url"] for row in await raw.rows("SELECT id, url FROM endpoint")}
    await raw.close()
    assert kept == dict.fromkeys(ids, SHOWN if same_key else SLACK)
    if same_key:
        (endpoint,) = [one for one in await empty[0].endpoints_for(range(1, 9)) if one.id == ids[0]]
        assert endpoint.url == SLACK


async def test_what_an_older_process_wrote_beside_a_sealed_one_counts_and_is_sealed(scene: Scene, vault: Vault) -> None:
    """In a rolling upgrade it knows nothing of the other column."""
    endpoint = await channel(scene)
    await scene.raw.execute("UPDATE endpoint SET url = $1 WHERE no = $2", OTHER, endpoint.no)
    for _ in range(2):
        (found,) = await scene.store.endpoints_for([endpoint.no])
        assert found.url == OTHER
        await scene.store.seal_urls()
    assert (
        await scene.raw.value("SELECT url FROM endpoint WHERE no = $1", endpoint.no)
        == "https://hooks.example.com:8443/…"
    )


async def test_what_an_older_process_still_wrote_is_sealed_later(scene: Scene, vault: Vault) -> None:
    id_ = await plain_channel(scene.store, scene.raw, vault)
    assert [await scene.store.seal_urls() for _ in range(2)] == [1, 0]
    assert await scene.raw.value("SELECT url FROM endpoint WHERE id = $1", id_) == SHOWN
