"""The sender in its own process: each request gets a result, whichever process dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import uvloop

from hookline.engine.frames import Frames, frame
from hookline.engine.sender import process as sender_process
from hookline.engine.sender.loop import kept_connections
from hookline.engine.sender.process import SenderProcess
from hookline.engine.sender.protocol import SPARE_FILES, Request, Results, Settings
from hookline.model.attempts import Sent
from hookline.model.states import ErrorKind
from tests.support.names import NameServer
from tests.support.receiver import Behaviour, Receiver
from tests.support.sender_pid import children, sender_pid
from tests.support.sending import request

SETTINGS = Settings(allow_nets=("127.0.0.0/8",), slots=16, body_limit=1_000, connect_timeout=60.0)


class ClearableEvent(asyncio.Event):
    """An event whose `clear` can be awaited: it sets the second event `cleared`."""

    def __init__(self) -> None:
        super().__init__()
        self.cleared = asyncio.Event()

    def clear(self) -> None:
        super().clear()
        self.cleared.set()


class AwaitableSender:
    """A sender process whose results can be awaited."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self._results: dict[object, Sent] = {}
        self._news = asyncio.Event()
        self.sender = SenderProcess(settings, self._keep)

    def _keep(self, results: Results) -> None:
        self._results |= dict(results)
        self._news.set()

    async def send(self, *requests: Request) -> list[Sent]:
        self.sender.submit(requests)
        return await self.results(*requests)

    async def results(self, *requests: Request) -> list[Sent]:
        async with asyncio.timeout(60):
            while not all(one.ref in self._results for one in requests):
                self._news.clear()
                await self._news.wait()
        return [self._results[one.ref] for one in requests]

    def pid(self) -> int:
        return sender_pid()


async def _gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while _alive(pid):
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@pytest.fixture
async def awaitable() -> AsyncIterator[AwaitableSender]:
    one = AwaitableSender()
    await one.sender.start()
    yield one
    await one.sender.close(0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


async def test_it_is_ready_only_while_it_takes_requests(awaitable: AwaitableSender, receiver: Receiver) -> None:
    async with asyncio.timeout(60):
        await awaitable.sender.ready.wait()
    [sent] = await awaitable.send(request(receiver.url))
    assert sent.status == 200
    awaitable.sender.ready = ready = ClearableEvent()
    ready.set()
    os.kill(awaitable.pid(), signal.SIGKILL)
    async with asyncio.timeout(60):
        await ready.cleared.wait()
        await ready.wait()


async def test_each_request_gets_its_result(awaitable: AwaitableSender, receiver: Receiver) -> None:
    bodies = [os.urandom(size) for size in (1, 70_000, 3_000_000)]
    sent = await awaitable.send(*(request(receiver.url, body) for body in bodies))
    assert [one.status for one in sent] == [200, 200, 200]
    assert sorted(received.body for received in receiver.requests) == sorted(bodies)
    assert all(one.address and one.timing.total and one.started_at.tzinfo for one in sent)


async def test_the_guard_gets_the_allowed_networks(awaitable: AwaitableSender) -> None:
    [sent] = await awaitable.send(request("http://10.1.2.3/"))
    assert (sent.error, sent.untouched) == (ErrorKind.BLOCKED, True)


async def test_a_process_that_dies_is_replaced_and_its_requests_were_interrupted(
    awaitable: AwaitableSender, receiver: Receiver
) -> None:
    receiver.behave(Behaviour(hang=True))
    hanging = request(receiver.url)
    awaitable.sender.submit([hanging])
    await receiver.arrived(1)
    os.kill(awaitable.pid(), signal.SIGKILL)
    [lost] = await awaitable.results(hanging)
    assert (lost.error, lost.untouched) == (ErrorKind.INTERRUPTED, False)
    assert "may have arrived" in lost.detail

    receiver.behave(Behaviour())
    [sent] = await awaitable.send(request(receiver.url))
    assert sent.status == 200


async def test_only_requests_that_the_process_had_started_were_interrupted(receiver: Receiver) -> None:
    receiver.behave(Behaviour(hang=True), "/hangs")
    awaitable = AwaitableSender(msgspec.structs.replace(SETTINGS, slots=2))
    await awaitable.sender.start()
    await awaitable.send(*(request(receiver.url) for _ in range(20)))  # 20 requests use the two slots again and again
    requests = [request(f"{receiver.url}/hangs") for _ in range(5)]
    awaitable.sender.submit(requests)
    await receiver.arrived(22)
    os.kill(awaitable.pid(), signal.SIGKILL)
    lost = await awaitable.results(*requests)
    assert [sent.error for sent in lost] == [ErrorKind.INTERRUPTED] * 2 + [None] * 3
    assert {sent.status for sent in lost} == {None}
    await awaitable.sender.close(0)


async def test_a_request_that_waits_for_the_address_of_its_host_was_not_started(receiver: Receiver) -> None:
    receiver.behave(Behaviour(hang=True))
    with NameServer() as names:
        names.silence("slow.example")
        awaitable = AwaitableSender(msgspec.structs.replace(SETTINGS, dns_servers=(names.address,)))
        await awaitable.sender.start()
        unresolved, hanging = request("http://slow.example/"), request(receiver.url)
        awaitable.sender.submit([unresolved, hanging])
        await receiver.arrived(1)
        os.kill(awaitable.pid(), signal.SIGKILL)
        lost = await awaitable.results(unresolved, hanging)
        assert [sent.error for sent in lost] == [None, ErrorKind.INTERRUPTED]
        await awaitable.sender.close(0)


async def test_a_process_that_dies_whenever_it_starts_has_started_no_request(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_process, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    awaitable = AwaitableSender()
    await awaitable.sender.start()
    for _ in range(3):
        [sent] = await awaitable.send(request(receiver.url))
        assert (sent.status, sent.error) == (None, None)
    assert not awaitable.sender.ready.is_set()
    await awaitable.sender.close(0)
    assert receiver.requests == []


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_request_during_the_death_of_the_process_gets_a_result(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """uvloop transports raise when they are closed. The caller of submit would lose its requests."""

    async def scene() -> None:
        awaitable, late = AwaitableSender(), [request(receiver.url, b"x" * sender_process.MAX_FRAME) for _ in range(3)]
        lose = sender_process._Connection.connection_lost

        def lost(line: sender_process._Connection, error: Exception | None) -> None:
            asyncio.get_running_loop().call_soon(awaitable.sender.submit, late)  # before anybody notices the death
            lose(line, error)

        monkeypatch.setattr(sender_process._Connection, "connection_lost", lost)
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        await awaitable.sender.start()
        await awaitable.send(request(receiver.url))
        os.kill(awaitable.pid(), signal.SIGKILL)
        assert [sent.error for sent in await awaitable.results(*late)] == [None] * 3
        monkeypatch.undo()
        await awaitable.sender.close(0)
        assert faults == []

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scene())


async def test_a_process_that_no_longer_answers_is_replaced(
    awaitable: AwaitableSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_process, "STUCK_MARGIN", 0.0)
    await awaitable.send(request(receiver.url))
    os.kill(pid := awaitable.pid(), signal.SIGSTOP)
    [lost] = await awaitable.send(request(receiver.url, deadline=0.1))
    assert (lost.status, lost.error) == (None, None)  # the process did not start this request
    await _gone(pid)
    [sent] = await awaitable.send(request(receiver.url))
    assert sent.status == 200


async def test_signals_of_the_group_do_not_end_it(awaitable: AwaitableSender, receiver: Receiver) -> None:
    await awaitable.send(request(receiver.url))
    pid = awaitable.pid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    [sent] = await awaitable.send(request(receiver.url))
    assert (sent.status, awaitable.pid()) == (200, pid)


async def test_the_process_holds_no_secrets(
    awaitable: AwaitableSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKLINE_SECRET_KEY", "only the worker's")
    monkeypatch.setenv("PGPASSWORD", "only the worker's")
    monkeypatch.setenv("DATABASE_URL", "only the worker's")  # other variables in the environment of the worker
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/an authority of our own")
    await awaitable.send(request(receiver.url))
    os.kill(pid := awaitable.pid(), signal.SIGKILL)  # the next process starts with these in the worker's environment
    await _gone(pid)
    while (await awaitable.send(request(receiver.url)))[0].status is None:
        pass  # this request was written before the death of the process was noticed
    environment = _environment(awaitable.pid())
    assert b"PATH=" in environment
    assert b"SSL_CERT_FILE=" in environment
    assert b"only the worker" not in environment


async def test_large_requests_go_one_by_one(
    awaitable: AwaitableSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one frame all requests would be in memory several times, and a frame above 4 GiB cannot be written at all."""
    sizes: list[int] = []

    def noted(value: object) -> bytes:
        data = frame(value)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(sender_process, "frame", noted)
    large = sender_process.MAX_FRAME // 2 + 1
    requests = [request(receiver.url, os.urandom(size)) for size in (5, large, large, 3 * large, 7, 8)]
    sent = await awaitable.send(*requests)
    assert [one.status for one in sent] == [200] * len(requests)
    assert sorted(received.body for received in receiver.requests) == sorted(one.body for one in requests)
    frames = [size for size in sizes if size > 1000]
    assert len(frames) == 3
    assert max(frames) < 3 * large + 1000


async def test_shutdown_gives_up_hanging_requests(receiver: Receiver) -> None:
    receiver.behave(Behaviour(hang=True))
    awaitable, hanging = AwaitableSender(), request(receiver.url)
    await awaitable.sender.start()
    awaitable.sender.submit([hanging])
    await receiver.arrived(1)
    pid = awaitable.pid()
    await awaitable.sender.close(0.1)
    [sent] = await awaitable.results(hanging)
    assert (sent.error, sent.detail) == (ErrorKind.NETWORK, "waiting for the response: shutting down")
    await _gone(pid)
    with pytest.raises(RuntimeError):
        awaitable.sender.submit([hanging])


async def test_a_process_that_cannot_start_loses_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_process, "COMMAND", ("/nowhere/to/be/found",))
    awaitable, waiting = AwaitableSender(), request("http://127.0.0.1:9/")
    await awaitable.sender.start()
    awaitable.sender.submit([waiting])
    await asyncio.sleep(0)  # the sender tries to start its process
    await awaitable.sender.close(0)
    [sent] = await awaitable.results(waiting)
    assert (sent.status, sent.error) == (None, None)


WORKER = """
import asyncio
from hookline.engine.sender.protocol import Settings
from hookline.engine.sender.process import SenderProcess

async def main():
    sender = SenderProcess(Settings(slots=4, body_limit=10, connect_timeout=1.0), print)
    await sender.start()
    while sender._connection is None:
        await asyncio.sleep(0.01)
    print("up", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_it_ends_with_the_worker_even_if_that_was_killed() -> None:
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"up\n"
    [child] = children(worker.pid)
    worker.kill()
    await worker.wait()
    await _gone(child)


def test_frames_are_read_however_the_stream_is_cut() -> None:
    values: list[object] = [[1, "two", b"three" * 100], "a line", 2.5]
    stream = b"".join(frame(value) for value in values)
    for step in (1, 3, 7, len(stream)):
        frames = Frames()
        found = [body for at in range(0, len(stream), step) for body in frames.feed(stream[at : at + step])]
        assert [frame_of(body) for body in found] == [frame(value) for value in values]


def frame_of(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + body


async def test_idle_connections_to_many_hosts_leave_room_for_others() -> None:
    """Each process starts with a low limit of open files, as shells and services set it, and may raise it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = max(map(int, os.listdir("/proc/self/fd"))) + 20  # noqa: PTH208 - so that it can be started at all

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))  # type: ignore[index]
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "0.0.0.0") as server:
        port = server.sockets[0].getsockname()[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
        try:
            awaitable = AwaitableSender(msgspec.structs.replace(SETTINGS, slots=256))
            await awaitable.sender.start()
            await awaitable.send(request(f"http://127.0.9.1:{port}/"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        hosts = [f"127.0.{net}.{number}" for net in (9, 10, 11) for number in range(1, 201)]
        sent = await awaitable.send(*(request(f"http://{host}:{port}/") for host in hosts))
        assert {each.status for each in sent} == {200}
        await awaitable.sender.close(5)


@pytest.mark.parametrize("files", [256, 700, 1024, 4096, 10**6])
def test_kept_connections_fit_into_the_files_that_may_be_opened(files: int) -> None:
    kept = kept_connections(512, files)
    assert 1 <= kept <= 1024
    assert files < 512 + SPARE_FILES + 1 or kept + 512 + SPARE_FILES <= files
