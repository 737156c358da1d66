"""The supervisor replaces a process whose event loop is blocked. It does not replace a process that got no CPU time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookline.engine.sender import process as sender_process
from hookline.model.states import DeliveryState
from hookline.server import supervise, supervised_worker
from hookline.server.supervise import WORKER, Supervisor
from hookline.services.schemas import pool as schema_pool
from tests.support.cli import COMMAND, Cli
from tests.support.ports import free_port
from tests.support.processes import PATIENT, environment
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene

# A process in place of a worker. It sends heartbeats as a worker does, and sends its process id over a socket when it
# is ready.
STAND_IN = """
import asyncio, os, signal, sys
from hookline.server import supervised_worker
supervised_worker.BEAT = 0.05

async def live():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with supervised_worker.tied_to_supervisor(stop):
        _, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
        writer.write(b"%d\\n" % os.getpid())
        await stop.wait()

asyncio.run(live())
"""


async def test_a_blocked_process_is_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervised_worker, "BEAT", 0.05)
    born: asyncio.Queue[int] = asyncio.Queue()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        born.put_nowait(int(await reader.readline()))
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    command = (sys.executable, "-c", STAND_IN, str(server.sockets[0].getsockname()[1]))
    stop = asyncio.Event()
    running = asyncio.create_task(Supervisor(1, grace=5, command=command, max_missed=60).run(stop))
    stopped = await born.get()
    os.kill(stopped, signal.SIGSTOP)
    second = await born.get()
    assert second != stopped
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)
    assert "worker_process_stuck" in capsys.readouterr().out
    stop.set()
    await running
    server.close()


async def test_time_in_which_the_supervisor_was_suspended_does_not_count_as_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervised_worker, "BEAT", 0.01)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b".")
        silence = asyncio.create_task(supervise.wait_until_silent(ours, 20))
        await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - blocks the event loop for more than twenty heartbeats
        for _ in range(10):
            await asyncio.sleep(0)
        assert not silence.done()
        theirs.send(b".")
        await asyncio.wait_for(silence, 60)  # After this heartbeat the process stays silent, so the wait ends.


async def test_the_supervisor_waits_without_limit_for_the_first_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """When many processes start at once, their imports may take minutes."""
    monkeypatch.setattr(supervised_worker, "BEAT", 0.001)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        silence = asyncio.create_task(supervise.wait_until_silent(ours, 1))
        await asyncio.wait({silence}, timeout=0.1)
        assert not silence.done()
        theirs.send(b".")
        await asyncio.wait_for(silence, 60)


async def test_a_worker_accepts_a_pipe_from_a_supervisor_of_the_previous_release() -> None:
    code = """
import asyncio
from hookline.server import supervised_worker

async def live():
    stop = asyncio.Event()
    async with supervised_worker.tied_to_supervisor(stop):
        print("lives", flush=True)
        await stop.wait()

asyncio.run(live())
"""
    its, ours = os.pipe()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=its, stdout=asyncio.subprocess.PIPE)
    os.close(its)
    assert child.stdout is not None
    assert await asyncio.wait_for(child.stdout.readline(), 60) == b"lives\n"
    os.close(ours)
    await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 0


@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_worker_sends_heartbeats_and_ends_when_the_socket_is_closed(database_url: str, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, (tmp_path / "log").open("wb") as log:
        with theirs:
            worker = await asyncio.create_subprocess_exec(
                *WORKER, env=environment(database_url), stdin=theirs.fileno(), stdout=log, stderr=log
            )
        try:
            for _ in range(2):
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ours, 1), 60) == b"."
            ours.close()
            assert await asyncio.wait_for(worker.wait(), 60) == 0, (tmp_path / "log").read_text()
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()


# ── SIGTERM to the whole process group, as systemd sends it ───────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_a_stop_signal_to_the_process_group_lets_workers_finish_their_requests(cli: Cli, scene: Scene) -> None:
    """The group signal stops the workers. The supervisor then stops them too, so each worker gets SIGTERM twice."""
    answer, port = threading.Event(), free_port()
    with Receiver() as receiver:
        receiver.behave(Behaviour(answer_when=answer))
        await scene.endpoint(url=receiver.url)
        messages = await scene.send(8)
        settings = PATIENT | {"HOOKLINE_PORT": port, "HOOKLINE_SHUTDOWN_TIMEOUT": "60s"}
        server = await asyncio.create_subprocess_exec(
            *COMMAND, "serve", "--processes", "2", env=cli.environment | settings, cwd=cli.directory,
            start_new_session=True, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await receiver.arrived(8)
            os.killpg(server.pid, signal.SIGTERM)
            await _refused(int(port))  # the server has stopped, and the supervisor stops its workers at the same time
            await asyncio.sleep(0.5)  # nothing tells when a worker has handled a second signal
            answer.set()
            assert await asyncio.wait_for(server.wait(), 60) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
    assert {await scene.state(message) for message in messages} == {DeliveryState.DELIVERED}
    assert len(receiver.requests) == 8


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_repeated_stop_signal_does_not_abort_requests(cli: Cli, scene: Scene, number: signal.Signals) -> None:
    answer = threading.Event()
    async with _in_flight(cli, scene, answer) as (worker, message):
        for _ in range(3):
            worker.send_signal(number)
            await asyncio.sleep(0.2)  # nothing tells when a process has handled a signal
        answer.set()
        assert await asyncio.wait_for(worker.wait(), 60) == 0
    assert await scene.state(message) == DeliveryState.DELIVERED


async def test_a_second_ctrl_c_ends_the_process_at_once(cli: Cli, scene: Scene) -> None:
    async with _in_flight(cli, scene, threading.Event()) as (worker, message):
        while worker.returncode is None:
            worker.send_signal(signal.SIGINT)
            await asyncio.wait({asyncio.create_task(worker.wait())}, timeout=0.2)
    assert worker.returncode in (130, -signal.SIGINT)  # -SIGINT if another signal arrives while Python exits
    assert await scene.state(message) == DeliveryState.DELIVERING


@contextlib.asynccontextmanager
async def _in_flight(
    cli: Cli, scene: Scene, answer: threading.Event
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Start a worker. When its request has arrived at a receiver, yield the worker and the message."""
    with Receiver() as receiver:
        receiver.behave(Behaviour(answer_when=answer))
        await scene.endpoint(url=receiver.url)
        (message,) = await scene.send()
        settings = PATIENT | {"HOOKLINE_SHUTDOWN_TIMEOUT": "60s"}
        worker = await asyncio.create_subprocess_exec(*COMMAND, "worker", env=cli.environment | settings)
        await receiver.arrived(1)
        yield worker, message
        assert worker.returncode is not None


@pytest.mark.parametrize("command", [WORKER, sender_process.COMMAND, schema_pool.COMMAND])
async def test_child_processes_import_nothing_from_the_working_directory(
    alone: Cli, command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "logging.py").write_text("raise SystemExit(77)")
    child = await asyncio.create_subprocess_exec(
        *command, env=alone.environment, cwd=tmp_path, stdin=asyncio.subprocess.DEVNULL
    )
    assert await asyncio.wait_for(child.wait(), 60) != 77


async def _refused(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return
        writer.close()
        await asyncio.sleep(0.02)
