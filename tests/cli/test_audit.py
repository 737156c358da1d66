"""The audit log of the command line: one entry for each command that changes something."""

from __future__ import annotations

import asyncio
import sys

import msgspec
import pytest

from hookline.model.actors import ActorKind
from hookline.model.audit import AuditEntry, AuditFilter
from hookline.model.tasks import TaskFilter, TaskStatus
from hookline.store import Page
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene


async def log_of(scene: Scene) -> list[AuditEntry]:
    """Return the audit log, oldest entry first."""
    found = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page(limit=100))
    return found.rows[::-1]


async def test_each_command_that_changes_something_is_in_the_log(cli: Cli, scene: Scene) -> None:
    app = await cli.json("apps", "add", "acme")
    endpoint = await cli.json("endpoints", "add", "acme", "https://example.com/hooks")
    one = endpoint["endpoint"]["id"]
    await cli.json("endpoints", "pause", one, "--why", "they deploy")
    await cli.json("endpoints", "resume", one)
    await cli.json("endpoints", "close", one)  # The circuit is not open, so the command changes nothing.
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


async def test_reading_a_secret_is_in_the_log(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await cli.json("endpoints", "show", endpoint.id)
    assert await log_of(scene) == []
    shown = await cli.json("endpoints", "show", endpoint.id, "--secret")
    (entry,) = await log_of(scene)
    assert (entry.action, entry.subject, entry.app_id) == ("endpoint.reveal_secret", endpoint.id, scene.app.id)
    assert shown["secrets"][0] not in repr(entry)


async def test_the_log_names_the_user_who_ran_the_command(cli: Cli, scene: Scene) -> None:
    await cli.using(LOGNAME="ada").json("apps", "add", "acme")
    (entry,) = await log_of(scene)
    assert entry.actor.name == "ada"


async def test_dead_letters(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    await scene.record(*[factory.dead(job) for job in await scene.claim(10)])
    await cli.json("dead", "replay", "--endpoint", endpoint.id, "--yes")
    # All dead letters are replayed already, so the command changes nothing.
    await cli.json("dead", "replay", "--endpoint", endpoint.id, "--yes")
    (entry,), (task,) = (
        await log_of(scene),
        await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page()),
    )
    assert (entry.action, entry.subject, entry.app_id) == ("dead_letter.replay", task.id, scene.app.id)
    assert entry.detail.startswith(f"endpoint={endpoint.id}, until=")
    assert (task.status, task.done) == (TaskStatus.FINISHED, 3)


INTERRUPTED = """
import asyncio, contextlib, os, signal
from hookline.cli import main, tasks
from hookline.server import sockets

tasks.BATCH = 2
whole, stop_on_signals = tasks._step, sockets.stop_on_signals

@contextlib.contextmanager
def watched():
    global stop
    with stop_on_signals() as stop:
        yield stop

async def interrupted(opened, task):
    first, *second = os.environ["TOLD"].split()
    os.kill(os.getpid(), signal.Signals[first])
    answer = await whole(opened, task)
    if signal.getsignal(signal.Signals[first]) != signal.SIG_IGN:
        await stop.wait()  # Any thread may get the signal.
    if second:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.Signals[second[0]])
        await asyncio.Event().wait()
    return answer

tasks._step, sockets.stop_on_signals = interrupted, watched
main()
"""


async def replayed_under(told: str, cli: Cli, scene: Scene, *around: str) -> tuple[int | None, object]:
    """Replay five dead letters in batches of two. `told` names the signals that the command gets: one during a batch,
    and a second one after it. `around` is the command line that starts the command."""
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
async def test_a_signal_stops_a_replay_after_the_current_batch(cli: Cli, scene: Scene, told: str) -> None:
    """SIGINT (Ctrl-C) and SIGHUP (closed terminal) stop the replay. The current batch is completed, reported and kept."""
    assert await replayed_under(told, cli, scene) == (130, {"replayed": 2, "left": 3})
    (entry,), (task,) = (
        await log_of(scene),
        await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page()),
    )
    assert (entry.action, entry.subject) == ("dead_letter.replay", task.id)
    assert (task.status, task.done) == (TaskStatus.CANCELED, 2)


async def test_a_second_signal_cancels_the_task_too(cli: Cli, scene: Scene) -> None:
    """A second signal must also cancel the task. Otherwise a worker would continue it."""
    assert await replayed_under("SIGINT SIGINT", cli, scene) == (130, None)
    (task,) = await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page())
    assert (task.status, task.done) == (TaskStatus.CANCELED, 2)


async def test_a_command_that_ignores_sighup_continues_when_its_terminal_closes(cli: Cli, scene: Scene) -> None:
    """`nohup` starts a command that ignores SIGHUP."""
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
