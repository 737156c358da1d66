"""Who has called, and over which scheme, where a proxy has called for them.

Anybody can write `X-Forwarded-For` and `X-Forwarded-Proto`. They are believed when they come from a proxy that was named
(`HOOKLINE_TRUSTED_PROXIES`), and of the addresses only the right-most one that no proxy of ours has: what stands left of it was
written by the caller. `Forwarded` is not read: most proxies pass on the one that their caller wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.rules.guard import Network

MAX_PROXIES = 32  # one behind the other, that are looked at
MAX_TOLD = 16  # peers whose headers were passed over, with a log line each

_FOR, _PROTO = b"x-forwarded-for", b"x-forwarded-proto"

log = structlog.get_logger(__name__)


class Proxies:
    """The networks that were named."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def __contains__(self, host: object) -> bool:
        found = _parsed(host) if self._networks and isinstance(host, str) else None
        return found is not None and any(found in network for network in self._networks)

    def caller(self, peer: str, forwarded: str) -> str:
        """The right-most address that none of them has; if all are theirs, or one is no address, the last good one."""
        found = peer
        for text in reversed(forwarded.rsplit(",", MAX_PROXIES)[-MAX_PROXIES:]):
            address = _parsed(_without_port(text.strip(" \t")))
            if address is None:
                break
            found = str(address)
            if found not in self:
                break
        return found


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        return None if found.scope_id else found.ipv4_mapped or found
    return found


def _without_port(text: str) -> str:
    """`192.0.2.7:4711`, `[2001:db8::7]` and `[2001:db8::7]:4711`, as some proxies write them."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


class Forwarded:
    """In front of everything that asks who has called."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies
        self._told: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = {name for name, _ in scope.get("headers", ())} & {_FOR, _PROTO}
        if given and scope["client"] is not None:
            peer = scope["client"][0]
            if peer in self._proxies:
                self._believe(scope, peer)
            else:
                self._tell(peer, given)
        await self._app(scope, receive, send)

    def _believe(self, scope: Scope, peer: str) -> None:
        forwarded = _joined(scope, _FOR)
        if forwarded:
            scope["client"] = (self._proxies.caller(peer, forwarded), 0)
        scheme = _joined(scope, _PROTO).rpartition(",")[2].strip(" \t").lower()
        if scheme in ("http", "https"):
            scope["scheme"] = scheme

    def _tell(self, peer: str, given: set[bytes]) -> None:
        """Once for each, so that people with a proxy find the setting."""
        if peer in self._told or len(self._told) >= MAX_TOLD:
            return
        self._told.add(peer)
        log.warning(
            "forwarded_headers_ignored",
            peer=peer,
            headers=sorted(name.decode() for name in given),
            hint=f"if this is a proxy of yours, set HOOKLINE_TRUSTED_PROXIES={peer}",
        )


def _joined(scope: Scope, wanted: bytes) -> str:
    """One header on several lines is one list."""
    return ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == wanted)
