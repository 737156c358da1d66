"""Finds faults in the head of a request that the parser does not refuse. Pure functions.

If a proxy and this server read a head in different ways, an attacker can make them disagree about where a request ends
or which host it is for (request smuggling). So every ambiguous head is refused.
"""

from __future__ import annotations

import re

Header = tuple[bytes, bytes]  # the name in lower case, and the value

_AUTHORITY = rb"(?P<name>[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{0,5}))?"
_HOST = re.compile(_AUTHORITY)
_ABSOLUTE = re.compile(rb"(?P<scheme>(?i:https?))://" + _AUTHORITY + rb"/.*", re.S)
_PORTS = {b"http": 80, b"https": 443}
# Headers that are refused in trailers, because the parser would obey them there.
NOT_IN_TRAILERS = frozenset({b"connection", b"proxy-connection", b"upgrade", b"content-length", b"transfer-encoding"})
_FRAMING = (b"content-length", b"transfer-encoding")


def fault(version: str, method: bytes, target: bytes, headers: list[Header]) -> str | None:
    """Return what is wrong with the head, or None."""
    if version not in ("1.0", "1.1"):
        return f"HTTP/{version} is not supported: use HTTP/1.1"
    if method == b"CONNECT":
        return "CONNECT is not supported: this server is not a proxy"
    return _encoding_fault(version, headers) or _host_fault(version, target, headers)


def _encoding_fault(version: str, headers: list[Header]) -> str | None:
    encodings = [value.strip(b" \t").lower() for name, value in headers if name == b"transfer-encoding"]
    if not encodings:
        return None
    if version == "1.0":
        return "HTTP/1.0 has no Transfer-Encoding: send a Content-Length"
    return None if encodings == [b"chunked"] else "the only supported Transfer-Encoding is `chunked`"


def _host_fault(version: str, target: bytes, headers: list[Header]) -> str | None:
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        return "send exactly one Host header"
    host = _HOST.fullmatch(hosts[0]) if hosts else None
    if hosts and host is None:
        return "the Host header must be a host name or an address, with an optional port"
    return None if target.startswith(b"/") else _target_fault(target, host)


def _target_fault(target: bytes, host: re.Match[bytes] | None) -> str | None:
    """Return what is wrong with an absolute target, or None. The target must name the same host as the Host header."""
    url = _ABSOLUTE.fullmatch(target)
    if url is None:
        return "the target must be a path, or an http or https URL with a path"
    default_port = _PORTS[url["scheme"].lower()]
    if host is not None and _address(url, default_port) != _address(host, default_port):
        return "the target names another host than the Host header"
    return None


def _address(found: re.Match[bytes], default_port: int) -> tuple[bytes, int]:
    return found["name"].lower(), int(found["port"] or default_port)


def framing(headers: list[Header]) -> bytes:
    """Return a minimal head with the headers that delimit the body. It is empty if the request has no body."""
    lines = [b"%s: %s\r\n" % header for header in headers if header[0] in _FRAMING and header[1].strip(b"0 \t")]
    return b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(lines) if lines else b""
