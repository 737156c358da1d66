"""`hookline endpoints open`, `endpoints close` and `endpoints resume`."""

from __future__ import annotations

import getpass
from datetime import datetime, timedelta

from hookline.model.states import Circuit, EndpointStatus
from hookline.model.tasks import TaskKind
from tests.cli.conftest import both_engines
from tests.support.cli import Cli
from tests.support.scene import Scene

BY_COMMAND = {"kind": "command_line", "name": getpass.getuser()}


# ── circuit ──


@both_engines
async def test_open_and_close(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    before = await scene.store.now()
    done = await cli("endpoints", "open", endpoint.id, "--for", "2h", "--why", "they deploy")
    assert done.code == 0, done
    lane = await scene.lane(endpoint)
    assert lane.probe_at is not None
    assert timedelta(hours=2) <= lane.probe_at - before < timedelta(hours=2, minutes=5)
    assert done.out == f"the circuit is open until {lane.probe_at.isoformat(timespec='seconds')}, 3 waiting\n"
    assert await scene.claim_all() == []

    closed = await cli.json("endpoints", "close", endpoint.id)
    assert (closed["changed"], closed["lane"]["circuit"]) == (True, "recovering")
    again = await cli("endpoints", "close", endpoint.id)
    assert again.out == "the circuit is recovering; it was not open, 3 waiting\n"
    assert 1 <= len(await scene.claim_all()) <= 2
    shown = await cli.json("endpoints", "show", endpoint.id)
    assert [(each["kind"], each["cause"], each["actor"]) for each in shown["events"]] == [
        ("circuit_recovering", "closed from the command line", BY_COMMAND),
        ("circuit_opened", "they deploy", BY_COMMAND),
    ]
    lines = (await cli("endpoints", "show", endpoint.id)).out
    assert f"circuit_opened  they deploy  (by command line {getpass.getuser()})" in lines


async def test_open_until(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    until = (await scene.store.now() + timedelta(days=2)).replace(microsecond=0)
    found = await cli.json("endpoints", "open", endpoint.id, "--until", until.isoformat())
    assert datetime.fromisoformat(found["lane"]["nextProbeAt"]) == until


async def test_an_invalid_end_time_is_refused(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for options, words in (
        (("--for", "2h", "--until", "2999-01-01T00:00:00Z"), "either"),
        (("--for", "31d"), "--for"),
        (("--until", "2h"), "not in the future"),
        (("--why", ""), "cause"),
    ):
        (await cli("endpoints", "open", endpoint.id, *options)).refused(2, words)
    (await cli("endpoints", "open", "ep_missing")).refused(3, "ep_missing")
    assert (await scene.lane(endpoint)).circuit == Circuit.CLOSED


# ── resume ──


async def test_a_disabled_endpoint_is_enabled_again(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410")
    await scene.send(3)
    done = await cli("endpoints", "resume", endpoint.id)
    status, advice = done.out.splitlines()
    assert status == f"{endpoint.id} is active"
    assert advice.startswith("it missed 3 messages since ")
    command = advice.partition("; hookline ")[2].split()
    assert (await cli(*command)).out == "3 replayed\n"
    assert len(await scene.claim_all()) == 3


async def test_resume_can_send_the_missed_messages(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410")
    await scene.send(2)
    found = await cli.json("endpoints", "resume", endpoint.id, "--replay-missing")
    assert (found["status"], found["missed"]["messages"]) == ("active", 2)
    task = await scene.store.repair.task(scene.organization.id, found["missed"]["task"]["id"])
    assert task is not None
    assert (task.kind, task.total) == (TaskKind.REPLAY_MISSING, 2)
    while await scene.store.repair.step_task(task.id):
        pass
    assert len(await scene.claim_all()) == 2
    again = await cli("endpoints", "resume", endpoint.id, "--replay-missing")
    assert "it missed nothing since" in again.out
