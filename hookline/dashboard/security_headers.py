"""Security headers of every page."""

from __future__ import annotations

from collections.abc import Sequence


def policy(frames: Sequence[str] = ()) -> str:
    """Return the Content-Security-Policy of a page. `frames` are the origins that may show the page in a frame.

    The browser loads only scripts, styles and images of this server, so injected text cannot run or load anything.
    """
    ancestors = " ".join(frames) or "'none'"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        f"form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
    )


def headers(frames: Sequence[str] = ()) -> dict[str, str]:
    """Return the headers of a page. `frames` are the origins that may show the page in a frame."""
    return {
        "content-security-policy": policy(frames),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",  # with `no-referrer`, browsers would hide the origin of dashboard forms
        "cache-control": "no-store",
    }


SANDBOXED = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "x-content-type-options": "nosniff",
}
"""Headers of an untrusted file. Even if it is opened alone, it cannot run scripts or load anything."""
