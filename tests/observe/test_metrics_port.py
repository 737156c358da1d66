"""Metrics and health on a separate port, for each command that has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.deployed import Deployment, deployed, read, shows
from tests.support.ports import free_port
from tests.support.processes import running
from tests.support.receiver import Receiver

TOKEN = "a-token-of-a-test-alone"

pytestmark = pytest.mark.parametrize("engine", ["postgres"])


@pytest.fixture
async def deployment(database_url: str, receiver: Receiver) -> AsyncIterator[Deployment]:
    async with deployed(database_url, receiver) as found:
        yield found


async def test_with_a_separate_metrics_port_the_api_port_shows_no_metrics(
    deployment: Deployment, tmp_path: Path
) -> None:
    own, api = deployment.env["HOOKLINE_METRICS_PORT"], free_port()
    env = deployment.env | {"HOOKLINE_PORT": api}
    with running(["serve"], env, tmp_path / "log") as process:
        found = await shows(process, own, lambda found: "hookline_deliveries" in found.kinds)
        assert found["hookline_processes"] == 1
        assert (await read(api))[0] == 404
        assert (await read(own, "/health/live"))[0] == 200
        assert process.stop() == 0


async def test_a_relay_shows_its_own_metrics(deployment: Deployment, tmp_path: Path) -> None:
    port = deployment.env["HOOKLINE_METRICS_PORT"]
    env = deployment.env | {"HOOKLINE_METRICS_TOKEN": TOKEN}
    with running(["relay"], env, tmp_path / "log") as process:
        found = await shows(process, port, lambda _found: True, token=TOKEN)
        assert found.value("hookline_outbox_rows_total", outcome="relayed") == 0
        assert (await read(port))[0] == 401
        assert process.stop() == 0
