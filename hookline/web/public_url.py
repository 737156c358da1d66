"""The base URL of links: the address at which browsers reach this server.

The caller who requests a link chooses the Host header, but another person opens the link. So the Host header is used
only if it names this machine and the server listens only on this machine.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from hookline.errors import Conflict

UNKNOWN = (
    "no link can be made: this server does not know the address at which browsers reach it. Set HOOKLINE_PUBLIC_URL, such as "
    "https://hooks.example.com, and restart the server"
)

_LOCAL = re.compile(r"(localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?", re.A | re.I)


def links_lead_to(public_url: str | None, *, local: bool, scheme: str, host: str) -> str:
    """Return the base URL of links, or raise `Conflict`, which names the missing setting.

    `local` means that the server listens only on this machine. If the Host header then names another host, a local
    proxy forwarded the request, and a link to this machine would not work for the caller.
    """
    if public_url is not None:
        return public_url
    if not local or not _names_this_machine(host):
        raise Conflict(UNKNOWN)
    return f"{scheme}://{host.lower()}"


def _names_this_machine(host: str) -> bool:
    found = _LOCAL.fullmatch(host)
    return found is not None and is_loopback(name_of(host)) and int(found[2] or 0) <= 65535


def name_of(host: str) -> str:
    """Return the host name of a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
