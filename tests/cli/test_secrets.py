"""Tokens and sign-in links are printed only on a terminal or on request, because other output may be stored in files."""

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
            said.append(await running.line_with("token --link"))  # The output says how to sign in.
        done = await running.stop(signal.SIGTERM)
    printed = "\n".join([*said, done.out, done.err])
    assert SECRET.search(printed) is None, printed
    assert JWT_SECRET not in printed
    assert secret_key not in printed


@asynccontextmanager
async def on_a_terminal(cli: Cli, *arguments: str, until: str) -> AsyncIterator[str]:
    """Run the command on a terminal. Yield the output up to and including the text `until`."""
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
        # Read the terminal, because a full buffer would block the command while it ends.
        draining = asyncio.create_task(asyncio.to_thread(_drain, ours))
        await process.wait()
        await draining
        os.close(ours)


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # Linux raises this error when the other end of the terminal is closed.
        pass


async def test_on_a_terminal_serve_prints_a_link_that_signs_in_once(cli: Cli) -> None:
    """A sign-in link that was used stays invalid after a restart. The output contains no other secret."""
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
async def test_a_public_server_or_json_output_prints_no_secret_on_a_terminal(
    cli: Cli, settings: dict[str, str]
) -> None:
    """No secret is printed if the server accepts connections from other hosts, or if the output is JSON."""
    served, more = cli.using(HOOKLINE_PORT=free_port(), **settings), () if settings else ("--json",)
    until = "listen --register" if settings else "}"
    async with on_a_terminal(served, "serve", *more, until=until) as printed:
        assert SECRET.search(printed) is None, printed


async def test_on_a_terminal_the_demo_shows_its_links(cli: Cli) -> None:
    async with on_a_terminal(cli, "demo", "--port", "0", until="Ctrl-C ends it") as printed:
        assert "/login#token=hk_" in printed
        assert "/login#key=" in printed


# ── secrets printed on request ────────────────────────────────────────────────────────────────────────────────────


async def test_a_token_is_valid_for_days_and_the_command_says_so(cli: Cli, scene: Scene) -> None:
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
async def test_a_link_is_printed_on_request(cli: Cli, scene: Scene) -> None:
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


async def test_a_link_gives_access_to_the_whole_dashboard(cli: Cli, scene: Scene) -> None:
    (await cli("token", "--link", "--app", scene.app.id)).refused(2, "--link", "--app")
    (await cli("token", "--link", "--days", "3")).refused(2, "--link", "--days")
