"""Forwarded headers: the server uses them only if a trusted proxy sent them, and ignores the parts that a caller can
forge."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from hookline import config
from hookline.config import parse
from hookline.errors import ConfigError
from hookline.model.catalogue import Application
from hookline.web.context import WebContext
from hookline.web.forwarded import MAX_WARNED, Forwarded, Proxies
from tests.api.conftest import Client, serving

NAMED = Proxies(map(ip_network, ("127.0.0.1", "10.1.0.0/16", "2001:db8:1::/48")))

CALLERS = {
    "203.0.113.9": "203.0.113.9",
    "1.2.3.4, 203.0.113.9": "203.0.113.9",
    "1.2.3.4,203.0.113.9, 10.1.2.3": "203.0.113.9",
    "203.0.113.9, 10.1.2.3,10.1.0.1, 127.0.0.1": "203.0.113.9",
    "203.0.113.9:4711": "203.0.113.9",
    "2001:db8::7": "2001:db8::7",
    "[2001:db8::7]": "2001:db8::7",
    "1.2.3.4, [2001:DB8:0::7]:4711": "2001:db8::7",
    "203.0.113.9, 2001:db8:1::5": "203.0.113.9",
    "203.0.113.9, ::ffff:10.1.2.3": "203.0.113.9",
    "::ffff:203.0.113.9": "203.0.113.9",
    "10.1.0.7": "10.1.0.7",  # the calling address is itself a proxy
    "10.1.0.7, 10.1.0.8": "10.1.0.7",
    # If an entry of the header is not an address, the entry to its right counts. If there is none, the peer counts.
    "": "127.0.0.1",
    "unknown": "127.0.0.1",
    "1.2.3.4, unknown": "127.0.0.1",
    "1.2.3.4, , 10.1.0.8": "10.1.0.8",
    "1.2.3.4, _hidden, 10.1.0.8": "10.1.0.8",
    "1.2.3.4, 300.1.1.1": "127.0.0.1",
    "1.2.3.4, 1.2.3": "127.0.0.1",
    "1.2.3.4, fe80::1%eth0": "127.0.0.1",
    "1.2.3.4, [::1": "::1",
    "1.2.3.4 203.0.113.9": "127.0.0.1",
    "1.2.3.4, \u0661\u0662.3.4.5": "127.0.0.1",
}


@pytest.mark.parametrize(("written", "caller"), CALLERS.items())
def test_the_right_most_address_that_is_not_a_proxy_counts(written: str, caller: str) -> None:
    assert NAMED.caller("127.0.0.1", written) == caller


@given(st.text(max_size=200), st.lists(st.sampled_from(["10.1.0.1", "127.0.0.1", "2001:db8:1::9"]), max_size=20))
def test_what_a_caller_writes_changes_nothing(invented: str, ours: list[str]) -> None:
    added = ", ".join(["203.0.113.9", *ours])
    assert NAMED.caller("127.0.0.1", f"{invented}, {added}") == "203.0.113.9"


def test_a_long_chain_is_not_followed_to_its_end() -> None:
    assert NAMED.caller("127.0.0.1", ",".join(["203.0.113.9", *["10.1.0.1"] * 10_000])) == "10.1.0.1"


async def believed(peer: str, *headers: tuple[bytes, bytes], proxies: Proxies = NAMED) -> tuple[str, str]:
    """Return the client address and the scheme that the application sees."""
    seen: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    scope = {"type": "http", "client": (peer, 4711), "scheme": "http", "headers": list(headers)}
    await Forwarded(app, proxies)(scope, nothing, nothing)
    return seen[0]["client"][0], seen[0]["scheme"]


FOR, PROTO = b"x-forwarded-for", b"x-forwarded-proto"


async def test_nobody_is_believed_by_default() -> None:
    for peer in ("127.0.0.1", "::1", "10.1.0.1", "203.0.113.7"):
        given = (FOR, b"198.51.100.1"), (PROTO, b"https")
        assert await believed(peer, *given, proxies=Proxies()) == (peer, "http")


async def test_several_lines_are_one_list() -> None:
    lines = (FOR, b"1.2.3.4"), (FOR, b"203.0.113.9, 10.1.0.2"), (FOR, b"10.1.0.1")
    assert await believed("127.0.0.1", *lines) == ("203.0.113.9", "http")
    assert await believed("::ffff:127.0.0.1", *lines) == ("203.0.113.9", "http")
    assert await believed("127.0.0.2", *lines) == ("127.0.0.2", "http")


@pytest.mark.parametrize(
    ("written", "scheme"),
    [(b"https", "https"), (b"HTTPS", "https"), (b"http, https", "https"), (b"https, http", "http"), (b"", "http")]
    + [(odd, "http") for odd in (b"ftp", b"https\xff", b"https;", b"wss", b"on")],
)
async def test_the_last_scheme_counts(written: bytes, scheme: str) -> None:
    assert await believed("127.0.0.1", (PROTO, written)) == ("127.0.0.1", scheme)
    assert await believed("203.0.113.7", (PROTO, written)) == ("203.0.113.7", "http")


async def test_other_headers_are_not_read() -> None:
    """Most proxies pass headers such as `Forwarded` and `X-Real-IP` on as the caller wrote them."""
    headers = (b"forwarded", b"for=1.2.3.4;proto=https"), (b"x-real-ip", b"1.2.3.4"), (b"x-forwarded-scheme", b"https")
    assert await believed("127.0.0.1", *headers) == ("127.0.0.1", "http")


async def test_the_log_names_the_setting_once_for_each_peer(served: WebContext) -> None:
    async with serving(served) as address:
        with capture_logs() as logged:
            for _ in range(3):
                await Client(address).get("/login", **{"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"})
        [told] = [entry for entry in logged if entry["event"] == "forwarded_headers_ignored"]
    assert told["headers"] == ["x-forwarded-for", "x-forwarded-proto"]
    assert told["hint"].endswith("HOOKLINE_TRUSTED_PROXIES=127.0.0.1")
    assert "203.0.113.9" not in str(told)


async def test_strangers_do_not_fill_the_log() -> None:
    front = Forwarded(lambda *_: asyncio.sleep(0), Proxies())
    with capture_logs() as logged:
        for number in range(100):
            scope = {"type": "http", "client": (f"203.0.113.{number}", 1), "headers": [(FOR, b"1.2.3.4")]}
            await front(scope, None, None)  # type: ignore[arg-type]
    assert len(logged) == MAX_WARNED


async def test_links_to_the_portal_have_the_scheme_that_browsers_use(
    served: WebContext, token: str, app: Application
) -> None:
    path, tls = f"/api/v1/auth/app-portal-access/{app.id}", {"x_forwarded_proto": "https"}
    for proxies, scheme in (((), "http"), (("127.0.0.1/32",), "https")):
        async with serving(replace(served, public_url=None), proxies=proxies) as address:
            made = (await Client(address, token).post(path, {}, **tls)).json()
            assert made["url"].startswith(f"{scheme}://{address}/login#key=")


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0", "10.0.0.0/8,::/0", "proxy.internal", "10.0.0.1/8", "*"])
def test_invalid_trusted_proxies_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="HOOKLINE_TRUSTED_PROXIES: takes networks"):
        parse({"HOOKLINE_TRUSTED_PROXIES": text})
    assert config.parse({}).trusted_proxies == ()
