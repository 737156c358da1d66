"""What every page carries against the rest of the web."""

from __future__ import annotations

from collections.abc import Sequence


def policy(frames: Sequence[str] = ()) -> str:
    """Nothing from elsewhere, no script and no style but our files: a tenant's text on a page can do nothing."""
    ancestors = " ".join(frames) or "'none'"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        f"form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
    )


def headers(frames: Sequence[str] = ()) -> dict[str, str]:
    """`frames`: the origins whose pages may show this one inside of them."""
    return {
        "content-security-policy": policy(frames),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",  # not `no-referrer`: browsers would hide the origin of our own forms too
        "cache-control": "no-store",
    }


SANDBOXED = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "x-content-type-options": "nosniff",
}
"""Of a file that somebody else made: whatever is in it, opened by itself it can do nothing."""
