"""Several processes under one: one reading for all of them, whichever of them lives or dies."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.deployed import Deployment, delivered, deployed, read, shows
from tests.support.processes import running
from tests.support.receiver import Receiver

pytestmark = pytest.mark.parametrize("engine", ["postgres"])


@pytest.fixture
async def deployment(database_url: str, receiver: Receiver) -> AsyncIterator[Deployment]:
    async with deployed(database_url, receiver) as found:
        yield found


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_workers_are_shown_by_the_one_that_started_them(deployment: Deployment, tmp_path: Path) -> None:
    port = deployment.env["HOOKLINE_METRICS_PORT"]
    with running(["worker", "--processes", "2"], deployment.env, tmp_path / "log") as process:
        both = await shows(process, port, lambda found: found["hookline_slots"] == 2 * 512)
        assert both["hookline_processes"] == 3
        await deployment.send(20)
        before = await shows(process, port, lambda found: delivered(found) == 20)
        os.kill(children(process.pid)[0], signal.SIGKILL)
        fewer = await shows(process, port, lambda found: found["hookline_processes"] == 2)
        assert delivered(fewer) == 20  # who delivered them may be dead
        again = await shows(process, port, lambda found: found["hookline_processes"] == 3)
        assert delivered(again) == 20
        await deployment.send(5)
        after = await shows(process, port, lambda found: delivered(found) == 25)
        after.grown(before)  # nothing fell
        assert (await read(port, "/health/ready"))[0] == 200
        assert (await read(port, "/api/v1/app"))[0] == 404
        assert process.stop() == 0


async def test_the_api_shows_the_workers_beside_it(deployment: Deployment, tmp_path: Path) -> None:
    port = deployment.env["HOOKLINE_METRICS_PORT"]
    env = deployment.env | {"HOOKLINE_PORT": port, "HOOKLINE_METRICS_PORT": "0"}
    with running(["serve", "--processes", "2"], env, tmp_path / "log") as process:
        found = await shows(process, port, lambda found: found["hookline_slots"] == 2 * 512)
        assert found["hookline_processes"] == 3
        assert process.stop() == 0
