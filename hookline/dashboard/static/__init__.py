"""Style sheets and scripts, as they are in this directory. Their URLs change with their content: browsers may keep them."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def files() -> dict[str, bytes]:
    found = resources.files(__name__).iterdir()
    return {each.name: each.read_bytes() for each in found if each.name.rpartition(".")[2] in KINDS}


@cache
def packed() -> dict[str, bytes]:
    """For browsers that take it. Pages are not packed: how short they get would tell of the secrets in them."""
    return {name: gzip.compress(content, mtime=0) for name, content in files().items()}


@cache
def version() -> str:
    """Of all of them together: modules import one another by plain names, within one version."""
    digest = hashlib.sha256()
    for name, content in sorted(files().items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:12]


def url(name: str) -> str:
    return f"/static/{version()}/{name}"
