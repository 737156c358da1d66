"""Configuration, `hookline migrate`, `hookline token` and `hookline doctor`."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from hookline import clock, ids
from hookline.cli.doctor import Finding, check_skew
from hookline.cli.params import read_instant
from hookline.errors import InvalidInput
from hookline.security import tokens
from tests.cli.conftest import JWT_SECRET, both_engines
from tests.support.cli import Cli
from tests.support.ports import free_port
from tests.support.scene import Scene


async def test_hookline_works_without_configuration(alone: Cli, tmp_path: Path) -> None:
    assert (await alone("apps", "add", "demo")).code == 0
    assert stat.S_IMODE((tmp_path / "hookline.db.keys").stat().st_mode) == 0o600


async def test_wrong_configuration_gives_a_one_line_error(alone: Cli) -> None:
    (await alone.using(HOOKLINE_PORT="eighty")("serve")).refused(2, "HOOKLINE_PORT", "eighty")
    (await alone.using(HOOKLINE_DATABASE_URL="postgresql://127.0.0.1/x")("apps", "list")).refused(
        2, "HOOKLINE_JWT_SECRET"
    )
    (await alone("serve", "--processes", "2")).refused(2, "PostgreSQL")


async def test_wrong_usage_is_exit_code_2(alone: Cli) -> None:
    for arguments in (["dance"], ["send"], ["serve", "--role", "dancer"], ["dead", "list", "--reason", "boredom"]):
        refused = await alone(*arguments)
        assert refused.code == 2, refused
        assert "Traceback" not in refused.err


async def test_an_unavailable_database_gives_exit_code_4(alone: Cli) -> None:
    away = alone.using(
        HOOKLINE_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none",
        HOOKLINE_JWT_SECRET=JWT_SECRET,
        HOOKLINE_SECRET_KEY=(await _new_key()),
    )
    (await away("apps", "list")).refused(4)
    examined = await away("doctor", "--json")
    assert examined.code == 1, examined
    assert '"finding":"fail"' in examined.out


async def _new_key() -> str:
    from hookline.security.vault import new_key

    return new_key()


async def test_a_database_of_another_release_says_what_to_do(alone: Cli, tmp_path: Path) -> None:
    for change, *advice in (
        ("DELETE FROM migration", "older", "hookline migrate"),
        ("INSERT INTO migration (number, applied_at) VALUES (77, 1)", "version 77", "newer", "upgrade Hookline"),
    ):
        await alone("migrate")
        with closing(sqlite3.connect(tmp_path / "hookline.db", isolation_level=None)) as connection:
            before = connection.execute("SELECT number, applied_at FROM migration").fetchall()
            connection.execute(change)
            (await alone("apps", "list")).refused(4, *advice)
            connection.executemany("INSERT OR IGNORE INTO migration (number, applied_at) VALUES (?, ?)", before)


async def test_migrate_once_and_again(alone: Cli) -> None:
    first = await alone.json("migrate")
    assert first["applied"] == list(range(1, first["version"] + 1))
    assert (await alone.json("migrate"))["applied"] == []


async def test_automatic_migration_can_be_switched_off(alone: Cli) -> None:
    (await alone.using(HOOKLINE_AUTO_MIGRATE="false")("apps", "list")).refused(4, "hookline migrate")


async def test_token_names_organization_and_application(cli: Cli, scene: Scene) -> None:
    made = (await cli("token")).out.strip()
    assert tokens.read(JWT_SECRET, made, clock.wall()).org_id == ids.DEFAULT_ORG

    narrow = (await cli.json("token", "--app", scene.app.id, "--days", "1"))["token"]
    assert tokens.read(JWT_SECRET, narrow, clock.wall()).app_id == scene.app.id
    (await cli("token", "--org", "org_nobody")).refused(3, "org_nobody")


@both_engines
async def test_doctor_reports_a_healthy_deployment(cli: Cli, scene: Scene) -> None:
    await scene.endpoint(url="http://127.0.0.1:8072/")
    examined = await cli.json("doctor")
    assert examined["ok"]
    findings = {each["name"]: each["finding"] for each in examined["checks"]}
    assert findings == dict.fromkeys(
        (
            "configuration",
            "retries",
            "migrations",
            "clock",
            "lanes",
            "endpoints",
            "secrets",
            "keys",
            "tokens",
            "guard",
            "outbox",
            "dead letters",
            "dns",
        ),
        "ok",
    ) | ({"disk": "ok", "file": "ok"} if scene.store.engine == "sqlite" else {})


async def test_doctor_reports_if_links_cannot_be_made(cli: Cli, scene: Scene) -> None:
    for host, public, warned in (
        ("0.0.0.0", "", True),
        ("0.0.0.0", "https://hooks.example.com", False),
        ("::1", "", False),
    ):
        examined = await cli.using(HOOKLINE_HOST=host, HOOKLINE_PUBLIC_URL=public).json("doctor")
        found = [each["detail"] for each in examined["checks"] if each["name"] == "links"]
        assert examined["ok"]
        assert bool(found) == warned, examined
        assert not warned or "HOOKLINE_PUBLIC_URL" in found[0]


async def test_doctor_finds_and_repairs_a_lane_that_has_no_wake_token(cli: Cli, scene: Scene) -> None:
    await scene.endpoint(url="http://127.0.0.1:8072/")
    await scene.send()
    await scene.raw.execute("DELETE FROM wake")

    sick = await cli("doctor")
    assert sick.code == 1, sick
    assert "1 lanes will not wake" in sick.out
    mended = await cli("doctor", "--repair")
    assert mended.code == 0, mended
    assert len(await scene.claim()) == 1


async def test_doctor_connects_to_endpoints_only_on_request(cli: Cli, scene: Scene) -> None:
    port = free_port()
    await scene.endpoint(url=f"http://127.0.0.1:{port}/")
    refused = await cli("doctor", "--reach")
    assert refused.code == 1, refused
    assert f"127.0.0.1:{port} (Connection refused)" in refused.out


def test_clock_skew_is_measured_from_two_readings() -> None:
    assert check_skew(0.4, -0.4).finding == Finding.OK  # A slow answer alone is not clock skew.
    assert check_skew(2.0, 1.5).finding == Finding.WARN
    assert check_skew(-31.0, -31.2).finding == Finding.FAIL


def test_times_can_be_durations_or_timestamps() -> None:
    now = clock.from_micros(1_700_000_000_000_000)
    assert (now - read_instant("90s", now)).total_seconds() == 90
    assert (now - read_instant("1.5h", now)).total_seconds() == 5400
    assert read_instant("2023-11-14T22:13:20Z", now) == now
    assert read_instant("2023-11-14T23:13:20+01:00", now) == now
    with pytest.raises(InvalidInput, match="fortnight"):
        read_instant("a fortnight", now)
