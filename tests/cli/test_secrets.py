"""Where tokens and links that sign in are printed: on a terminal, or where they were asked for. Other output is kept in files."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from hookline import clock, ids
from hookline.security import tokens
from tests.cli.conftest import JWT_SECRET, both_engines
from tests.dashboard.client import Client
from tests.support.cli import COMMAND, Cli
from tests.support.ports import free_port
from tests.support.scene import Scene

SECRET = re.compile(r"eyJ[\w-]{8}|once_\w|hk_\w|whsec_\w|#(?:token|key)=")
LINK = re.compile(r"http://[^/\s]+/login#token=(once_\S+)")


STAYING = {
    "serve": ("127.0.0.1", "serve"),
    "serve to others": ("0.0.0.0", "serve"),
    "serve to a program": ("127.0.0.1", "serve", "--json"),
    "listen": ("127.0.0.1", "listen", "--port", "0", "--register", "demo"),
    "demo": ("127.0.0.1", "demo", "--port", "0"),
}


@pytest.mark.parametrize(("host", "arguments"), [(host, rest) for host, *rest in STAYING.values()], ids=STAYING)
async def test_no_command_that_stays_prints_a_secret_into_a_file(
    cli: Cli, scene: Scene, secret_key: str, host: str, arguments: list[str]
) -> None:
    served = cli.using(HOOKLINE_PORT=free_port(), HOOKLINE_HOST=host, HOOKLINE_LOG_LEVEL="debug")
    async with served.running(*arguments) as running:
        said = [await running.line()]
        if arguments == ["serve"]:
            said.append(await running.line_with("token --link"))  # how to get in
        done = await running.stop(signal.SIGTERM)
    printed = "\n".join([*said, done.out, done.err])
    assert SECRET.search(printed) is None, printed
    assert JWT_SECRET not in printed
    assert secret_key not in printed


@asynccontextmanager
async def on_a_terminal(cli: Cli, *arguments: str, until: str) -> AsyncIterator[str]:
    """What it has printed by then."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, env=cli.environment, cwd=cli.directory, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        printed = b""
        while until.encode() not in printed:
            printed += await asyncio.to_thread(os.read, ours, 4096)
        yield printed.decode()
    finally:
        process.send_signal(signal.SIGTERM)
        draining = asyncio.create_task(asyncio.to_thread(_drain, ours))  # or its last words would have no room
        await process.wait()
        await draining
        os.close(ours)


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # nobody is at the other end any more
        pass


async def test_on_a_terminal_serve_prints_a_link_that_signs_in_once(cli: Cli) -> None:
    """Also across a restart; and nothing else that opens anything."""
    served = cli.using(HOOKLINE_PORT=free_port())
    async with on_a_terminal(served, "serve", until="listen --register") as printed:
        [link] = LINK.findall(printed)
        assert SECRET.search(printed.replace(link, "").replace("#token=", "")) is None
        grant = tokens.read_link((JWT_SECRET,), link, clock.wall())
        assert grant.expires_at - clock.wall() <= timedelta(minutes=10, seconds=1)
        address = urlsplit(printed.partition("address")[2].split()[0]).netloc
        assert (await Client(address).sign_in(token=link)).location == "/"
        assert (await Client(address).sign_in(token=link)).status == 401
    async with on_a_terminal(served, "serve", until="listen --register") as printed:
        assert (await Client(address).sign_in(token=link)).status == 401
        assert (await Client(address).sign_in(token=LINK.findall(printed)[0])).location == "/"


@pytest.mark.parametrize("settings", [{"HOOKLINE_HOST": "0.0.0.0"}, {}], ids=["for others too", "--json"])
async def test_a_terminal_alone_is_not_enough(cli: Cli, settings: dict[str, str]) -> None:
    """Nor where others reach the server, whose terminal is rarely its owner's; nor where a program was to read it."""
    served, more = cli.using(HOOKLINE_PORT=free_port(), **settings), () if settings else ("--json",)
    until = "listen --register" if settings else "}"
    async with on_a_terminal(served, "serve", *more, until=until) as printed:
        assert SECRET.search(printed) is None, printed


async def test_on_a_terminal_the_demo_shows_its_links(cli: Cli) -> None:
    async with on_a_terminal(cli, "demo", "--port", "0", until="Ctrl-C ends it") as printed:
        assert "/login#token=hk_" in printed
        assert "/login#key=" in printed


# ── where they were asked for ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_token_lives_for_days_and_says_so_beside_it(cli: Cli, scene: Scene) -> None:
    for arguments, days in (
        ((), 30),
        (("--app", scene.app.id), 28),
        (("--days", "3650"), 3650),
        (("--days", "0.5"), 0.5),
    ):
        made = await cli("token", *arguments)
        assert made.out.count("\n") == 1
        grant = tokens.read(JWT_SECRET, made.out.strip(), clock.wall())
        assert abs(grant.expires_at - grant.issued_at - timedelta(days=days)) < timedelta(seconds=2)
        assert re.fullmatch(rf"valid until {grant.expires_at:%Y-%m-%d} \d\d:\d\d UTC\n", made.err), made
        document = await cli.json("token", *arguments)
        assert set(document) == {"token", "orgId", "appId", "expiresAt"}


@both_engines
async def test_a_link_is_printed_for_whoever_asks(cli: Cli, scene: Scene) -> None:
    served = cli.using(HOOKLINE_PORT=free_port())
    async with served.running("serve", "--json") as server:
        document = await server.json_line()
        assert set(document) == {"address", "role", "processes", "outboxes"}
        address = document["address"]
        made = await served("token", "--link")
        assert made.err.startswith("signs in once, until "), made
        [link] = LINK.findall(made.out)
        assert made.out == f"{address}/login#token={link}\n"
        assert (await Client(urlsplit(address).netloc).sign_in(token=link)).location == "/"
        other = await served.using(HOOKLINE_PUBLIC_URL="https://hooks.example.com").json("token", "--link")
        assert other["url"].startswith("https://hooks.example.com/login#token=once_")
        assert set(other) == {"url", "orgId", "appId", "expiresAt"}
    assert tokens.read_link((JWT_SECRET,), link, clock.wall()).org_id == ids.DEFAULT_ORG


async def test_a_link_is_for_the_whole_dashboard(cli: Cli, scene: Scene) -> None:
    (await cli("token", "--link", "--app", scene.app.id)).refused(2, "--link", "--app")
    (await cli("token", "--link", "--days", "3")).refused(2, "--link", "--days")
