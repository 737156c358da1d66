"""`hookline endpoints rotate`, `endpoints remove` and `endpoints replay-missing`, and the commands that create a
database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hookline import __version__, clock, signing
from hookline.errors import SignatureError
from hookline.model.endpoints import Scheme, Secret
from hookline.model.states import Reason
from tests.cli.conftest import both_engines
from tests.support.cli import Cli
from tests.support.scene import Scene

OLD = "whsec_" + "Q" * 44
BODY = b'{"id": 31}'


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def verifies(secrets: tuple[Secret, ...], key: str, seconds: float) -> bool:
    """Return whether a receiver with only `key` accepts a message that is signed `seconds` from now."""
    now = clock.wall() + timedelta(seconds=seconds)
    lines = signing.Signer(Scheme.STANDARD, secrets).headers("msg_1", int(now.timestamp()), BODY, now)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        signing.verify(Scheme.STANDARD, (Secret(key=key),), headers, BODY, now)
    except SignatureError:
        return False
    return True


@both_engines
async def test_old_secret_signs_beside_the_new_one_until_the_overlap_ends(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint(secrets=(Secret(key=OLD),), uid="warehouse")

    rotated = await cli.json("endpoints", "rotate", "warehouse", "--app", scene.app.id, "--overlap", "2h")
    (kept,) = await scene.store.catalogue.endpoints_for([endpoint.no])
    assert kept.secrets[0].key == rotated["secret"] != OLD
    assert [verifies(kept.secrets, OLD, at) for at in (0, 7000, 7300)] == [True, True, False]
    assert [verifies(kept.secrets, rotated["secret"], at) for at in (0, 7300)] == [True, True]


async def test_rotation_without_overlap_and_of_an_ed25519_key(cli: Cli, scene: Scene) -> None:
    private, _public = signing.new_keypair()
    endpoint = await scene.endpoint(secrets=(Secret(key=private),))

    shown = await cli("endpoints", "rotate", endpoint.id, "--overlap", "0")
    (kept,) = await scene.store.catalogue.endpoints_for([endpoint.no])
    assert len(kept.secrets) == 1
    assert kept.secrets[0].key.startswith("whsk_")
    assert kept.secrets[0].key != private
    assert signing.public_key(kept.secrets[0].key) in shown.out


async def test_second_rotation_does_not_prolong_the_first_overlap(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint(secrets=(Secret(key=OLD),))
    await cli.json("endpoints", "rotate", endpoint.id, "--overlap", "1h")
    await cli.json("endpoints", "rotate", endpoint.id, "--overlap", "9h")

    (kept,) = await scene.store.catalogue.endpoints_for([endpoint.no])
    assert len(kept.secrets) == 3
    assert not verifies(kept.secrets, OLD, 3700)


async def test_overlap_is_a_bounded_duration(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for overlap in ("a while", "-1h", "nan", "9999d"):
        (await cli("endpoints", "rotate", endpoint.id, "--overlap", overlap)).refused(2, "--overlap")


@both_engines
async def test_a_removed_endpoint_is_gone_and_its_pending_deliveries_become_dead_letters(
    cli: Cli, scene: Scene
) -> None:
    endpoint = await scene.endpoint()
    await scene.send(4)

    removed = await cli("endpoints", "remove", endpoint.id)
    assert removed.out == f"{endpoint.id} is removed; 4 waiting become dead letters\n"
    (await cli("endpoints", "show", endpoint.id)).refused(3, endpoint.id)
    await scene.store.upkeep.sweep_deleted()
    letters = (await cli.json("dead", "list"))["data"]
    assert [each["reason"] for each in letters] == [Reason.ENDPOINT_DELETED] * 4


@both_engines
async def test_messages_that_an_endpoint_missed_are_sent_once(cli: Cli, scene: Scene) -> None:
    await scene.send(2, event_type="order.old")
    await scene.age(7200)
    missed = await scene.send(5)
    endpoint = await scene.endpoint()
    command = ("endpoints", "replay-missing", endpoint.id, "--since", "1h")

    assert await cli.json(*command) == {"replayed": 5}
    assert {job.message_id for job in await scene.claim_all()} == set(missed)
    assert await cli.json(*command) == {"replayed": 0}
    (await cli(*command, "--until", "2h")).refused(2, "until: is not after since")


# ── creating the database ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "command",
    [
        "apps list",
        "endpoints pause ep_1",
        "dead list",
        "dead replay --all --yes",
        "trace msg_1",
        "token",
        "doctor",
        "send demo order.paid",
    ],
)
async def test_commands_that_need_existing_data_create_no_database(alone: Cli, tmp_path: Path, command: str) -> None:
    (await alone(*command.split())).refused(4, f"no database at {tmp_path}/hookline.db", "hookline migrate")
    assert files(tmp_path) == []


async def test_commands_that_can_be_the_first_create_the_database(alone: Cli, tmp_path: Path) -> None:
    assert (await alone("event-types", "add", "order.paid")).code == 0
    assert (tmp_path / "hookline.db").exists()
    assert [each["name"] for each in (await alone.json("event-types", "list"))["data"]] == ["order.paid"]


async def test_reading_changes_nothing(alone: Cli, tmp_path: Path) -> None:
    assert (await alone("migrate")).code == 0
    before = (tmp_path / "hookline.db").read_bytes()
    assert (await alone.json("apps", "list"))["data"] == []
    assert (await alone("doctor")).code == 0
    assert (tmp_path / "hookline.db").read_bytes() == before


async def test_version(alone: Cli) -> None:
    assert (await alone("--version")).out == f"hookline {__version__}\n"
