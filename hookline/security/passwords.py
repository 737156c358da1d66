"""Passwords of operators: checked for strength, and kept as scrypt makes them. Pure, apart from the salt of a new one.

`scrypt$15$8$3$salt$key`: the cost is beside each, so that it can be raised later and those that were made before go on working.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import unicodedata

from msgspec import Struct

from hookline.errors import InvalidInput

__all__ = ["LONGEST", "SHORTEST", "check", "hashed", "matches"]

SHORTEST = 12  # characters
LONGEST = 256  # likewise

_SALT, _KEY = 16, 32  # bytes
_SPARE = 4 * 1024 * 1024  # bytes that scrypt needs beside its blocks


class _Cost(Struct, frozen=True):
    """About 0.2 s and 32 MiB: what OWASP asks of scrypt, in its form that needs the least memory."""

    n: int = 15  # as a power of two
    r: int = 8
    p: int = 3

    @property
    def sane(self) -> bool:
        return 10 <= self.n <= 20 and 1 <= self.r <= 16 and 1 <= self.p <= 16

    @property
    def memory(self) -> int:
        return 128 * self.r * ((1 << self.n) + self.p) + _SPARE


_NOW = _Cost()


def check(password: str, name: str = "") -> str:
    """A password that may be set; `InvalidInput` says what is wrong with it, and never repeats it."""
    if len(password) < SHORTEST:
        raise InvalidInput(f"a password has at least {SHORTEST} characters")
    if len(password) > LONGEST:
        raise InvalidInput(f"a password has at most {LONGEST} characters")
    if not _is_text(password):
        raise InvalidInput("a password has no control characters")
    if name and name.casefold() in password.casefold():
        raise InvalidInput("a password does not contain the operator's name")
    if len(set(password)) < 5:
        raise InvalidInput("a password has at least 5 different characters")
    return password


def hashed(password: str) -> str:
    """Takes its time: call it in a thread."""
    salt = secrets.token_bytes(_SALT)
    return "$".join(["scrypt", str(_NOW.n), str(_NOW.r), str(_NOW.p), _text(salt), _text(_key(password, salt, _NOW))])


def matches(password: str, kept: str | None) -> bool:
    """Likewise. None, for a name that nobody has, takes as long as a wrong password does."""
    cost, salt, key = _read(_DECOY if kept is None else kept)
    if len(password) > LONGEST:
        password = ""
    return hmac.compare_digest(_key(password, salt, cost), key) and kept is not None


def _is_text(password: str) -> bool:
    return not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in password)


def _key(password: str, salt: bytes, cost: _Cost) -> bytes:
    # One keyboard composes what another sends in two parts: both are the same password.
    raw = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(raw, salt=salt, n=2**cost.n, r=cost.r, p=cost.p, maxmem=cost.memory, dklen=_KEY)


def _read(kept: str) -> tuple[_Cost, bytes, bytes]:
    try:
        kind, n, r, p, salt, key = kept.split("$")
        cost = _Cost(int(n), int(r), int(p))
        found = cost, base64.b64decode(salt, validate=True), base64.b64decode(key, validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput("the password is kept in a form that this release does not know") from None
    if kind != "scrypt" or not cost.sane or len(found[2]) != _KEY:
        raise InvalidInput("the password is kept in a form that this release does not know")
    return found


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# Nobody's: no password makes this key, and a match with it would not count.
_DECOY = "$".join(["scrypt", str(_NOW.n), str(_NOW.r), str(_NOW.p), _text(bytes(_SALT)), _text(bytes(_KEY))])
