"""`hookline endpoints timeline`: to a pipe, as JSON, and as a chart on a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
from datetime import datetime, timedelta

from hookline.model.actors import Actor, ActorKind
from hookline.model.states import EndpointStatus
from tests.cli.conftest import both_engines
from tests.support.cli import COMMAND, Cli
from tests.support.scene import Scene


@both_engines
async def test_the_timeline_in_a_pipe_and_as_json(cli: Cli, scene: Scene) -> None:
    endpoint, other = await scene.endpoint(), await scene.endpoint(event_types=("other",))
    await scene.trip(endpoint)
    deploy = Actor(kind=ActorKind.KEY, name="deploy")
    await scene.store.catalogue.reset_circuit(endpoint.no, "their disk is no longer full", actor=deploy)
    await scene.store.catalogue.open_circuit(other.no, "another's")
    header, *rows = (await cli("endpoints", "timeline", endpoint.id)).out.splitlines()
    assert header.split("\t") == ["at", "kind", "by", "cause"]
    assert [row.split("\t")[1:3] for row in rows] == [["circuit_reset", "key deploy"], ["circuit_opened", ""]]

    found = await cli.json("endpoints", "timeline", endpoint.id, "--kind", "circuit_opened")
    assert [each["kind"] for each in found["data"]] == ["circuit_opened"]
    assert datetime.fromisoformat(found["until"]) - datetime.fromisoformat(found["since"]) == timedelta(hours=24)
    assert (await cli.json("endpoints", "timeline", endpoint.id, "--limit", "1"))["data"][0]["kind"] == "circuit_reset"
    await scene.age(3 * 3600)
    assert (await cli.json("endpoints", "timeline", endpoint.id, "--since", "2h"))["data"] == []
    before = await cli.json("endpoints", "timeline", endpoint.id, "--since", "4h", "--until", "1h")
    assert len(before["data"]) == 2


async def test_an_invalid_time_window_is_refused(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for options, words in (
        (("--since", "1h", "--until", "2h"), "--until"),
        (("--since", "0001-01-01T00:00:00Z"), "ten years"),
        (("--since", "yesterday"), "instant"),
    ):
        (await cli("endpoints", "timeline", endpoint.id, *options)).refused(2, words)


async def on_a_terminal(cli: Cli, *arguments: str) -> str:
    """Run the command on a terminal and return its output without colour codes."""
    ours, theirs = pty.openpty()
    environment = cli.environment | {"COLUMNS": "60", "TERM": "xterm"}
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, env=environment, cwd=cli.directory, stdout=theirs, stdin=asyncio.subprocess.DEVNULL
    )
    os.close(theirs)
    reading = asyncio.create_task(asyncio.to_thread(_read, ours))
    assert await process.wait() == 0
    return re.sub(r"\x1b\[[0-9;]*m|\r", "", (await reading).decode())


def _read(terminal: int) -> bytes:
    found = b""
    with open(terminal, "rb", buffering=0) as opened:
        try:
            while more := opened.read(65_536):
                found += more
        except OSError:  # Linux raises this error when the other end of the terminal is closed.
            pass
    return found


async def test_the_timeline_on_a_terminal(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "long before the window")
    await scene.age(20 * 3600)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "they asked us to")
    await scene.recover(endpoint)  # The circuit is open for 5,000 seconds of the last hours.
    lines = (await on_a_terminal(cli, "endpoints", "timeline", endpoint.id, "--since", "10h")).splitlines()
    circuit, probes, status, legend, scale, empty, header, *rows = lines
    assert circuit.split()[0] == "circuit"
    band = circuit.removeprefix("circuit   ")
    assert len(band) == 50
    assert set(band[:42]) == {"─"}
    assert set(band[43:49]) == {"█"}
    assert probes == "probes    " + " " * 49 + "╵"
    assert status.removeprefix("status    ")[:42] == "░" * 42
    assert " ".join(legend.split()) == "─ closed ─ active ▒ recovering ░ paused █ open ╵ probe (half-open)"
    assert len(scale) == 60
    assert empty == ""
    # The detail column is too wide for the table, so it is printed below each row.
    assert header.split() == ["at", "kind", "by"]
    assert [word for row in rows for word in row.split() if "_" in word] == [
        "circuit_recovering",
        "circuit_opened",
        "endpoint_resumed",
    ]


async def test_a_timeline_without_events(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    seen = await on_a_terminal(cli, "endpoints", "timeline", endpoint.id)
    assert "Nothing happened" in seen
    assert "─" * 50 in seen


async def test_a_timeline_with_more_events_than_one_page(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.raw.execute(
        "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 2500)"
        " INSERT INTO lane_event (endpoint_no, app_no, at, kind, cause)"
        " SELECT $1, $2, $3, 'lane_held', 'number ' || n FROM number",
        *(endpoint.no, endpoint.app_no, await scene.store.now()),
    )
    found = await cli.json("endpoints", "timeline", endpoint.id, "--limit", "1000")
    assert [each["cause"] for each in found["data"]] == [f"number {n}" for n in range(2500, 1500, -1)]
    seen = await on_a_terminal(cli, "endpoints", "timeline", endpoint.id, "--limit", "1")
    assert "2,499 older ones are not shown" in seen
