"""The wheel is complete, and publishing needs only msgspec besides it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
HEAVY = (
    "asyncio",
    "asyncpg",
    "typer",
    "rich",
    "starlette",
    "structlog",
    "pycurl",
    "cryptography",
    "django",
    "sqlalchemy",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, because setuptools leaves its own files beside the source."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "hookline", source / "hookline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = subprocess.run([sys.executable, "-c", BUILD], cwd=source, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return source / "dist" / built.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and msgspec, as `pip install hookline` does."""
    place = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(place)
    (place / "msgspec").symlink_to(Path(str(distribution("msgspec").locate_file("msgspec"))))
    return place


def python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these packages and the standard library only."""
    command = [sys.executable, "-S", *arguments]
    env = {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=env, cwd=installed.parent, capture_output=True, text=True, check=False)


def files() -> Iterator[str]:
    for path in (ROOT / "hookline").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT).as_posix()


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    expected = set(files())
    kinds = {Path(name).suffix for name in expected}
    assert {".py", ".sql", ".css", ".js", ".typed"} <= kinds
    assert expected <= set(zipfile.ZipFile(wheel).namelist())


def test_publishing_needs_msgspec_alone(installed: Path) -> None:
    script = (
        "import sys, sqlite3, hookline.outbox as outbox; "
        "event = outbox.event('acme', 'order.paid', {'order': 7}); "
        f"print(event.payload, [name for name in {HEAVY} if name in sys.modules])"
    )
    done = python(installed, "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"order":7} []\n', "")


def test_publishing_on_sqlite_with_the_core_alone(installed: Path, tmp_path: Path) -> None:
    script = (
        "import sqlite3; from pathlib import Path; from hookline import outbox; "
        f"conn = sqlite3.connect(r'{tmp_path / 'shop.db'}'); "
        f"conn.executescript(Path(r'{installed / 'hookline/outbox/sql/sqlite.sql'}').read_text()); "
        "conn.execute('BEGIN'); outbox.publish(conn, 'acme', 'order.paid', {'order': 7}); conn.commit(); "
        "print(conn.execute('SELECT app, event_type, payload FROM hookline_outbox').fetchall())"
    )
    done = python(installed, "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == """[('acme', 'order.paid', '{"order":7}')]\n"""


def test_hookline_testing_needs_msgspec_alone(installed: Path) -> None:
    done = python(installed, "-c", "import hookline.testing; print(hookline.testing.FakeEndpoint.__name__)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "FakeEndpoint\n", "")


@pytest.mark.parametrize("how", [["-m", "hookline"], ["-c", "from hookline.cli import main; main()"]])
def test_the_command_says_what_to_install(installed: Path, how: list[str]) -> None:
    done = python(installed, *how, "serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("hookline: ")
    assert "pip install 'hookline[server]'" in done.stderr


def test_a_missing_module_of_hookline_raises_an_error(installed: Path) -> None:
    script = "import sys; sys.modules['hookline.cli.app'] = None; from hookline.cli import main; main()"
    done = python(installed, "-c", script)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
