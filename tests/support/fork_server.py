"""A server that forks a process for each short command, so that the command needs no time for imports.

The server has already imported the code of the command line. Each command is still its own process, with its own
arguments, environment, directory and streams. Run this module as a script with the path of a socket; it ends when its
standard input ends. One connection is one request: a length, JSON and the three streams. The answer is the exit code.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hookline.cli.app import COMMANDS, load

# What a command imports only when it runs. `pydantic` alone loads nothing: the option parser uses these parts of it.
MODULES = (
    "hookline.store.postgres",
    "hookline.store.sqlite",
    "importlib.metadata",
    "jwt",
    "pydantic.fields",
    "pydantic.functional_validators",
    "pydantic.type_adapter",
    "rich.progress",
)
AT_START = ("PYTHON", "LC_", "LANG", "TZ", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
_LENGTH = struct.Struct("!I")
_CODE = struct.Struct("!i")


# ── the client ────────────────────────────────────────────────────────────────────────────────────────────────────


class ForkServer:
    def __init__(self, module: str) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="hookline-fork-server-")
        self._path = f"{self._home.name}/socket"
        self._environment = dict(os.environ) | {"PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._path, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # the server prints a line when it listens

    def close(self) -> None:
        self._process.communicate()
        self._home.cleanup()

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Return whether a forked process can have this environment. Variables that Python reads at its start cannot
        change later."""
        return _of_python(environment) == _of_python(self._environment)

    async def run(
        self, arguments: tuple[str, ...], *, environment: Mapping[str, str], directory: str, stdin: bytes
    ) -> tuple[int, bytes, bytes]:
        request = json.dumps(
            {"arguments": arguments, "environment": dict(environment), "directory": directory}
        ).encode()
        its_stdin, ours = os.pipe()
        out, its_out = os.pipe()
        err, its_err = os.pipe()
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(self._path)
            socket.send_fds(asked, [_LENGTH.pack(len(request))], [its_stdin, its_out, its_err])
            for its in (its_stdin, its_out, its_err):
                os.close(its)
            asked.sendall(request)
            results = await asyncio.gather(
                asyncio.to_thread(_write, ours, stdin), asyncio.to_thread(_read, out), asyncio.to_thread(_read, err)
            )
            (code,) = _CODE.unpack(await asyncio.to_thread(_exactly, asked, _CODE.size))
        return code, results[1], results[2]


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


def _write(end: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(end, "wb") as stream:
        stream.write(data)


def _read(end: int) -> bytes:
    with open(end, "rb") as stream:
        return stream.read()


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        assert part, "the process of the command ended without an exit code"
        data += part
    return data


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    path, module = sys.argv[1:]
    for name in MODULES:
        importlib.import_module(name)
    for command in COMMANDS:
        load(command)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("listening", flush=True)
        if not _begin_each(listener):
            return
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _begin_each(listener: socket.socket) -> bool:
    """Accept requests. Return True in the process of a command, ready to run it; return False when the input has ended."""
    # the kernel removes ended child processes, because nobody waits for them
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return False
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                return _keep(connection)


def _keep(connection: socket.socket) -> bool:
    """Fork, and return True in the child, for the command. The parent waits for the child and sends the exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
    (length,) = _LENGTH.unpack(head)
    request = json.loads(_exactly(connection, length))
    child = os.fork()
    if child == 0:
        connection.close()
        _become(request, streams)
        return True
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    connection.sendall(_CODE.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(request: dict[str, object], streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    environment, arguments = request["environment"], request["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(Path(str(request["directory"])))
    sys.argv = ["hookline", *arguments]


if __name__ == "__main__":
    main()
