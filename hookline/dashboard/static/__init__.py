"""The style sheets and scripts of this directory.

Their URLs contain a hash of the content, so browsers may cache them.
"""

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
    """Return the files compressed with gzip.

    Pages are never compressed: the compressed size would leak secrets (BREACH attack).
    """
    return {name: gzip.compress(content, mtime=0) for name, content in files().items()}


@cache
def version() -> str:
    """Return one hash for all files.

    A script imports other scripts by relative URL, so all files must have the same version.
    """
    digest = hashlib.sha256()
    for name, content in sorted(files().items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:12]


def url(name: str) -> str:
    return f"/static/{version()}/{name}"
