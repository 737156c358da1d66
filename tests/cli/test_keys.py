"""`hookline keys` and `hookline token --revoke-all`."""

from __future__ import annotations

from datetime import timedelta

from hookline import clock
from hookline.model.catalogue import Organization
from hookline.security import api_keys, tokens
from hookline.store import Store
from tests.cli.conftest import JWT_SECRET, both_engines
from tests.support.cli import Cli
from tests.support.scene import Scene


@both_engines
async def test_a_key_is_made_listed_and_revoked(cli: Cli, scene: Scene) -> None:
    made = await cli.json("keys", "create", "checkout", "--scope", "publish", "--app", scene.app.id, "--days", "90")
    assert api_keys.check(made["key"])
    assert (made["name"], made["scope"], made["appId"]) == ("checkout", "publish", scene.app.id)
    assert made["expiresAt"] is not None
    found = await scene.store.access.api_key_by_hash(api_keys.hashed(made["key"]))
    assert found is not None
    assert found.id == made["id"]

    (listed,) = (await cli.json("keys", "list"))["data"]
    assert listed == {name: value for name, value in made.items() if name != "key"}
    plain = await cli("keys", "list")
    assert made["id"] in plain.out
    assert made["key"] not in plain.out

    assert (await cli.json("keys", "revoke", made["id"])) == {"revoked": made["id"]}
    assert (await cli.json("keys", "list"))["data"] == []
    (await cli("keys", "revoke", made["id"])).refused(3, "no API key")


async def test_only_the_key_is_printed(cli: Cli, organization: Organization) -> None:
    made = await cli("keys", "create", "for scripts")
    assert api_keys.check(made.out.strip())


async def test_invalid_arguments_are_refused(cli: Cli, scene: Scene) -> None:
    (await cli("keys", "create", "n", "--app", "nobody")).refused(3, "nobody")
    (await cli("keys", "create", "n", "--days", "nan")).refused(2, "--days")
    (await cli("keys", "create", "n", "--days", "0")).refused(2, "expires_at")
    (await cli("keys", "create", "")).refused(2, "name")
    assert (await cli("keys", "create", "n", "--scope", "all")).code == 2
    assert (await cli.json("keys", "list"))["data"] == []


async def test_all_tokens_except_the_new_one_are_revoked(cli: Cli, store: Store, organization: Organization) -> None:
    before = clock.wall()
    made = await cli.json("token", "--revoke-all")
    found = await store.catalogue.organization(organization.id)
    assert found is not None
    assert found.tokens_valid_after is not None
    grant = tokens.read(JWT_SECRET, made["token"], clock.wall())
    assert before <= found.tokens_valid_after <= grant.issued_at + timedelta(microseconds=1)


async def test_only_one_applications_tokens_are_revoked(cli: Cli, scene: Scene) -> None:
    made = await cli.json("token", "--app", scene.app.id, "--revoke-all")
    assert made["appId"] == scene.app.id
    app = await scene.store.catalogue.application(scene.app.org_id, scene.app.id)
    organization = await scene.store.catalogue.organization(scene.app.org_id)
    assert app is not None
    assert organization is not None
    assert app.tokens_valid_after is not None
    assert organization.tokens_valid_after is None
