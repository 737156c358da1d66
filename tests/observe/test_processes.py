"""A parent process shows the metrics of all its workers, even after some of them die."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from hookline.config import load
from hookline.model.states import DeliveryState
from hookline.server.process import worker_settings
from tests.support.deployed import Deployment, delivered, deployed, read, shows
from tests.support.measured import Scrape
from tests.support.ports import free_port
from tests.support.processes import PATIENT, Process, environment, running
from tests.support.receiver import Behaviour, Receiver

pytestmark = pytest.mark.parametrize("engine", ["postgres"])

SETTINGS = worker_settings(load(environment("sqlite:///unused.db")))
SLOTS = SETTINGS.slots + SETTINGS.silent_slots  # of one worker; the limit of open files may lower it


@pytest.fixture
async def deployment(database_url: str, receiver: Receiver) -> AsyncIterator[Deployment]:
    async with deployed(database_url, receiver) as found:
        yield found


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_parent_process_shows_the_metrics_of_its_workers(deployment: Deployment, tmp_path: Path) -> None:
    port = deployment.env["HOOKLINE_METRICS_PORT"]
    with running(["worker", "--processes", "2"], deployment.env, tmp_path / "log") as process:
        both = await shows(process, port, lambda found: found["hookline_slots"] == 2 * SLOTS)
        assert both["hookline_processes"] == 3
        await deployment.send(20)
        before = await shows(process, port, lambda found: delivered(found) == 20)
        fewer = await without_one(process, port)
        assert delivered(fewer) == 20  # the worker that delivered them may be dead
        again = await shows(process, port, lambda found: found["hookline_processes"] == 3)
        assert delivered(again) == 20
        await deployment.send(5)
        after = await shows(process, port, lambda found: delivered(found) == 25)
        after.grown(before)  # no counter fell
        assert (await read(port, "/health/ready"))[0] == 200
        assert (await read(port, "/api/v1/app"))[0] == 404
        assert process.stop() == 0


async def without_one(process: Process, port: str) -> Scrape:
    """Kill workers until a scrape shows one worker less. A replacement may start before the scrape."""
    while (found := await after_a_kill(process, port))["hookline_processes"] != 2:
        pass
    return found


async def after_a_kill(process: Process, port: str) -> Scrape:
    """Kill one worker. Return the first metrics after it is gone or replaced."""
    before = children(process.pid)
    os.kill(before[0], signal.SIGKILL)

    def is_over(found: Scrape) -> bool:
        return found["hookline_processes"] == 2 or len({*before, *children(process.pid)}) == 3

    return await shows(process, port, is_over)


async def test_the_api_shows_the_metrics_of_its_workers(deployment: Deployment, tmp_path: Path) -> None:
    port = deployment.env["HOOKLINE_METRICS_PORT"]
    env = deployment.env | {"HOOKLINE_PORT": port, "HOOKLINE_METRICS_PORT": "0"}
    with running(["serve", "--processes", "2"], env, tmp_path / "log") as process:
        found = await shows(process, port, lambda found: found["hookline_slots"] == 2 * SLOTS)
        assert found["hookline_processes"] == 3
        assert process.stop() == 0


@pytest.mark.parametrize("command", ["serve", "worker"])
async def test_workers_end_when_their_parent_is_killed(
    deployment: Deployment, receiver: Receiver, tmp_path: Path, command: str
) -> None:
    """The workers first finish and record their running requests."""
    port = deployment.env["HOOKLINE_METRICS_PORT"]
    env = deployment.env | {"HOOKLINE_PORT": free_port(), "HOOKLINE_SHUTDOWN_TIMEOUT": "60s"} | PATIENT
    receiver.behave(Behaviour(answer_when=(release := threading.Event())))
    with running([command, "--processes", "2"], env, tmp_path / "log") as process:
        await shows(process, port, lambda found: found["hookline_slots"] == 2 * SLOTS)
        await deployment.send(1)
        [arrived] = await receiver.arrived(1)
        workers = [os.pidfd_open(pid) for pid in children(process.pid)]
        process.kill()
        release.set()
        await ended(workers)
    [delivery] = await deployment.store.history.deliveries(arrived.headers["webhook-id"])
    assert delivery.state == DeliveryState.DELIVERED


async def test_workers_end_even_if_nobody_reads_their_log(deployment: Deployment, tmp_path: Path) -> None:
    """This happens when all of `hookline worker --processes 2 2>&1 | tee log` is killed."""
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    with running(["worker", "--processes", "2"], deployment.env, tmp_path / "log") as process:
        await shows(
            process, deployment.env["HOOKLINE_METRICS_PORT"], lambda found: found["hookline_slots"] == 2 * SLOTS
        )
        workers = [os.pidfd_open(pid) for pid in children(process.pid)]
        os.close(reader)
        process.kill()
        await ended(workers)


async def ended(workers: list[int]) -> None:
    """Wait until the processes end by themselves. Kill those that do not."""
    try:
        for worker in workers:
            found, _, _ = await asyncio.to_thread(select.select, [worker], [], [], 60)
            assert found, "the process still runs"
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(worker, signal.SIGKILL)
            os.close(worker)
