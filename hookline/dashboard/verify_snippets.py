"""Code snippets that show how a receiver verifies a signature. The tests run each of them.

The texts are in `snippets/`, one folder per signature scheme. A secret and a URL can contain any text, so they are
inserted as quoted literals of the snippet's language.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from importlib import resources

from hookline.model.endpoints import Scheme

_LANGUAGES = ("Python", "Node", "openssl", "curl")
_PLACEHOLDERS = {"standard": "whsec_...", "ed25519": "whpk_..."}  # shown instead of a hidden key
_MARK = re.compile("@(SECRET|URL|PREFIX)@")


def snippets(scheme: Scheme, *, ed25519: bool, key: str | None, url: str) -> dict[str, str]:
    """Return the snippets of a scheme by their names. If `key` is None, they contain a placeholder."""
    folder = "ed25519" if ed25519 else "standard" if scheme == Scheme.SVIX else scheme.value
    secret = key or _PLACEHOLDERS.get(folder, "...")
    values = {"URL": shlex.quote(url), "PREFIX": "svix" if scheme == Scheme.SVIX else "webhook"}
    found = {}
    for name, text in _texts(folder).items():
        values["SECRET"] = json.dumps(secret) if name in ("Python", "Node") else shlex.quote(secret)
        # One pass replaces all marks such as `@URL@`, so that a mark inside a secret or a URL stays as it is.
        found[name] = _MARK.sub(lambda mark: values[mark[1]], text)
    return found


@cache
def _texts(folder: str) -> dict[str, str]:
    files = resources.files("hookline.dashboard") / "snippets" / folder
    found = {name: files / f"{name.lower()}.txt" for name in _LANGUAGES}
    return {name: file.read_text() for name, file in found.items() if file.is_file()}
