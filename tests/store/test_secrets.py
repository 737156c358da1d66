"""Secrets and custom headers are encrypted in the database. A secret that no key decrypts does not affect other
endpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.model.endpoints import Endpoint, EndpointChange, Secret
from hookline.model.states import EndpointStatus
from hookline.security.vault import Vault, new_key
from hookline.store import Page, Store, StoreOptions, open_store
from tests.conftest import OpenStoreWith
from tests.support import factory
from tests.support.scene import Scene

SECRET = "whsec_cGxhaW50ZXh0LXNlbnRpbmVsLXNlY3JldC0wMDE="
SUCCESSOR = "whsec_cGxhaW50ZXh0LXNlbnRpbmVsLXNlY3JldC0wMDI="
HEADER = "Bearer plaintext-sentinel-header"
SENTINELS = [b"cGxhaW50ZXh0LXNlbnRpbmVs", b"plaintext-sentinel", b"x-sentinel-name"]


async def sealed(scene: Scene) -> Endpoint:
    endpoint = await scene.endpoint(secrets=(Secret(key=SECRET),), headers={"x-sentinel-name": HEADER})
    rotated = (Secret(key=SUCCESSOR), Secret(key=SECRET, expires_at=factory.instant()))
    return await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(secrets=rotated))


async def at_rest(scene: Scene, database_url: str) -> bytes:
    """Return everything that the database holds about endpoints and their deliveries."""
    if scene.raw.engine == "sqlite":
        file = Path(database_url.removeprefix("sqlite:///"))
        return b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
    held = b""
    for table in ("endpoint", "lane", "lane_event", "message", "delivery", "delivery_done", "attempt", "dead_letter"):
        for row in await scene.raw.rows(f"SELECT t::text AS line, t.* FROM {table} t"):
            held += b"".join(value if isinstance(value, bytes) else str(value).encode() for value in row.values())
    return held


async def test_no_secret_and_no_header_is_readable_in_the_database(scene: Scene, database_url: str) -> None:
    endpoint = await sealed(scene)
    await scene.send()
    await scene.record(*factory.all_delivered(await scene.claim()))
    held = await at_rest(scene, database_url)
    assert endpoint.url.encode() in held
    assert [sentinel for sentinel in SENTINELS if sentinel in held] == []


async def test_the_store_returns_secrets_and_headers_unchanged(scene: Scene) -> None:
    endpoint = await sealed(scene)
    (found,) = await scene.store.catalogue.endpoints_for([endpoint.no])
    assert [secret.key for secret in found.secrets] == [SUCCESSOR, SECRET]
    assert found.secrets[1].expires_at is not None
    assert found.headers == {"x-sentinel-name": HEADER}


async def test_a_sealed_secret_is_bound_to_its_endpoint(scene: Scene) -> None:
    """A person with write access to the table cannot give one endpoint the secret of another."""
    victim, thief = await sealed(scene), await scene.endpoint()
    await scene.raw.execute(
        "UPDATE endpoint SET secrets = (SELECT secrets FROM endpoint WHERE no = $1) WHERE no = $2", victim.no, thief.no
    )
    (found,) = await scene.store.catalogue.endpoints_for([thief.no])
    assert (found.secrets, bool(found.status_reason)) == ((), True)


@pytest.mark.parametrize("broken", [b"", b"\x00garbage", b"x" * 200])
async def test_an_endpoint_that_no_key_decrypts_does_not_block_the_others(scene: Scene, broken: bytes) -> None:
    sick, healthy = await scene.endpoint(), await scene.endpoint()
    await scene.raw.execute("UPDATE endpoint SET secrets = $1 WHERE no = $2", broken, sick.no)
    found = {endpoint.no: endpoint for endpoint in await scene.store.catalogue.endpoints_for([sick.no, healthy.no])}
    assert (found[sick.no].secrets, bool(found[sick.no].status_reason)) == ((), True)
    assert found[healthy.no] == healthy


@pytest.mark.parametrize("with_old_key", [True, False])
async def test_keys_can_be_rotated(database_url: str, with_old_key: bool, engine: str) -> None:
    old, new = new_key(), new_key()
    first = await open_store(database_url, vault=Vault([old]), options=StoreOptions(pool_size=2))
    await first.migrate()
    org = await first.catalogue.save_organization(factory.organization())
    app = await first.catalogue.create_application(org.id, factory.new_application())
    endpoint = await first.catalogue.create_endpoint(app.no, factory.new_endpoint(headers={"x-a": "b"}))
    await first.close()
    later = await open_store(
        database_url, vault=Vault([new, old] if with_old_key else [new]), options=StoreOptions(pool_size=2)
    )
    (found,) = await later.catalogue.endpoints_for([endpoint.no])
    if with_old_key:
        assert found == endpoint
    else:
        assert (found.secrets, bool(found.status_reason)) == ((), True)
    await later.close()


async def test_deliveries_of_an_endpoint_that_no_key_decrypts_are_still_claimed(
    scene: Scene, open_store_with: OpenStoreWith
) -> None:
    """The worker handles such deliveries. The claim does not read secrets."""
    sick = await scene.endpoint()
    await scene.send()
    await scene.raw.execute("UPDATE endpoint SET secrets = $1 WHERE no = $2", b"broken", sick.no)
    other: Store = await open_store_with(StoreOptions(pool_size=2))
    assert [job.endpoint_no for job in await scene.claim(by=other)] == [sick.no]


# ── an endpoint whose secrets no key decrypts ──


async def swapped(scene: Scene) -> tuple[Endpoint, Endpoint]:
    """Create an endpoint that has the encrypted secrets of another, and a healthy one. Return both."""
    sick, healthy = await scene.endpoint(uid="sick", headers={"x-kept": "as it was"}), await sealed(scene)
    await scene.raw.execute(
        "UPDATE endpoint SET secrets = (SELECT secrets FROM endpoint WHERE no = $1) WHERE no = $2", healthy.no, sick.no
    )
    return sick, healthy


async def test_an_endpoint_that_no_key_decrypts_is_still_found_and_listed(scene: Scene) -> None:
    sick, healthy = await swapped(scene)
    listed = {endpoint.no: endpoint for endpoint in await scene.store.catalogue.endpoints(scene.app.no, Page())}
    assert listed[healthy.no] == healthy
    found = [
        listed[sick.no],
        await scene.store.catalogue.endpoint(scene.app.no, sick.id),
        await scene.store.catalogue.endpoint(scene.app.no, "sick"),
        await scene.store.catalogue.endpoint_by_id(scene.organization.id, sick.id),
    ]
    assert [(one.no, one.secrets, bool(one.status_reason)) for one in found if one is not None] == [
        (sick.no, (), True)
    ] * 4


async def test_the_status_of_an_endpoint_that_no_key_decrypts_can_be_set(scene: Scene) -> None:
    sick, _ = await swapped(scene)
    for status in (EndpointStatus.PAUSED, EndpointStatus.ACTIVE, EndpointStatus.DISABLED):
        changed = await scene.store.catalogue.set_endpoint_status(sick.no, status, "an operator")
        assert (changed.no, changed.status) == (sick.no, status)


async def test_a_new_secret_repairs_an_endpoint_that_no_key_decrypts(scene: Scene) -> None:
    sick, _ = await swapped(scene)
    mended = await scene.store.catalogue.change_endpoint(sick.no, EndpointChange(secrets=(Secret(key=SUCCESSOR),)))
    assert [secret.key for secret in mended.secrets] == [SUCCESSOR]
    assert (mended.headers, mended.status_reason) == ({"x-kept": "as it was"}, None)


async def test_a_change_keeps_secrets_that_no_key_decrypts(scene: Scene) -> None:
    """The key may be missing only for an hour. A change of other fields must not replace the secrets by nothing."""
    sick, _ = await swapped(scene)
    before = await scene.raw.row("SELECT secrets, headers FROM endpoint WHERE no = $1", sick.no)
    changed = await scene.store.catalogue.change_endpoint(sick.no, EndpointChange(description="looked at"))
    assert (changed.description, changed.secrets) == ("looked at", ())
    assert await scene.raw.row("SELECT secrets, headers FROM endpoint WHERE no = $1", sick.no) == before
