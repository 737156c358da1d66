"""What is logged: no secrets of the frames that an error went through, and nothing that moves a terminal's cursor."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

SCRIPT = r"""
import logging
import sys
import structlog
from hookline import config
from hookline.cli import logs

logs.configure(config.load({"HOOKLINE_LOG_FORMAT": sys.argv[1], "HOOKLINE_DATABASE_URL": "sqlite:///" + sys.argv[2]}))

def fail(payload, key):
    raise ValueError("broken \x1b[2J\x9b2J\n2026-01-01 [info] forged line")

try:
    fail("payload-" + str(4711), "whsec_" + "bG9j" + "YWxz")
except ValueError as error:
    structlog.get_logger().error("first \x1b[31m", path="/a\x9b\x7fb", names=["\x1b"], count=7, exc_info=error)
    logging.getLogger("uvicorn.error").exception("second %s", "\x1b]0;title\x07")
"""


async def logged(form: str, directory: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, form, f"{directory}/hookline.db", stderr=asyncio.subprocess.PIPE
    )
    _out, err = await process.communicate()
    assert process.returncode == 0, err
    return err.decode()


@pytest.mark.parametrize("form", ["human", "json"])
async def test_errors_are_logged_without_what_their_frames_held(form: str, tmp_path: Path) -> None:
    text = await logged(form, str(tmp_path))
    assert text.count("ValueError: broken") == 2
    assert "in fail" in text
    assert "payload-4711" not in text
    assert "bG9jYWxz" not in text
    assert not [letter for letter in text if letter != "\n" and not letter.isprintable()]


async def test_a_text_that_was_sent_makes_no_line_of_its_own(tmp_path: Path) -> None:
    lines = (await logged("human", str(tmp_path))).splitlines()
    assert [line for line in lines if line.startswith("2026-01-01")] == []
    assert any(r"first \x1b[31m" in line and r"path=/a\x9b\x7fb" in line and "count=7" in line for line in lines)
    assert any(r"second \x1b]0;title\x07" in line for line in lines)


async def test_every_line_for_machines_is_json(tmp_path: Path) -> None:
    first, second = map(msgspec.json.decode, (await logged("json", str(tmp_path))).splitlines())
    assert (first["event"], first["path"], first["level"]) == ("first \x1b[31m", "/a\x9b\x7fb", "error")
    assert (second["event"], second["level"]) == ("second \x1b]0;title\x07", "error")
    assert "Traceback" in second["exception"]
