"""Checks whether a page of this server sent a form, and which paths are safe to redirect to."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def is_own_page(headers: Mapping[str, str], public_url: str | None) -> bool:
    """Return whether a page of this server sent the form, according to headers that the browser sets and that
    scripts in a page cannot change.

    Without these headers the result is True, because the form's CSRF token is checked too.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    if origin is None:
        return True
    # Both schemes are accepted, because some proxies that terminate TLS do not forward the scheme. The origin of a
    # sandboxed frame is `null`, which is refused.
    hosts = _own_hosts(headers, public_url)
    return origin in {f"{scheme}://{host.lower()}" for scheme in ("https", "http") for host in hosts}


def _own_hosts(headers: Mapping[str, str], public_url: str | None) -> set[str]:
    return {headers.get("host", ""), urlsplit(public_url or "").netloc} - {""}


def is_cross_site(headers: Mapping[str, str]) -> bool:
    """Return whether a page of another origin caused the request, by a link, a form or a script. Another origin of the
    same site counts too.

    The answer comes from the header Sec-Fetch-Site. Browsers do not send this header over plain HTTP. The result is
    then False.
    """
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def came_from(headers: Mapping[str, str], public_url: str | None) -> str | None:
    """Return the path of the Referer header if it names a page of this server, or None."""
    try:
        page = urlsplit(headers.get("referer", ""))
    except ValueError:
        return None
    if page.netloc not in _own_hosts(headers, public_url):
        return None
    return local_path(page._replace(scheme="", netloc="", fragment="").geturl())


def framed(headers: Mapping[str, str]) -> bool:
    """Return whether the browser requests the page for a frame of another page."""
    return headers.get("sec-fetch-dest", "") in ("iframe", "frame", "embed", "object", "fencedframe")


def local_path(path: str) -> str | None:
    """Return the path if it is safe to redirect to after sign-in: a page of this server, and not the sign-in page."""
    if len(path) > 2000 or not path.startswith("/") or path.startswith("//"):
        return None
    if "\\" in path or any(ord(letter) <= 32 or ord(letter) == 127 for letter in path):
        return None
    parts = urlsplit(path)
    if parts.scheme or parts.netloc or parts.path.endswith(("/login", "/logout")):
        return None
    return path
