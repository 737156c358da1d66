"""The commands and requests that README.md and docs/ show work as printed."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hookline.cli.app import COMMANDS, app, load
from hookline.errors import HooklineError
from hookline.services.errors import exit_code
from tests.cli.conftest import both_engines
from tests.support.cli import Cli
from tests.support.pages import ROOT, blocks, page, section
from tests.support.ports import free_port

API = "docs/guides/call-the-api.md"
SDKS = "docs/guides/use-svix-sdks.md"
GROUPS = ("apps", "event-types", "endpoints", "outbox", "dead", "tasks", "keys", "operators", "alerts")
ALONE = "serve|worker|relay|migrate|backup|restore|reseal|token|send|listen|trace|top|doctor|demo|bench"
COMMAND = re.compile(rf"\bhookline ((?:{ALONE}|{'|'.join(GROUPS)})\b[^`\n]*)")


def commands(file: str) -> set[str]:
    """Return the name of each command that the file shows, such as `dead replay` or `serve`."""
    found = set()
    for line in COMMAND.findall(page(file)):
        words = re.findall(r"[a-z|\\-]+", line)
        group = words[0] in GROUPS
        verbs = words[1].replace("\\", "").split("|") if group and len(words) > 1 else [""]
        found |= {f"{words[0]} {verb}".strip() for verb in verbs if verb.isalpha() or not verb}
    return found


def test_commands_that_are_shown_exist() -> None:
    pages = ["README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
    shown = set().union(*map(commands, pages))
    assert len(shown) > 50
    for command in sorted(shown):
        helped = CliRunner().invoke(app, [*command.split(), "--help"])
        assert helped.exit_code == 0, (command, helped.output)


def test_every_command_is_in_the_reference() -> None:
    assert set(COMMANDS) == {command.split()[0] for command in commands("docs/reference/cli.md")}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_sentence_of_each_help(name: str) -> None:
    _, summary = COMMANDS[name]
    assert " ".join(load(name).help.split()).startswith(summary)
    assert re.fullmatch(r"[^.]+\.", summary)


def test_every_direct_dependency_has_its_reason() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    listed = [project["dependencies"], project["optional-dependencies"]["server"]]
    names = [{re.split(r"[<>=; ]", line)[0] for line in lines} for lines in listed]
    tables = section("docs/reference/dependencies.md", "Direct dependencies").split("| package | reason |")[1:]
    assert [set(re.findall(r"^\| ([\w-]+) \|", table, re.MULTILINE)) for table in tables] == names


def test_unlisted_errors_are_exit_code_1() -> None:
    assert exit_code(HooklineError("x")) == 1


# ── API examples ──────────────────────────────────────────────────────────────────────────────────────────────────


# The documented pause is too short on a busy machine. The tests wait until the dead letter exists.
A_MOMENT = "sleep 1"
UNTIL_IT_DIED = "until api /app/acme/dead-letter | grep --quiet permanent_failure; do sleep 0.1; done"


@asynccontextmanager
async def as_documented(cli: Cli) -> AsyncIterator[tuple[dict[str, str], Callable[[str], str]]]:
    """Run a server and a receiver. Yield the environment of the reader's shell, and a function that puts the real
    addresses into the documented text."""
    async with (
        cli.using(HOOKLINE_PORT=free_port()).running("serve", "--json") as server,
        cli.running("listen", "--port", "0", "--json") as listener,
    ):
        served, received = (await server.json_line())["address"], (await listener.json_line())["listening"]
        token = (await cli("token")).out.strip()
        env = cli.environment | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TOKEN": token}
        yield env, lambda text: text.replace("http://127.0.0.1:8071", served).replace("http://127.0.0.1:8073", received)


@both_engines
async def test_the_lines_of_the_api_page_work_as_printed(cli: Cli) -> None:
    lines = [line for block in blocks("sh", page(API)) for line in block.splitlines()]
    assert len(lines) > 20
    assert A_MOMENT in lines
    async with as_documented(cli) as (env, here):
        script = "\n".join(f'{here(line.replace(A_MOMENT, UNTIL_IT_DIED))}\necho "<$?>"' for line in lines)
        said, _code = await shell(script, env)
    for line, code in zip(lines, re.findall(r"<(\d+)>$", said, re.MULTILINE), strict=True):
        assert code == ("22" if "# 422" in line else "0"), (line, said)
    assert '"id\\" is a required property' in said
    assert '"reason":"permanent_failure"' in said
    assert '"circuit":"closed"' in said


async def test_the_first_message_of_the_readme(cli: Cli) -> None:
    (shown,) = blocks("sh", page("README.md"))
    await cli("apps", "add", "demo")
    async with as_documented(cli) as (env, here):
        said, code = await shell(here(shown), env)
    assert code == 0, said
    assert '"eventType":"order.paid","payload":{"id": 7}' in said


@both_engines
async def test_the_python_of_the_svix_page_works_as_printed(cli: Cli, tmp_path: Path) -> None:
    (shown,) = blocks("python", page(SDKS))
    async with as_documented(cli) as (env, here):
        (tmp_path / "shown.py").write_text(here(shown))
        said, code = await shell(f"{sys.executable} {tmp_path}/shown.py", env)
    assert code == 0, said


async def shell(script: str, env: dict[str, str]) -> tuple[str, int]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, env=env, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return out.decode(), process.returncode


async def test_the_sqlite_commands_of_the_backup_page_work_as_printed(alone: Cli, tmp_path: Path) -> None:
    shown = blocks("sh", page("docs/guides/back-up-and-restore.md"))
    await alone("apps", "add", "acme")
    env = alone.environment | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said, code = await shell("\n".join(["set -e", f"cd {tmp_path}", *shown]), env)
    assert code == 0, said
    assert (tmp_path / "drill" / "hookline.db").exists()
