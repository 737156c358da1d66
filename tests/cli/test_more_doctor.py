"""More checks of `hookline doctor`, and `hookline listen` at an address that the network guard refuses."""

from __future__ import annotations

import asyncio
import http.client
import os
from pathlib import Path

import pytest

from hookline import config
from hookline.cli.doctor import LEAST_DISK, Finding, check_file, check_free
from hookline.cli.listen import check_reachable
from hookline.cli.listen_server import MAX_BODY
from hookline.errors import ConfigError
from hookline.security.vault import new_key
from tests.cli.conftest import both_engines
from tests.cli.test_dead import kill
from tests.support.cli import Cli, Done
from tests.support.scene import Scene


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def finding(examined: Done, name: str) -> dict[str, str]:
    document = Done(0, examined.out, examined.err).json()
    (found,) = [check for check in document["checks"] if check["name"] == name]
    return dict(found)


@both_engines
async def test_doctor_reports_secrets_that_the_key_cannot_decrypt(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint(url="https://203.0.113.9.example.com/")
    examined = await cli.using(HOOKLINE_SECRET_KEY=new_key())("doctor", "--json")
    assert examined.code == 1, examined
    found = finding(examined, "secrets")
    assert found["finding"] == "fail"
    assert "HOOKLINE_SECRET_KEY" in found["detail"]
    assert endpoint.id in found["detail"]


async def test_doctor_reports_endpoints_that_the_guard_refuses(cli: Cli, scene: Scene) -> None:
    await scene.endpoint(url="http://127.0.0.1:8072/")
    inside = await scene.endpoint(url="http://10.1.2.3/hooks")
    examined = await cli("doctor", "--json")
    assert examined.code == 1, examined
    found = finding(examined, "guard")
    assert found["finding"] == "fail"
    for word in ("1 of 2 endpoints", "HOOKLINE_ALLOW_NETS", inside.id, "10.1.2.3"):
        assert word in found["detail"]


async def test_doctor_warns_of_open_dead_letters(cli: Cli, scene: Scene) -> None:
    await scene.endpoint(url="http://127.0.0.1:8072/")
    await kill(scene, 3)
    examined = await cli("doctor", "--json")
    assert examined.code == 0, examined
    found = finding(examined, "dead letters")
    assert (found["finding"], found["detail"].split()[0]) == ("warn", "3")


def test_doctor_reports_a_disk_that_is_nearly_full() -> None:
    assert check_free(LEAST_DISK - 1).finding == Finding.FAIL
    assert check_free(LEAST_DISK).finding == Finding.OK


# ── listen ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_listen_does_not_register_an_endpoint_that_the_guard_refuses(alone: Cli, tmp_path: Path) -> None:
    refused = await alone("listen", "--port", "0", "--register", "demo")
    refused.refused(2, "HOOKLINE_ALLOW_NETS=127.0.0.0/8", "hookline serve")
    assert files(tmp_path) == []


def test_network_that_would_open_the_listener_is_named() -> None:
    with pytest.raises(ConfigError, match="HOOKLINE_ALLOW_NETS=::1/128 "):
        check_reachable(config.parse({"HOOKLINE_ALLOW_NETS": "127.0.0.0/8"}), "http://[::1]:8072")
    check_reachable(config.parse({"HOOKLINE_ALLOW_NETS": "::1/128"}), "http://[::1]:8072")


async def test_listen_takes_the_largest_payload_and_no_more(cli: Cli) -> None:
    async with cli.running("listen", "--port", "0", "--status", "201") as listener:
        address = (await listener.line_with("listening on")).split()[2].removeprefix("http://")
        assert await asyncio.to_thread(_post, address, MAX_BODY) == 201
        assert await asyncio.to_thread(_post, address, MAX_BODY + 1) == 413


def _post(address: str, size: int) -> int:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", "/", b"7" * size)
        return connection.getresponse().status
    finally:
        connection.close()


def test_doctor_reports_a_database_file_that_others_can_read(tmp_path: Path) -> None:
    file = tmp_path / "h.db"
    assert check_file(file).finding == Finding.OK
    file.touch(0o600)
    assert check_file(file).finding == Finding.OK
    for mode in (0o604, 0o602, 0o666):
        file.chmod(mode)
        assert "chmod 600" in check_file(file).detail
    file.chmod(0o660)
    assert check_file(file).finding == Finding.OK
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
        assert "belongs to another user" in check_file(file).detail
