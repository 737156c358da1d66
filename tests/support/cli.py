"""Run the real `hookline` command in its own process."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.support.fork_server import ForkServer

MODULE = "hookline.cli"
COMMAND = (sys.executable, "-m", MODULE)


@functools.cache
def fork_server() -> ForkServer:
    """The fork server of this process. It starts with the first short command."""
    opened = ForkServer(MODULE)
    atexit.register(opened.close)
    return opened


class Done:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- out ---\n{self.out}\n--- err ---\n{self.err}"

    def json(self) -> Any:
        assert self.code == 0, self
        return msgspec.json.decode(self.out)

    def refused(self, code: int, *words: str) -> None:
        """Expect exit code `code`, one line with all `words` on standard error, and nothing on standard output."""
        assert self.code == code, self
        assert self.out == "", self
        assert self.err.startswith("hookline: "), self
        assert self.err.count("\n") == 1, self
        for word in words:
            assert word in self.err, self


class Cli:
    """Run `hookline` with the settings of one deployment and no other `HOOKLINE_` variables."""

    def __init__(self, settings: Mapping[str, str], directory: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
        self.environment = {**kept, **settings, "PYTHONUNBUFFERED": "1"}
        self.directory = directory

    def using(self, **settings: str) -> Cli:
        given = {name: value for name, value in self.environment.items() if name.startswith("HOOKLINE_")}
        return Cli(given | settings, self.directory)

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Done:
        """Run a command that ends by itself."""
        if not fork_server().suits(self.environment):
            return await self.cold(*arguments, stdin=stdin)
        code, out, err = await fork_server().run(
            arguments, environment=self.environment, directory=self.directory, stdin=stdin
        )
        return Done(code, out.decode(), err.decode())

    async def cold(self, *arguments: str, stdin: bytes = b"") -> Done:
        """Run a command that ends by itself, in a new Python process instead of a forked one."""
        process = await self._start(arguments)
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    async def json(self, *arguments: str) -> Any:
        return (await self(*arguments, "--json")).json()

    async def _start(self, arguments: tuple[str, ...]) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *COMMAND, *arguments, env=self.environment, cwd=self.directory, stdin=pipe, stdout=pipe, stderr=pipe
        )

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator[Running]:
        """Run a command that keeps running. It is interrupted at the end of the block if it still runs."""
        running = Running(await self._start(arguments))
        try:
            yield running
        finally:
            await running.stop(signal.SIGTERM)


class Running:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stdin is not None
        self._stdout = process.stdout
        self._stdin = process.stdin

    async def line(self) -> str:
        """Return the next line of the output."""
        line = await self._stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(f"it ended: {(await self.process.stderr.read()).decode()}")
        return line.decode().rstrip("\n")

    async def json_line(self) -> Any:
        return msgspec.json.decode(await self.line())

    async def line_with(self, word: str) -> str:
        while word not in (line := await self.line()):
            pass
        return line

    def type(self, line: str) -> None:
        self._stdin.write(line.encode() + b"\n")

    async def stop(self, number: signal.Signals) -> Done:
        if self.process.returncode is None:
            self.process.send_signal(number)
        out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return Done(self.process.returncode, out.decode(), err.decode())
