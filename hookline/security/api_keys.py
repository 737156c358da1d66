"""API keys: `hk_`, 32 random characters, and 6 that check the others. Pure, apart from the dice of a new one.

The prefix lets scanners find keys that were published by accident; the check tells a typo from a key that was revoked,
without asking the database. Only the hash is ever stored: there are 190 random bits in a key, so it needs no salt.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib

from hookline.errors import SignatureError

__all__ = ["PREFIX", "check", "hashed", "hint", "make"]

PREFIX = "hk_"

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM, _CHECK, _HINT = 32, 6, 4  # characters
_SHAPE = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM}}})([0-9A-Za-z]{{{_CHECK}}})", re.A)


def make() -> str:
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return f"{PREFIX}{body}{_checksum(body)}"


def check(text: str) -> str:
    """A key as it was made; `SignatureError` for one that was mistyped or cut off."""
    found = _SHAPE.fullmatch(text)
    if found is None or found[2] != _checksum(found[1]):
        raise SignatureError("the API key is mistyped: its last characters do not fit the others")
    return text


def hashed(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def hint(key: str) -> str:
    """What may be shown of it, to tell keys apart: a part of the check, which says next to nothing of the rest."""
    return key[-_HINT:]


def _checksum(body: str) -> str:
    number, letters = zlib.crc32(body.encode()), []
    for _ in range(_CHECK):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(reversed(letters))
