"""API keys: `hk_`, 32 random characters, and 6 characters of checksum. Pure, except that `make` uses random numbers.

The prefix lets secret scanners find keys that were published by accident. The checksum tells a typo from a revoked key
without a query. Only the hash of a key is stored. A key has 190 random bits, so the hash needs no salt.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib

from hookline.errors import SignatureError

PREFIX = "hk_"

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM, _CHECK, _HINT = 32, 6, 4  # characters of the random part, the checksum and the hint
_SHAPE = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM}}})([0-9A-Za-z]{{{_CHECK}}})", re.A)


def make() -> str:
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return f"{PREFIX}{body}{_checksum(body)}"


def check(text: str) -> str:
    """Return the key. Raises `SignatureError` if it was mistyped or cut off."""
    found = _SHAPE.fullmatch(text)
    if found is None or found[2] != _checksum(found[1]):
        raise SignatureError("the API key is mistyped: its last characters are not the checksum of the others")
    return text


def hashed(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def hint(key: str) -> str:
    """Return the last characters of a key, which may be shown. They are part of the checksum and reveal almost
    nothing."""
    return key[-_HINT:]


def _checksum(body: str) -> str:
    number, letters = zlib.crc32(body.encode()), []
    for _ in range(_CHECK):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(reversed(letters))
