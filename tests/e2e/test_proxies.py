"""Hookline behind nginx and Caddy, if installed: each request arrives once, unchanged, with the address of its client.

`HOOKLINE_TEST_PROXY_TRIES=2000` makes that many attempts to smuggle requests; the suite makes a twentieth of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.client import FORM, Client
from tests.support.cli import Cli
from tests.support.ports import free_port

TRIES = int(os.environ.get("HOOKLINE_TEST_PROXY_TRIES", "100"))
PROGRAMS = {
    "nginx": shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin"),
    "caddy": shutil.which("caddy"),
}

_NGINX = """
daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{}}
http {{
  access_log off; large_client_header_buffers 4 32k;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
  scgi_temp_path {dir}/s;
  upstream hookline {{ server {address}; keepalive 1; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://hookline; proxy_http_version 1.1; proxy_buffers 8 32k; proxy_buffer_size 32k;
      proxy_set_header Host $http_host;
      proxy_set_header Connection $http_connection; proxy_set_header Upgrade $http_upgrade;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto https;
    }}
  }}
}}
"""
_CADDY = """
{{
  admin off
  auto_https off
  storage file_system {dir}
}}
http://:{port} {{
  bind 127.0.0.1
  reverse_proxy {address}
}}
"""


@pytest.fixture(params=["nginx", "caddy"])
def program(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if PROGRAMS[name] is None:
        pytest.skip(f"{name} is not installed")
    return name


@contextmanager
def proxy(name: str, directory: Path, address: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a proxy for this address. Return its process and port."""
    port = int(free_port())
    settings = directory / name
    settings.write_text({"nginx": _NGINX, "caddy": _CADDY}[name].format(dir=directory, address=address, port=port))
    program = PROGRAMS[name]
    assert program is not None
    arguments = {"nginx": ["-c", settings, "-e", directory / "error.log"]}.get(
        name, ["run", "--config", settings, "--adapter", "caddyfile"]
    )
    home = {**os.environ, "HOME": str(directory), "XDG_DATA_HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen([program, *arguments], env=home, stdout=output, stderr=output)
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait(30)


class PrintedRequests:
    """The server behind the proxy, and the requests that it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            return json.loads(await self._process.stdout.readline())


@asynccontextmanager
async def behind(name: str, directory: Path, *named: str) -> AsyncIterator[tuple[PrintedRequests, int]]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.support.request_printer", *named)
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe)
    try:
        noting = PrintedRequests(process)
        with proxy(name, directory, f"127.0.0.1:{await noting.line()}") as (started, port):
            await _up(started, port)
            yield noting, port
    finally:
        process.terminate()
        await process.wait()


async def _up(process: subprocess.Popen[bytes], port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            assert process.poll() is None, "the proxy did not start"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)  # another program starts, so there is no event to wait for
                continue
            writer.close()
            return


async def asked(port: int, sent: str) -> bytes:
    """Send a request and return the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
    try:
        writer.write(sent.encode())
        async with asyncio.timeout(60):
            return await reader.readline()
    finally:
        writer.close()


@pytest.mark.timeout(120 + TRIES // 5)
async def test_no_body_becomes_a_request(program: str, tmp_path: Path) -> None:
    """The last bytes of the head come after the first 4096 bytes, which Caddy sends separately. Whether the server
    reads them separately is random, and must not matter."""
    hidden = "DELETE /smuggled HTTP/1.1\r\nhost: a\r\nx: "
    body = "\r\nupgrade:" * (len(hidden) // 2) + hidden
    async with behind(program, tmp_path) as (noting, port):
        await asked(port, _post(0, 0, "", body))
        bare = (await noting.line())["head"]
        for number in range(TRIES):
            offer = "connection: upgrade\r\nupgrade: h2c\r\n" if number % 4 == 3 else ""
            added = len(offer) if program == "caddy" else 0
            pad = 4096 + 1 + number % 3 - bare - added
            for sent in (_post(number, pad, offer, body), f"GET /next/{number:04} HTTP/1.1\r\nhost: a\r\n\r\n"):
                assert b" 200 " in await asked(port, sent)
                noted = await noting.line()
                method, path, _ = sent.split(" ", 2)
                assert (noted["method"], noted["path"]) == (method, path), number
                assert noted["body"] == (body if method == "POST" else ""), number


def _post(number: int, pad: int, offer: str, body: str) -> str:
    head = f"POST /bad/{number:04} HTTP/1.1\r\nhost: a\r\n{offer}x-pad: {'p' * pad}\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n{body}"


@pytest.mark.parametrize("named", [["127.0.0.1/32"], []], ids=["named", "not named"])
async def test_the_clients_address_comes_from_a_trusted_proxy(program: str, tmp_path: Path, named: list[str]) -> None:
    invented = "x-forwarded-for: 203.0.113.9\r\nforwarded: for=203.0.113.9;proto=https\r\nx-real-ip: 203.0.113.9"
    async with behind(program, tmp_path, *named) as (noting, port):
        assert b" 200 " in await asked(port, f"GET / HTTP/1.1\r\nhost: a\r\n{invented}\r\n\r\n")
        caller = (await noting.line())["caller"]
    scheme = "https" if named and program == "nginx" else "http"  # only nginx is configured to say https
    assert caller == ["127.0.0.2" if named else "127.0.0.1", scheme]


async def test_the_dashboard_works_behind_an_untrusted_proxy(program: str, tmp_path: Path) -> None:
    """The server gets neither the client's address nor the scheme. Forms still count as same-origin, and cookies still
    work."""
    cli = Cli({"HOOKLINE_PORT": free_port()}, str(tmp_path))
    async with cli.running("serve", "--role", "api", "--json") as running:
        printed, made = await running.json_line(), await cli.json("token")
        with proxy(program, tmp_path, printed["address"].removeprefix("http://")) as (process, port):
            await _up(process, port)
            browser = Client(f"127.0.0.1:{port}")
            page = (await browser.get("/login")).page()
            form = f"csrf={page.first('input', name='csrf')['value']}&token={made['token']}".encode()
            for origin, status in (("https://evil.example.com", 403), (f"https://127.0.0.1:{port}", 303)):
                headers = {"content-type": FORM, "origin": origin}
                assert (await browser.send("POST", "/login", form, headers)).status == status
            assert (await browser.get("/audit")).page().text
