"""What README.md and docs/cli.md say can be typed, can be typed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hookline.cli.app import app, exit_code
from hookline.errors import HooklineError
from hookline.store import Store
from tests.support.cli import Cli
from tests.support.scene import Scene

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(
    r"\bhookline ((?:serve|worker|migrate|token|send|listen|trace|doctor|apps|event-types|endpoints|dead|tasks|keys)\b[^`\n]*)"
)


def commands(file: str) -> set[str]:
    """First words of each command that the file shows: `dead replay`, `serve`."""
    found = set()
    for line in COMMAND.findall((ROOT / file).read_text()):
        words = re.findall(r"[a-z|\\-]+", line)
        group = words[0] in ("apps", "event-types", "endpoints", "dead", "tasks", "keys")
        verbs = words[1].replace("\\", "").split("|") if group and len(words) > 1 else [""]
        found |= {f"{words[0]} {verb}".strip() for verb in verbs if verb.isalpha() or not verb}
    return found


@pytest.mark.parametrize("file", ["README.md", "docs/cli.md"])
async def test_commands_that_are_shown_exist(alone: Cli, file: str) -> None:
    assert len(commands(file)) >= 4
    for command in sorted(commands(file)):
        helped = await alone(*command.split(), "--help")
        assert helped.code == 0, (command, helped)


def test_every_command_is_in_the_reference() -> None:
    known = {info.name for info in app.registered_commands} | {group.name for group in app.registered_groups}
    assert known == {command.split()[0] for command in commands("docs/cli.md")}


def test_every_direct_dependency_has_its_reason() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[<>=; ]", line)[0] for line in listed}
    section = (ROOT / "docs/architecture.md").read_text().partition("## Direct dependencies")[2].partition("## ")[0]
    assert set(re.findall(r"^\| ([\w-]+) \|", section, re.MULTILINE)) - {"package"} == names


def test_unlisted_errors_are_exit_code_1() -> None:
    assert exit_code(HooklineError("x")) == 1


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_the_readmes_outbox_insert_becomes_a_message(scene: Scene, store: Store) -> None:
    shown = re.search(r'"(INSERT INTO hookline\.outbox .*)"', (ROOT / "README.md").read_text())
    assert shown is not None
    statement = shown[1].replace("%s", "${}").format(1, 2, 3)
    await scene.endpoint()
    await scene.raw.execute(statement, scene.app.id, "order.paid", b'{"id": 7}')

    assert (await store.relay(10)).relayed == 1
    (job,) = await scene.claim()
    assert job.payload == b'{"id": 7}'
