"""Log output contains no secrets from stack frames and no terminal control characters. A log that cannot be written
does not end the process."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

SCRIPT = r"""
import logging
import sys
import structlog
from hookline import config
from hookline.server import logs

logs.configure(config.load({"HOOKLINE_LOG_FORMAT": sys.argv[1], "HOOKLINE_DATABASE_URL": "sqlite:///" + sys.argv[2]}))

def fail(payload, key):
    raise ValueError("broken \x1b[2J\x9b2J\n2026-01-01 [info] forged line")

try:
    fail("payload-" + str(4711), "whsec_" + "bG9j" + "YWxz")
except ValueError as error:
    structlog.get_logger().error("first \x1b[31m", path="/a\x9b\x7fb", names=["\x1b"], count=7, exc_info=error)
    logging.getLogger("uvicorn.error").exception("second %s", "\x1b]0;title\x07")
"""

STALLED = """
print("went on", flush=True)
sys.stdin.readline()
structlog.get_logger().error("third")
"""


async def logged(form: str, directory: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, form, f"{directory}/hookline.db", stderr=asyncio.subprocess.PIPE
    )
    _out, err = await process.communicate()
    assert process.returncode == 0, err
    return err.decode()


@pytest.mark.parametrize("form", ["human", "json"])
async def test_errors_are_logged_without_the_values_of_local_variables(form: str, tmp_path: Path) -> None:
    text = await logged(form, str(tmp_path))
    assert text.count("ValueError: broken") == 2
    assert "in fail" in text
    assert "payload-4711" not in text
    assert "bG9jYWxz" not in text
    assert not [letter for letter in text if letter != "\n" and not letter.isprintable()]


async def test_a_line_break_in_received_text_starts_no_new_log_line(tmp_path: Path) -> None:
    lines = (await logged("human", str(tmp_path))).splitlines()
    assert [line for line in lines if line.startswith("2026-01-01")] == []
    assert any(r"first \x1b[31m" in line and r"path=/a\x9b\x7fb" in line and "count=7" in line for line in lines)
    assert any(r"second \x1b]0;title\x07" in line for line in lines)


async def test_every_line_of_the_json_log_is_json(tmp_path: Path) -> None:
    first, second = map(msgspec.json.decode, (await logged("json", str(tmp_path))).splitlines())
    assert (first["event"], first["path"], first["level"]) == ("first \x1b[31m", "/a\x9b\x7fb", "error")
    assert (second["event"], second["level"]) == ("second \x1b]0;title\x07", "error")
    assert "Traceback" in second["exception"]


@pytest.mark.parametrize("form", ["human", "json"])
async def test_a_full_disk_for_the_log_does_not_end_the_process(form: str, tmp_path: Path) -> None:
    script = SCRIPT + "print('went on')"
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'exec "$@" 2>/dev/full', "sh", sys.executable, "-c", script, form, f"{tmp_path}/hookline.db"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _err = await process.communicate()
    assert (process.returncode, out) == (0, b"went on\n")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
async def test_a_line_and_its_line_break_are_one_write(unbuffered: str, tmp_path: Path) -> None:
    """Each line must be one write, so that the lines of several processes do not mix. The log goes to a socket on
    which each write is one packet."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SCRIPT, "json", f"{tmp_path}/hookline.db"),
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stderr=theirs.fileno(),
        )
        theirs.close()
        assert await process.wait() == 0
        packets = [ours.recv(1 << 16) for _ in range(3)]
    assert [packet.count(b"\n") for packet in packets] == [1, 1, 0]
    assert packets[2] == b""


async def test_a_reader_that_stops_reading_does_not_block_the_process(tmp_path: Path) -> None:
    """Log lines are dropped while the reader does not read. When it reads again, a line gives the number of dropped
    lines."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SCRIPT + STALLED, "json", f"{tmp_path}/hookline.db"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=writing,
    )
    os.close(writing)
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"went on\n"
    with os.fdopen(reading, "rb") as pipe:
        assert len(pipe.read(filled)) == filled
        process.stdin.write(b"\n")
        told, third = [msgspec.json.decode(line) for line in pipe.readlines()]
    assert await process.wait() == 0
    assert (told["event"], told["count"], third["event"]) == ("log_lines_lost", 2, "third")
