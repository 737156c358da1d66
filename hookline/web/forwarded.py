"""Client address and scheme of requests that come through a proxy.

Any client can send `X-Forwarded-For` and `X-Forwarded-Proto`. So these headers are used only if a trusted proxy sent
them (`HOOKLINE_TRUSTED_PROXIES`). The client is the right-most address that is not a trusted proxy; the client itself
may have written everything left of it. The header `Forwarded` is ignored, because most proxies pass on what the client
wrote there.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from hookline.rules.guard import Network

MAX_PROXIES = 32  # addresses of X-Forwarded-For that are read, starting from the right
MAX_WARNED = 16  # peers for which a warning about ignored headers is logged

_FOR, _PROTO = b"x-forwarded-for", b"x-forwarded-proto"

log = structlog.get_logger(__name__)


class Proxies:
    """The networks of the trusted proxies."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def __contains__(self, host: object) -> bool:
        found = _parsed(host) if self._networks and isinstance(host, str) else None
        return found is not None and any(found in network for network in self._networks)

    def caller(self, peer: str, forwarded: str) -> str:
        """Return the client: the right-most address in `forwarded`, the value of X-Forwarded-For, that is not a
        trusted proxy.

        The addresses are read from right to left, up to a text that is not an address. If all of them are trusted
        proxies, return the last one that was read. If none was read, return `peer`.
        """
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
    """Remove the port. Some proxies write `192.0.2.7:4711`, `[2001:db8::7]` or `[2001:db8::7]:4711`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


class Forwarded:
    """Middleware that sets the client address and scheme. It must run before any code that reads them."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies
        self._warned: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = {name for name, _ in scope.get("headers", ())} & {_FOR, _PROTO}
        if given and scope["client"] is not None:
            peer = scope["client"][0]
            if peer in self._proxies:
                self._apply(scope, peer)
            else:
                self._warn(peer, given)
        await self._app(scope, receive, send)

    def _apply(self, scope: Scope, peer: str) -> None:
        forwarded = _joined(scope, _FOR)
        if forwarded:
            scope["client"] = (self._proxies.caller(peer, forwarded), 0)
        scheme = _joined(scope, _PROTO).rpartition(",")[2].strip(" \t").lower()
        if scheme in ("http", "https"):
            scope["scheme"] = scheme

    def _warn(self, peer: str, given: set[bytes]) -> None:
        """Log once per peer that its headers are ignored. The warning names the setting for trusted proxies."""
        if peer in self._warned or len(self._warned) >= MAX_WARNED:
            return
        self._warned.add(peer)
        log.warning(
            "forwarded_headers_ignored",
            peer=peer,
            headers=sorted(name.decode() for name in given),
            hint=f"if this is your proxy, set HOOKLINE_TRUSTED_PROXIES={peer}",
        )


def _joined(scope: Scope, wanted: bytes) -> str:
    """Return the values of all headers of this name as one list, separated by commas."""
    return ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == wanted)
