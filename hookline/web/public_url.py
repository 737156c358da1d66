"""Where links lead: the address at which browsers reach this server. Pure.

The caller who asks for a link writes the request's Host header, and somebody else opens the link. So the header counts only if it
names this machine and the server answers this machine alone.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from hookline.errors import Conflict

UNKNOWN = (
    "no link can be made: this server does not know the address at which browsers reach it. Set HOOKLINE_PUBLIC_URL, such as "
    "https://hooks.example.com, and start it again"
)

_LOCAL = re.compile(r"(localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?", re.A | re.I)


def links_lead_to(public_url: str | None, *, local: bool, scheme: str, host: str) -> str:
    """`local`: only this machine reaches the listener. `Conflict` says what to set: where the header names another host, a
    proxy on this machine has passed it on, and a link to this machine would help nobody."""
    if public_url is not None:
        return public_url
    if not local or not _names_this_machine(host):
        raise Conflict(UNKNOWN)
    return f"{scheme}://{host.lower()}"


def _names_this_machine(host: str) -> bool:
    found = _LOCAL.fullmatch(host)
    return found is not None and is_loopback(name_of(host)) and int(found[2] or 0) <= 65535


def name_of(host: str) -> str:
    """A Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
