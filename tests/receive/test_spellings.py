"""No spelling of a path bypasses the verifier or changes the key. Each signed request runs a handler at most once.

Each framework gets the same requests without and with a guard. A request that reaches a handler without a guard must
not reach it with one. `HOOKLINE_TEST_SPELLINGS=20000` sends that many requests to each framework and each guard. By
default the suite sends fewer.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from contextlib import closing, suppress

import pytest

from tests.receive import senders
from tests.receive.guarded_apps import APPS, Guard, Stage
from tests.receive.spellings import FIXED, METHODS, Call, Sent, requests
from tests.receive.web import Server, asgi_server, wsgi_server

COUNT = int(os.environ.get("HOOKLINE_TEST_SPELLINGS", "250"))
SEED = 20_261_116
PATIENCE = 300 + COUNT // 10

# Some servers or routers end or split a path at these bytes. The full run sends all bytes.
ODD_BYTES = [*range(0x21), 0x25, 0x2E, 0x2F, 0x3B, 0x5C, 0x7F, 0x85, 0xA0, 0xFF]
NEIGHBOURS = [
    *(f"{path}%{byte:02x}" for path in FIXED for byte in (ODD_BYTES if COUNT < 1000 else range(256))),
    *("/hooks/files%0a", "/hooks/named/%0a", "//hooks", "/hooks//", "hooks", "/hooks/mountedx", "/hooks/mounted%0a"),
]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Hide the log, because each refusal is one line in it."""
    caplog.set_level(logging.CRITICAL, "hookline.receive")


SENT = [
    *(Sent(method, "/hooks%0a", "") for method in METHODS),
    *(Sent(METHODS[at % len(METHODS)], path, "") for at, path in enumerate(NEIGHBOURS)),
    *requests(COUNT, SEED),
]


async def reached(call: Call, effects: Counter[str], sent: Sent, headers: dict[str, str] | None = None) -> str | None:
    """Send the request and return the name of the handler that ran."""
    before = effects.copy()
    await call(sent, headers or {}, b"{}")
    ran = effects - before
    assert ran.total() <= 1
    return next(iter(ran), None)


async def routed_to(name: str, keys_file: str) -> dict[Sent, str]:
    """Return the handler that the framework runs for each request, without a guard."""
    bare = Stage("none", keys_file, Counter())
    with APPS[name](bare) as call:
        found = {sent: await reached(call, bare.effects, sent) for sent in SENT}
    return {sent: handler for sent, handler in found.items() if handler is not None}


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("guard", ["middleware", "handler"])
@pytest.mark.parametrize("name", APPS)
async def test_no_spelling_is_a_way_around(name: str, guard: Guard, keys_file: str) -> None:
    routed, guarded = await routed_to(name, keys_file), Stage(guard, keys_file, Counter())
    with APPS[name](guarded) as call:
        ways = [sent for sent in SENT if await reached(call, guarded.effects, sent)]
    odd = [sent for sent in routed if sent.target not in FIXED]
    print(
        f"{name}, {guard}: {len(SENT):,} sent, {len(routed):,} of them routed to a handler, {len(odd):,} oddly spelled"
    )
    assert ways == []
    assert len(odd) > COUNT // 50  # The test would prove nothing if the router refused every unusual path.


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("name", APPS)
async def test_every_spelling_has_the_same_key(name: str, keys_file: str) -> None:
    """An attacker sends a captured signed request again, with another path, root path and method."""
    routed, guarded = await routed_to(name, keys_file), Stage("middleware", keys_file, Counter())
    repeated = [sent for sent, handler in routed.items() if handler in FIXED]
    signed = senders.standard(senders.WHSEC, b"{}", str(int(time.time()) + 250)).headers
    with APPS[name](guarded) as call:
        for sent in repeated:
            await reached(call, guarded.effects, sent, signed)
    print(f"{name}: {len(repeated):,} repeated, with {len({sent.root for sent in repeated})} roots")
    assert guarded.effects == dict.fromkeys(FIXED, 1)


# ── over sockets ──────────────────────────────────────────────────────────────────────────────────────────────────

TARGETS = [
    *(b"/hooks%0a", b"/hooks%0A", b"/hooks%0d%0a", b"//hooks", b"/hooks//", b"hooks", b"/%68ooks%0a", b"/x/../hooks"),
    *(b"http://shop.test/hooks", b"http://shop.test/hooks%0a", b"/hooks?x=1", b"/hooks%0a?x=1", b"/hooks;x", b"/HOOKS"),
    *(b"/hooks%00", b"/hooks\x00", b"/hooks\t", b"/hooks\xff", b"/hooks\\", b"/hooks%2f", b"/hooks#x", b"*"),
]


def send_raw(server: Server, method: bytes, target: bytes) -> None:
    """Send a request with raw bytes and read until the connection ends. Any answer is accepted."""
    with closing(server.connect()) as connection:
        connection.sendall(
            b"%b %b HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}" % (method, target)
        )
        with suppress(ConnectionError), connection.makefile("rb") as stream:
            stream.read()


@pytest.mark.parametrize("http", ["h11", "httptools"])
@pytest.mark.parametrize("guard", ["middleware", "handler"])
@pytest.mark.parametrize("name", ["starlette", "fastapi", "litestar"])
def test_raw_bytes_to_an_asgi_server(name: str, guard: Guard, http: str, keys_file: str) -> None:
    stage = Stage(guard, keys_file, Counter())
    with APPS[name](stage) as call, asgi_server(call.app, http=http, lifespan="off") as server:
        for target in TARGETS:
            send_raw(server, b"POST", target)
        for method in (*METHODS, "post"):
            send_raw(server, method.encode(), b"/hooks%0a")
    assert stage.effects == {}


@pytest.mark.parametrize("guard", ["middleware", "handler"])
@pytest.mark.parametrize("name", ["flask", "django-wsgi"])
def test_raw_bytes_to_a_wsgi_server(name: str, guard: Guard, keys_file: str) -> None:
    stage = Stage(guard, keys_file, Counter())
    with APPS[name](stage) as call, wsgi_server(call.app) as server:
        for target in TARGETS:
            send_raw(server, b"POST", target)
    assert stage.effects == {}
