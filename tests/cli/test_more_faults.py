"""Every fault gives one line of text and an exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from hookline import clock
from hookline.cli.params import read_instant
from hookline.errors import InvalidInput
from hookline.model.messages import MessageFilter
from hookline.store import Page
from tests.cli.conftest import both_engines
from tests.cli.test_dead import kill
from tests.support.cli import COMMAND, Cli
from tests.support.scene import Scene

NOT_UTF8 = "\udcff"  # Python represents the byte 0xff in an argument with this character.


@pytest.mark.parametrize(
    "instant", ["99999999d", "9" * 400 + "h", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_times_out_of_range_are_refused(instant: str) -> None:
    with pytest.raises(InvalidInput, match="outside of the years"):
        read_instant(instant, clock.wall())


async def test_the_first_and_the_last_valid_time(cli: Cli, scene: Scene) -> None:
    window = ("--since", "2000-01-01T00:00:00Z", "--until", "3000-01-01T00:00:00Z")
    assert (await cli.json("dead", "list", *window))["data"] == []
    (await cli("dead", "list", "--since", "0001-01-01T00:00:00Z")).refused(2, "between the years 2000 and 3000")
    (await cli("dead", "list", "--since", "0001-01-01T00:00:00+14:00")).refused(2, "outside of the years")


async def test_arguments_that_are_not_text(cli: Cli, scene: Scene) -> None:
    (await cli("apps", "list", "--after", NOT_UTF8)).refused(2, "not UTF-8")
    (await cli("send", scene.app.id, "x", "-d", f'{{"a":"{NOT_UTF8}"}}')).refused(2, "not UTF-8")
    (await cli("apps", "add", NOT_UTF8)).refused(2, "not UTF-8")


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_database_url_with_an_unknown_option(cli: Cli, scene: Scene, database_url: str) -> None:
    joined = "&" if "?" in database_url else "?"
    wrong = cli.using(HOOKLINE_DATABASE_URL=f"{database_url}{joined}bogus=1")
    for command in ("apps list", "doctor", "serve"):
        (await wrong(*command.split())).refused(2, "HOOKLINE_DATABASE_URL", "bogus")


@pytest.mark.parametrize("arguments", ["apps list", "apps list --json", "endpoints show ID"])
async def test_output_that_cannot_be_written(cli: Cli, scene: Scene, arguments: str) -> None:
    endpoint = await scene.endpoint()
    words = arguments.replace("ID", endpoint.id).split()
    environment = {name: value for name, value in cli.environment.items() if name != "PYTHONUNBUFFERED"}
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, *words, env=environment, cwd=cli.directory, stdout=full, stderr=asyncio.subprocess.PIPE
        )
    finally:
        os.close(full)
    _, err = await process.communicate()
    assert (process.returncode, err) == (1, b"hookline: the output: No space left on device\n")


async def test_ctrl_c_during_the_start(cli: Cli) -> None:
    """The first large import raises KeyboardInterrupt, as Ctrl-C would at that point."""
    script = """
import signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from hookline.cli import main
main()
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env=cli.environment, cwd=cli.directory, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")


# ── dead ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@both_engines
async def test_resolved_dead_letter_is_replayed_by_its_id_alone(cli: Cli, scene: Scene) -> None:
    letters = await _dead_letters(cli, scene, 2)
    await cli.json("dead", "resolve", letters[0]["id"], "--note", "refunded")

    assert await cli.json("dead", "replay", "--all", "--yes") == {"replayed": 1, "left": 0}
    assert [job.message_id for job in await scene.claim_all()] == [letters[1]["messageId"]]
    assert await cli.json("dead", "replay", letters[0]["id"], letters[0]["id"]) == {"replayed": 1, "left": 0}
    assert [job.message_id for job in await scene.claim_all()] == [letters[0]["messageId"]]


@both_engines
async def test_unknown_ids_are_named_and_nothing_is_changed(cli: Cli, scene: Scene) -> None:
    known, resolved = [each["id"] for each in await _dead_letters(cli, scene, 2)]
    await cli.json("dead", "resolve", resolved, "--note", "by hand")

    (await cli("dead", "replay", known, "dl_777", "dl_778")).refused(3, "no dead letter 'dl_777'")
    (await cli("dead", "resolve", known, resolved, "--note", "x")).refused(5, f"{resolved} was resolved before")
    assert [each["id"] for each in (await cli.json("dead", "list"))["data"]] == [known]


async def test_ids_cannot_be_combined_with_filters(cli: Cli, scene: Scene) -> None:
    (letter,) = await _dead_letters(cli, scene, 1)
    for extra in (["--all"], ["--since", "1h"], ["--reason", "attempts_exhausted"]):
        (await cli("dead", "replay", letter["id"], *extra, "--yes")).refused(2, "ids, or filters, or --all")
    (await cli("dead", "replay", "--all", "--since", "1h", "--yes")).refused(2)


async def _dead_letters(cli: Cli, scene: Scene, count: int) -> list[dict[str, str]]:
    await scene.endpoint()
    await kill(scene, count)
    return list((await cli.json("dead", "list"))["data"])


# ── send ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wait", ["inf", "nan"])
async def test_wait_is_bounded(cli: Cli, scene: Scene, wait: str) -> None:
    (await cli("send", scene.app.id, "order.paid", "--wait", wait)).refused(2, "--wait")
    assert (await scene.store.history.messages(scene.app.no, MessageFilter(), Page())).rows == []


async def test_interrupted_wait_says_that_the_message_was_accepted(cli: Cli, scene: Scene) -> None:
    await scene.endpoint()
    async with cli.running("send", scene.app.id, "order.paid", "--wait", "600") as waiting:
        message = await waiting.line()
        stopped = await waiting.stop(signal.SIGINT)
    assert [job.message_id for job in await scene.claim_all()] == [message]
    assert stopped.code == 130, stopped
    assert stopped.err == f"hookline: no longer waiting; {message} was accepted\n"


async def test_a_message_that_no_endpoint_matches_is_accepted_with_a_warning(cli: Cli, scene: Scene) -> None:
    sent = await cli("send", scene.app.id, "order.paid", "--json")
    assert sent.json()["deliveries"] == 0
    assert sent.err == "hookline: no endpoint matches: nothing will be delivered\n"


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"], ids=["in", "out", "err", "all"])
async def test_a_command_runs_with_closed_standard_streams(cli: Cli, scene: Scene, closed: str) -> None:
    """Some service managers start a process with these streams closed."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "relay", "--once"),
        env=cli.environment,
        cwd=cli.directory,
    )
    assert await process.wait() == 0


async def test_an_output_that_is_not_utf8_loses_nothing(cli: Cli, scene: Scene) -> None:
    name = "Straße ● 😀"
    await cli.json("apps", "add", "acme", "--name", name)
    plain = cli.using(PYTHONIOENCODING="ascii")
    assert name in [app["name"] for app in (await plain.json("apps", "list"))["data"]]
    shown = await plain("apps", "list")
    assert shown.code == 0, shown
    assert r"Stra\u00dfe \u25cf \ud83d\ude00" in shown.out
