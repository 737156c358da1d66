"""`hookline reseal` encrypts all stored secrets with the new key, so that the old key can be removed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from hookline import clock
from hookline.engine.alerting import channels as alert_channels
from hookline.model.endpoints import Endpoint, EndpointChange, Scheme, Secret
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from hookline.security.vault import Vault, new_key
from hookline.signing import new_secret, verify
from hookline.store import Store, StoreOptions, open_store
from hookline.store.sealing import Place
from tests.cli.conftest import JWT_SECRET, both_engines
from tests.cli.test_more_doctor import finding
from tests.support.cli import Cli
from tests.support.processes import environment, running
from tests.support.receiver import Receiver
from tests.support.scene import Scene
from tests.support.sealing import add_sealed_endpoints, heads, sealed_columns

SLACK = "https://hooks.slack.com/services/T0/B0/only-slack-may-know"
KEY = b"k" * 32
MANY = 700  # number of endpoints, enough for several batches


async def fill(scene: Scene) -> list[Endpoint]:
    """Store a value in every encrypted column, also for a deleted endpoint."""
    made = [await scene.endpoint(headers={"authorization": f"Bearer {number}"}) for number in range(3)]
    await scene.store.catalogue.delete_endpoint(made[2].no)
    await alert_channels.settle(scene.store, Guard(()), Channels(slack_url=SLACK))
    held = await scene.store.access.hold_answer(KEY, b"asked", 30.0)
    assert held.claim is not None
    assert await scene.store.access.keep_answer(KEY, held.claim, 201, b'{"key": "hk_secret"}')
    return made[:2]


async def opened_with(url: str, *keys: str) -> Store:
    return await open_store(url, vault=Vault(keys), options=StoreOptions(pool_size=3))


@both_engines
async def test_every_encrypted_column_is_encrypted_again(
    cli: Cli, scene: Scene, database_url: str, secret_key: str
) -> None:
    """This test searches the whole schema. It fails if `reseal` does not handle an encrypted column."""
    endpoints, new = await fill(scene), new_key()
    assert set(await sealed_columns(scene.raw)) == set(Place)
    rotating = cli.using(HOOKLINE_SECRET_KEY=f"{new},{secret_key}")
    count = len(await heads(scene.raw))
    assert await rotating.json("reseal", "--dry-run") == {"resealed": 0, "failed": [], "left": count}
    assert await rotating.json("reseal") == {"resealed": count, "failed": [], "left": 0}
    assert await rotating.json("reseal") == {"resealed": 0, "failed": [], "left": 0}
    assert set(await heads(scene.raw)) == {Vault([new]).heads[0]}

    later = await opened_with(database_url, new)
    try:
        assert await later.catalogue.endpoints_for([one.no for one in endpoints]) == endpoints
        assert (await alert_channels.endpoints(later))["slack"].url == SLACK
        kept = await later.access.answer(KEY)
        assert kept is not None
        assert kept.response == b'{"key": "hk_secret"}'
    finally:
        await later.close()


@both_engines
async def test_killed_in_the_middle_it_goes_on_and_then_the_old_key_can_go(
    cli: Cli, scene: Scene, vault: Vault, database_url: str, secret_key: str, tmp_path: Path
) -> None:
    key, new = new_secret(), new_key()
    await add_sealed_endpoints(scene, vault, MANY)
    with Receiver() as receiver:
        await scene.endpoint(url=receiver.url, secrets=(Secret(key=key),))
        rotating = cli.using(HOOKLINE_SECRET_KEY=f"{new},{secret_key}")
        head = Vault([new]).heads[0]
        async with rotating.running("reseal") as command:
            begun = ("endpoint", "substr(secrets, 1, 5) = $1", head)
            while not await scene.raw.count(*begun) and command.process.returncode is None:
                await asyncio.sleep(0.005)  # Another process does the work.
            await command.stop(signal.SIGKILL)
        halfway = await opened_with(database_url, new, secret_key)
        seals = await halfway.access.seals(10 * MANY)
        await halfway.close()
        assert seals.first.count + seals.left == 2 * MANY + 1
        assert seals.unknown == 0

        done = await rotating("reseal")
        assert done.code == 0, done
        assert "No other key of HOOKLINE_SECRET_KEY is needed" in done.out
        env = environment(database_url, HOOKLINE_SECRET_KEY=new)
        with running(["worker"], env, tmp_path / "worker.log"):
            await scene.send()
            (arrived,) = await receiver.arrived(1)
    verify(Scheme.STANDARD, [Secret(key=key)], arrived.headers, arrived.body, clock.wall())


@both_engines
async def test_a_concurrent_rotation_and_a_concurrent_reseal_are_safe(
    cli: Cli, scene: Scene, vault: Vault, database_url: str, secret_key: str
) -> None:
    new, last = new_key(), Secret(key=new_secret())
    await add_sealed_endpoints(scene, vault, MANY)
    busy = await scene.endpoint()
    rotating = cli.using(HOOKLINE_SECRET_KEY=f"{new},{secret_key}")

    async def rotate() -> None:
        for _ in range(20):
            await scene.store.catalogue.change_endpoint(busy.no, EndpointChange(secrets=(Secret(key=new_secret()),)))
        await scene.store.catalogue.change_endpoint(busy.no, EndpointChange(secrets=(last,)))

    first, second, _ = await asyncio.gather(rotating("reseal", "--json"), rotating("reseal", "--json"), rotate())
    for done in (first, second):
        # Exit code 1 is possible: the task that rotates knows only the old key, and may be the last to encrypt.
        assert done.code in (0, 1), done
    assert (await rotating.json("reseal"))["left"] == 0
    later = await opened_with(database_url, new)
    try:
        (found,) = await later.catalogue.endpoints_for([busy.no])
        assert found.secrets == (last,)
    finally:
        await later.close()


@both_engines
async def test_a_value_that_no_key_decrypts_is_reported_and_kept_and_the_others_are_resealed(
    cli: Cli, scene: Scene, secret_key: str
) -> None:
    await fill(scene)
    sick, new = await scene.endpoint(), new_key()
    foreign = Vault([new_key()]).seal(b"[]", sick.id)
    await scene.raw.execute("UPDATE endpoint SET secrets = $1 WHERE no = $2", foreign, sick.no)
    done = await cli.using(HOOKLINE_SECRET_KEY=f"{new},{secret_key}")("reseal")
    assert done.code == 1, done
    assert f"endpoint.secrets: the value stored for {sick.id} was sealed with a key that is not configured" in done.err
    found = await heads(scene.raw)
    assert set(found) == {Vault([new]).heads[0], foreign[:5]}
    assert found.count(foreign[:5]) == 1
    assert await scene.raw.value("SELECT secrets FROM endpoint WHERE no = $1", sick.no) == foreign


@both_engines
async def test_doctor_says_when_an_old_key_is_no_longer_needed(cli: Cli, scene: Scene, secret_key: str) -> None:
    await fill(scene)
    new = new_key()
    old_id = Vault([secret_key]).heads[0][1:].hex()
    assert finding(await cli("doctor", "--json"), "keys") == {
        "name": "keys",
        "finding": "ok",
        "detail": "all values are encrypted with the one key of HOOKLINE_SECRET_KEY",
    }
    rotating = cli.using(HOOKLINE_SECRET_KEY=f"{new},{secret_key}")
    before = finding(await rotating("doctor", "--json"), "keys")
    assert (before["finding"], "hookline reseal" in before["detail"]) == ("warn", True)
    assert old_id in before["detail"]
    assert (await rotating("reseal")).code == 0
    after = finding(await rotating("doctor", "--json"), "keys")
    assert after["finding"] == "ok"
    assert f"{old_id} seals nothing any more: remove it" in after["detail"]


async def test_on_sqlite_the_key_file_is_replaced_in_the_same_steps(alone: Cli, tmp_path: Path) -> None:
    app = await alone.json("apps", "add", "shop")
    await alone.json("endpoints", "add", app["id"], "https://hooks.example.com/")
    file, new = tmp_path / "hookline.db.keys", new_key()
    file.write_text(file.read_text().replace("HOOKLINE_SECRET_KEY=", f"HOOKLINE_SECRET_KEY={new},"))
    assert (await alone.json("reseal"))["left"] == 0
    file.write_text(f"HOOKLINE_JWT_SECRET={JWT_SECRET}\nHOOKLINE_SECRET_KEY={new}\n")
    later = await opened_with(f"sqlite:///{tmp_path / 'hookline.db'}", new)
    try:
        (found,) = await later.catalogue.endpoints_for([1])
        assert found.secrets
    finally:
        await later.close()
    assert finding(await alone("doctor", "--json"), "secrets")["finding"] == "ok"


async def test_reseal_without_a_database(alone: Cli) -> None:
    (await alone("reseal")).refused(4, "no database")
