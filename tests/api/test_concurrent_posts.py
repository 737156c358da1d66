"""Many identical POSTs with the same idempotency key at the same time create one message and get one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline import clock
from hookline.security import tokens
from hookline.store import Store
from tests.support import factory
from tests.support.ports import free_port
from tests.support.processes import Process, environment, running
from tests.support.scene import Scene

TWINS, ROUNDS = 25, 10


class Bodies:
    """The request bodies of one test round. Each round has new ones."""

    def __init__(self, scene: Scene) -> None:
        self.path = f"/api/v1/app/{scene.app.id}/msg"

    def one(self) -> tuple[str, dict[str, Any], int]:
        """Return the path, the body, and the number of messages that the request creates."""
        return self.path, {"eventType": "order.paid", "payload": {"n": factory.number()}}, 1

    def with_event_id(self) -> tuple[str, dict[str, Any], int]:
        path, body, count = self.one()
        return path, body | {"eventId": f"evt-{factory.number()}"}, count

    def batch(self) -> tuple[str, dict[str, Any], int]:
        items = [self.with_event_id()[1] for _ in range(20)]
        return f"{self.path}/batch", {"messages": [*items, {"eventType": "no payload"}, items[0]]}, 20


KINDS = ["one", "with_event_id", "batch"]


class Line:
    """A connection that is opened before its request is sent, so that a test can send many requests at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: str) -> Line:
        host, port = address.split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def post(self, path: str, token: str, key: str, body: bytes) -> tuple[int, Any]:
        head = (
            f"POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {token}\r\n"
            f"idempotency-key: {key}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        try:
            found = await asyncio.wait_for(self._reader.read(), 60)
        finally:
            self._writer.close()
        status, _, rest = found.partition(b"\r\n")
        return int(status.split()[1]), msgspec.json.decode(rest.partition(b"\r\n\r\n")[2])


async def post_twins(addresses: Sequence[str], token: str, path: str, bodies: Sequence[Any]) -> list[tuple[int, Any]]:
    """Send all bodies at once with one idempotency key, to each address in turn."""
    key = f"twins-{factory.number()}"
    lines = [await Line.open(addresses[number % len(addresses)]) for number in range(len(bodies))]
    posts = (line.post(path, token, key, msgspec.json.encode(body)) for line, body in zip(lines, bodies, strict=True))
    return await asyncio.gather(*posts)


async def check_rounds(scene: Scene, addresses: Sequence[str], token: str, kind: str) -> None:
    await scene.endpoint()
    made = Bodies(scene)
    expected = 0
    for _ in range(ROUNDS):
        path, body, count = getattr(made, kind)()
        found = await post_twins(addresses, token, path, [body] * TWINS)
        assert {status for status, _ in found} == {202}, found[:2]
        assert all(answer == found[0][1] for _, answer in found)
        expected += count
        assert await scene.raw.count("message") == await scene.raw.count("delivery") == expected


@pytest.mark.parametrize("kind", KINDS)
async def test_concurrent_identical_posts_in_one_process(scene: Scene, address: str, token: str, kind: str) -> None:
    await check_rounds(scene, [address], token, kind)


async def test_of_concurrent_posts_with_two_bodies_one_body_wins(scene: Scene, address: str, token: str) -> None:
    made = Bodies(scene)
    for _ in range(ROUNDS):
        path, body, _count = made.one()
        other = body | {"payload": "other"}
        found = await post_twins([address], token, path, [body, other] * 6)
        assert {status for status, _ in found} == {202, 422}
        assert len({answer["id"] for status, answer in found if status == 202}) == 1
    assert await scene.raw.count("message") == ROUNDS


async def test_concurrent_posts_with_a_used_event_id_are_all_refused(scene: Scene, address: str, token: str) -> None:
    await scene.send(event_id="taken")
    path, body, _ = Bodies(scene).one()
    found = await post_twins([address], token, path, [body | {"eventId": "taken"}] * TWINS)
    assert {status for status, _ in found} == {409}
    found = await post_twins([address], token, path, [body] * TWINS)
    assert {status for status, _ in found} == {202}


# ── across processes ──


on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)


@pytest.fixture
def env(database_url: str) -> dict[str, str]:
    return environment(database_url)


@pytest.fixture
async def fleet(store: Store, env: dict[str, str], tmp_path: Path) -> AsyncIterator[list[tuple[str, Process]]]:
    """Two API processes, each with its address."""
    with ExitStack() as stack:
        started = []
        for number in range(2):
            port = free_port()
            process = stack.enter_context(
                running(["serve", "--role", "api", "--json"], env | {"HOOKLINE_PORT": port}, tmp_path / f"{number}.log")
            )
            started.append((f"127.0.0.1:{port}", process))
        async with asyncio.timeout(60):
            for _, process in started:
                while '"address"' not in process.output():
                    assert process.running, process.output()
                    await asyncio.sleep(0.02)  # poll, because the process reports its address in a log file
        yield started


def _token(env: dict[str, str], scene: Scene) -> str:
    return tokens.issue(env["HOOKLINE_JWT_SECRET"], scene.organization.id, now=clock.wall())


@on_postgres
@pytest.mark.parametrize("kind", KINDS)
async def test_concurrent_identical_posts_in_two_processes(
    scene: Scene, fleet: list[tuple[str, Process]], env: dict[str, str], kind: str
) -> None:
    await check_rounds(scene, [address for address, _ in fleet], _token(env, scene), kind)


@on_postgres
@pytest.mark.parametrize("kind", KINDS)
async def test_a_process_that_is_killed_locks_no_key(
    scene: Scene, fleet: list[tuple[str, Process]], env: dict[str, str], kind: str
) -> None:
    """One of two processes is killed during the requests.

    All requests to the other process get the same answer, and so does a later retry.
    """
    (first, doomed), (second, _) = fleet
    path, body, count = getattr(Bodies(scene), kind)()
    token, key, raw = _token(env, scene), "killed", msgspec.json.encode(body)
    lines = [await Line.open(address) for address in (first, second) * TWINS]
    posts = [asyncio.create_task(line.post(path, token, key, raw)) for line in lines]
    await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
    doomed.kill()
    found = await asyncio.gather(*posts, return_exceptions=True)
    again = await (await Line.open(second)).post(path, token, key, raw)
    assert again[0] == 202
    assert all(answer == again for answer in found[1::2])
    assert all(answer == again for answer in found[::2] if not isinstance(answer, BaseException))
    assert await scene.raw.count("message") == count
