"""Whether a form was sent by a page of ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def ours(headers: Mapping[str, str], public_url: str | None) -> bool:
    """By what the browser says of itself, which no page can make it say. One that says nothing still needs the form's proof."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    if origin is None:
        return True
    # Of either scheme: whoever ends TLS before us need not tell us that there was any. Sandboxed frames are called `null`.
    hosts = {headers.get("host", ""), urlsplit(public_url or "").netloc} - {""}
    return origin in {f"{scheme}://{host.lower()}" for scheme in ("https", "http") for host in hosts}


def elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether a page of another origin has led here; over plain http browsers do not say."""
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def came_from(headers: Mapping[str, str], public_url: str | None) -> str | None:
    """The page of ours that somebody was on, if the browser says."""
    try:
        page = urlsplit(headers.get("referer", ""))
    except ValueError:
        return None
    if page.netloc not in {headers.get("host", ""), urlsplit(public_url or "").netloc} - {""}:
        return None
    return inside(page._replace(scheme="", netloc="", fragment="").geturl())


def framed(headers: Mapping[str, str]) -> bool:
    """Whether a page is asked for to be shown inside of another one."""
    return headers.get("sec-fetch-dest", "") in ("iframe", "frame", "embed", "object", "fencedframe")


def inside(path: str) -> str | None:
    """Where to go after signing in, if it is a page of ours and not somebody else's address."""
    if len(path) > 2000 or not path.startswith("/") or path.startswith("//"):
        return None
    if "\\" in path or any(ord(letter) <= 32 or ord(letter) == 127 for letter in path):
        return None
    parts = urlsplit(path)
    if parts.scheme or parts.netloc or parts.path.endswith(("/login", "/logout")):
        return None
    return path
