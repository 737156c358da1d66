"""The audit log of the command line: one entry for each command that changes something."""

from __future__ import annotations

import asyncio
import sys

import msgspec
import pytest

from hookline.model import ActorKind, TaskFilter, TaskStatus
from hookline.model.audit import AuditEntry, AuditFilter
from hookline.store.protocols import Page
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene


async def log_of(scene: Scene) -> list[AuditEntry]:
    """Oldest first."""
    found = await scene.store.audit_log(AuditFilter(org_id=scene.organization.id), Page(limit=100))
    return found.rows[::-1]


async def test_commands_that_change_something(cli: Cli, scene: Scene) -> None:
    app = await cli.json("apps", "add", "acme")
    endpoint = await cli.json("endpoints", "add", "acme", "https://example.com/hooks")
    one = endpoint["endpoint"]["id"]
    await cli.json("endpoints", "pause", one, "--why", "they deploy")
    await cli.json("endpoints", "resume", one)
    await cli.json("endpoints", "close", one)  # it is not open: nothing to do
    rotated = await cli.json("endpoints", "rotate", one)
    await cli.json("endpoints", "remove", one)
    key = await cli.json("keys", "create", "shop", "--scope", "read")
    await cli.json("keys", "revoke", key["id"])
    await cli.json("event-types", "add", "order.paid")
    token = await cli.json("token", "--revoke-all")
    await cli.json("apps", "list")

    entries = await log_of(scene)
    org = scene.organization.id
    assert [(each.action, each.subject, each.app_id) for each in entries] == [
        ("application.create", app["id"], app["id"]),
        ("endpoint.create", one, app["id"]),
        ("endpoint.pause", one, app["id"]),
        ("endpoint.resume", one, app["id"]),
        ("endpoint.rotate_secret", one, app["id"]),
        ("endpoint.delete", one, app["id"]),
        ("api_key.create", key["id"], None),
        ("api_key.revoke", key["id"], None),
        ("event_type.create", "order.paid", None),
        ("token.revoke_all", org, None),
        ("token.create", org, None),
    ]
    assert {(each.actor.kind, each.address) for each in entries} == {(ActorKind.COMMAND_LINE, "")}
    assert entries[2].detail == "they deploy"
    for secret in (endpoint["secret"], rotated["secret"], key["key"], token["token"]):
        assert secret not in repr(entries)


async def test_who_was_shown_a_secret(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await cli.json("endpoints", "show", endpoint.id)
    assert await log_of(scene) == []
    shown = await cli.json("endpoints", "show", endpoint.id, "--secret")
    (entry,) = await log_of(scene)
    assert (entry.action, entry.subject, entry.app_id) == ("endpoint.reveal_secret", endpoint.id, scene.app.id)
    assert shown["secrets"][0] not in repr(entry)


async def test_who_ran_it(cli: Cli, scene: Scene) -> None:
    await cli.using(LOGNAME="ada").json("apps", "add", "acme")
    (entry,) = await log_of(scene)
    assert entry.actor.name == "ada"


async def test_dead_letters(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    await scene.record(*[factory.dead(job) for job in await scene.claim(10)])
    await cli.json("dead", "replay", "--endpoint", endpoint.id, "--yes")
    await cli.json("dead", "replay", "--endpoint", endpoint.id, "--yes")  # nothing is left
    (entry,), (task,) = await log_of(scene), await scene.store.tasks(TaskFilter(org_id=scene.organization.id), Page())
    assert (entry.action, entry.subject, entry.app_id) == ("dead_letter.replay", task.id, scene.app.id)
    assert entry.detail.startswith(f"endpoint={endpoint.id}, until=")
    assert (task.status, task.done) == (TaskStatus.FINISHED, 3)


INTERRUPTED = """
import asyncio, os, signal
from hookline.cli import main, tasks

UNHANDLED = signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler
tasks.BATCH = 2
whole = tasks._step

async def interrupted(opened, task):
    first, *second = os.environ["TOLD"].split()
    os.kill(os.getpid(), signal.Signals[first])
    answer = await whole(opened, task)
    while signal.getsignal(signal.Signals[first]) not in UNHANDLED:
        await asyncio.sleep(0)  # any thread may take the signal; the command removes its handler once it has seen it
    if second:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.Signals[second[0]])
        await asyncio.Event().wait()
    return answer

tasks._step = interrupted
main()
"""


async def replayed_under(told: str, cli: Cli, scene: Scene, *around: str) -> tuple[int | None, object]:
    """Five dead letters, two at a time, while the command gets a signal."""
    await scene.endpoint()
    await scene.send(5)
    await scene.record(*[factory.dead(job) for job in await scene.claim(10)])
    replay = await asyncio.create_subprocess_exec(
        *around, sys.executable, "-c", INTERRUPTED, "dead", "replay", "--all", "--yes", "--json",
        env=cli.environment | {"TOLD": told}, cwd=cli.directory, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await replay.communicate()
    return replay.returncode, msgspec.json.decode(out or b"null")


@both_engines
@pytest.mark.parametrize("told", ["SIGINT", "SIGHUP"])
async def test_dead_letters_until_somebody_interrupts(cli: Cli, scene: Scene, told: str) -> None:
    """Or until their terminal is gone. What is under way then is finished, and all that was done is told and kept."""
    assert await replayed_under(told, cli, scene) == (130, {"replayed": 2, "left": 3})
    (entry,), (task,) = await log_of(scene), await scene.store.tasks(TaskFilter(org_id=scene.organization.id), Page())
    assert (entry.action, entry.subject) == ("dead_letter.replay", task.id)
    assert (task.status, task.done) == (TaskStatus.CANCELED, 2)


async def test_a_second_signal_ends_the_task_too(cli: Cli, scene: Scene) -> None:
    """A worker would go on with it otherwise."""
    assert await replayed_under("SIGINT SIGINT", cli, scene) == (130, None)
    (task,) = await scene.store.tasks(TaskFilter(org_id=scene.organization.id), Page())
    assert (task.status, task.done) == (TaskStatus.CANCELED, 2)


async def test_what_was_told_to_outlive_its_terminal_does(cli: Cli, scene: Scene) -> None:
    """As `nohup` tells it."""
    answer = await replayed_under("SIGHUP", cli, scene, "sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    assert answer == (0, {"replayed": 5, "left": 0})


async def test_operators(cli: Cli, scene: Scene) -> None:
    async def run(*words: str) -> None:
        assert (await cli(*words, stdin=b"correct horse battery staple\n")).code == 0

    await run("operators", "add", "ada", "--password-stdin")
    await run("operators", "password", "ada", "--password-stdin")
    await run("operators", "role", "ada", "read")
    await run("operators", "sign-out", "ada")
    await run("operators", "remove", "ada")
    entries = await log_of(scene)
    assert [(each.action, each.subject) for each in entries] == [
        ("operator.create", "ada"),
        ("operator.password", "ada"),
        ("operator.role", "ada"),
        ("operator.sign_out", "ada"),
        ("operator.delete", "ada"),
    ]
    assert "scrypt" not in repr(entries)
