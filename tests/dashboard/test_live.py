"""Live updates: the browser requests the page's own address as a stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec
import pytest
from starlette.responses import StreamingResponse

from hookline.dashboard import components, live
from hookline.errors import NotFound
from hookline.model.catalogue import Application
from hookline.store import Store
from hookline.web.errors import Refused
from hookline.web.html import Safe, tag
from tests.dashboard.client import Client
from tests.dashboard.conftest import Enter
from tests.dashboard.markup import parse
from tests.support import factory

NOW = datetime(2025, 11, 15, 20, 41, tzinfo=UTC)
SOON = 60.0  # seconds until a test gives up waiting for an event


class Stream:
    """Reads a stream of events as a browser does."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def head(self) -> str:
        return (await self._reader.readuntil(b"\r\n\r\n")).decode()

    async def parts(self) -> dict[str, str]:
        """Return the parts of the next event that has any."""
        async with asyncio.timeout(SOON):
            while True:
                line = await self._reader.readline()
                assert line, "the stream must not end before the next event"
                if line.startswith(b"data: "):
                    return msgspec.json.decode(line.removeprefix(b"data: "), type=dict[str, str])

    async def end(self) -> None:
        async with asyncio.timeout(SOON):
            await self._reader.read()


@asynccontextmanager
async def streaming(client: Client, path: str) -> AsyncIterator[Stream]:
    host, port = client.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**22)
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in client.cookies.items())
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: {client.address}\r\nAccept: {live.MEDIA}\r\nCookie: {cookies}\r\n"
        "Connection: close\r\n\r\n".encode()
    )
    try:
        yield Stream(reader)
    finally:
        writer.close()


# ── over the wire ──


async def test_the_stream_sends_every_live_part_and_then_changes(
    operator: Client, store: Store, app: Application
) -> None:
    page = await operator.page("/applications")
    on_page = {node["id"] for node in page.walk() if (node.get("id") or "").startswith("live-")}
    async with streaming(operator, "/applications") as stream:
        head = await stream.head()
        assert " 200 " in head
        assert live.MEDIA in head
        assert "no-store" in head
        first = await stream.parts()
        assert first.keys() == on_page
        assert app.name in first["live-applications"]

        added = await store.catalogue.create_application(app.org_id, factory.new_application(name="Acme & Söhne"))
        changed = await stream.parts()
        shown = parse(changed["live-applications"])
        assert added.name in shown.text
        assert shown.first("div")["id"] == "live-applications"


async def test_the_stream_ends_at_sign_out(operator: Client) -> None:
    async with streaming(operator, "/applications") as stream:
        await stream.parts()
        cookies = dict(operator.cookies)
        await operator.post("/logout")
        await stream.end()
    operator.cookies = cookies
    async with streaming(operator, "/applications") as stream:
        assert " 401 " in await stream.head()


async def test_a_page_without_live_parts_has_no_stream(chief: Client) -> None:
    shown = await chief.get("/settings", accept=live.MEDIA)
    assert shown.status == 406


async def test_strangers_get_no_stream(stranger: Client) -> None:
    assert (await stranger.get("/", accept=live.MEDIA)).status == 401


async def test_a_customers_stream_has_only_their_own_application(
    portal: Client, app: Application, other_app: Application
) -> None:
    async with streaming(portal, f"/portal?app={other_app.id}") as stream:
        told = "".join((await stream.parts()).values())
    assert other_app.id not in told


# ── content of the events ──


@pytest.fixture
def leaving() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
async def streams(leaving: asyncio.Event) -> live.Streams:
    return live.Streams(leaving, asyncio.get_running_loop().time)


def events(streams: live.Streams, read: live.Read, holder: str = "somebody") -> AsyncIterator[bytes]:
    answer = streams.stream({holder: live.MAX_PER_SESSION}, read, 0.001)
    assert isinstance(answer, StreamingResponse)
    return cast(AsyncIterator[bytes], answer.body_iterator)


def told(event: bytes) -> dict[str, str]:
    return msgspec.json.decode(event.partition(b"data: ")[2].strip(), type=dict[str, str])


async def test_only_what_changed_is_sent(streams: live.Streams) -> None:
    numbers = iter(range(10))

    async def read() -> live.Regions:
        return {"live-a": tag("div", "same"), "live-b": tag("div", next(numbers) // 2)}

    found = events(streams, read)
    assert (await anext(found)).startswith(b"retry: ")
    assert told(await anext(found)) == {"live-a": "<div>same</div>", "live-b": "<div>0</div>"}
    assert await anext(found) == b": still here\n\n"
    assert told(await anext(found)) == {"live-b": "<div>1</div>"}


async def test_a_change_of_an_age_alone_is_not_sent(streams: live.Streams) -> None:
    ages = iter([1, 2, 3])
    at = iter([NOW, NOW, NOW + timedelta(seconds=1)])

    async def read() -> live.Regions:
        now = NOW + timedelta(minutes=next(ages))
        return {"live-a": tag("div", components.ago(next(at), now))}

    found = events(streams, read)
    await anext(found)
    assert "1 min ago" in told(await anext(found))["live-a"]
    assert await anext(found) == b": still here\n\n"
    assert "2 min ago" in told(await anext(found))["live-a"]


async def test_a_line_end_in_a_text_does_not_end_the_event(streams: live.Streams) -> None:
    async def read() -> live.Regions:
        return {"live-a": tag("pre", "one\n\ntwo\r\n\u2028three")}

    found = events(streams, read)
    await anext(found)
    event = await anext(found)
    assert event.count(b"\n\n") == 1
    assert told(event) == {"live-a": "<pre>one\n\ntwo\r\n\u2028three</pre>"}


async def test_the_stream_ends_when_the_page_is_gone(streams: live.Streams) -> None:
    async def read() -> live.Regions:
        raise NotFound("it was deleted")

    assert [event async for event in events(streams, read)] == [b"retry: 2000\n\n"]


async def test_the_stream_ends_when_the_server_stops(streams: live.Streams, leaving: asyncio.Event) -> None:
    async def read() -> live.Regions:
        return {}

    answer = streams.stream({"somebody": live.MAX_PER_SESSION}, read, 3600)
    assert isinstance(answer, StreamingResponse)
    found = cast(AsyncIterator[bytes], answer.body_iterator)
    await anext(found)
    await anext(found)
    leaving.set()
    async with asyncio.timeout(SOON):
        assert [event async for event in found] == []


async def test_the_number_of_streams_is_limited_and_ended_ones_make_room(streams: live.Streams) -> None:
    async def read() -> live.Regions:
        return {"live-a": Safe("")}

    opened = [events(streams, read) for _ in range(live.MAX_PER_SESSION)]
    for each in opened:
        await anext(each)
    with pytest.raises(Refused):
        events(streams, read)
    await anext(events(streams, read, "somebody else"))
    await opened[0].aclose()  # type: ignore[attr-defined]
    await anext(events(streams, read))


async def test_many_sessions_of_one_customer_leave_room_for_others(
    enter: Enter, operator: Client, app: Application, other_app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of sessions can use one portal link, so the limit of streams counts all sessions of an application."""
    monkeypatch.setattr(live, "MAX_PER_APPLICATION", 2)
    monkeypatch.setattr(live, "MAX_PER_ORGANIZATION", 3)
    async with AsyncExitStack() as opened:

        async def status(client: Client, path: str) -> str:
            stream = await opened.enter_async_context(streaming(client, path))
            head = await stream.head()
            if " 200 " in head:
                await stream.parts()  # a stream counts from its first event on
            return head.split()[1]

        found = [await status(await enter(app=app), "/portal/endpoints") for _ in range(3)]
        assert found == ["200", "200", "429"]
        found = [await status(await enter(app=other_app), "/portal/endpoints") for _ in range(2)]
        assert found == ["200", "429"]
        found = [await status(operator, "/endpoints") for _ in range(4)]
        assert found == ["200", "200", "200", "429"]
