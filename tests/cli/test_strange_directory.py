"""A command may be started in any directory. It must not import Python files from that directory."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.cli.bench import empty, ground, receiver
from hookline.engine.sender import process as sender_process
from hookline.server import supervise
from hookline.services.schemas import pool as schema_pool

COMMANDS = (
    supervise.WORKER,
    sender_process.COMMAND,
    schema_pool.COMMAND,
    ground.HOOKLINE,
    receiver.COMMAND,
    empty.COMMAND,
)
SOURCES = Path(supervise.__file__).parents[1]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[command.index("-m") + 1])
def test_child_processes_import_nothing_from_the_current_directory(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('the wrong typer was run')")
    flags = command[1 : command.index("-m")]
    python = [command[0], *flags, "-c", "import typer"]
    done = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_all_commands_that_start_child_processes_are_tested() -> None:
    found = [
        ast.unparse(node)
        for file in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Tuple | ast.List) and "sys.executable" in ast.unparse(node).split(",")[0]
    ]
    assert sorted(found) == sorted(f"(sys.executable, {', '.join(map(repr, command[1:]))})" for command in COMMANDS)
    assert {command[0] for command in COMMANDS} == {sys.executable}
