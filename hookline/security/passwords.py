"""Checks the strength of operators' passwords, and hashes them with scrypt. Pure, except for the random salt of a new
hash.

The format is `scrypt$15$8$3$salt$key`. It includes the cost, so that the cost can be raised later and older hashes
still work.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import unicodedata

from msgspec import Struct

from hookline.errors import InvalidInput

SHORTEST = 12  # minimum characters of a password
LONGEST = 256  # maximum characters of a password

_SALT, _KEY = 16, 32  # lengths in bytes
_SPARE = 4 * 1024 * 1024  # bytes that scrypt needs besides its blocks


class _Cost(Struct, frozen=True):
    """The cost parameters of scrypt. The defaults take about 0.2 s and 32 MiB: the OWASP variant that needs the least
    memory."""

    n: int = 15  # scrypt's parameter N is 2 to the power of this number
    r: int = 8
    p: int = 3

    @property
    def sane(self) -> bool:
        return 10 <= self.n <= 20 and 1 <= self.r <= 16 and 1 <= self.p <= 16

    @property
    def memory(self) -> int:
        return 128 * self.r * ((1 << self.n) + self.p) + _SPARE


_CURRENT = _Cost()
_UNKNOWN_FORMAT = "the stored password has a format that this release does not know"


def check(password: str, name: str = "") -> str:
    """Return the password if it is acceptable. Otherwise raise `InvalidInput`, whose text never contains the
    password."""
    if len(password) < SHORTEST:
        raise InvalidInput(f"a password must have at least {SHORTEST} characters")
    if len(password) > LONGEST:
        raise InvalidInput(f"a password must have at most {LONGEST} characters")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in password):
        raise InvalidInput("a password must not have control characters")
    if name and name.casefold() in password.casefold():
        raise InvalidInput("a password must not contain the operator's name")
    if len(set(password)) < 5:
        raise InvalidInput("a password must have at least 5 different characters")
    return password


def hashed(password: str) -> str:
    """Return the hash of a password. This is slow, so call it in a thread."""
    salt = secrets.token_bytes(_SALT)
    return _format(salt, _key(password, salt, _CURRENT))


def matches(password: str, kept: str | None) -> bool:
    """Return whether the password matches a stored hash. This is slow, so call it in a thread.

    For an unknown name, `kept` is None: this takes as long as a wrong password, so that the time does not reveal which
    names exist.
    """
    cost, salt, key = _read(_DECOY if kept is None else kept)
    if len(password) > LONGEST:
        password = ""
    return hmac.compare_digest(_key(password, salt, cost), key) and kept is not None


def _key(password: str, salt: bytes, cost: _Cost) -> bytes:
    # Some keyboards send a character such as é as one code point, others as two. Both must give the same key.
    raw = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(raw, salt=salt, n=2**cost.n, r=cost.r, p=cost.p, maxmem=cost.memory, dklen=_KEY)


def _read(kept: str) -> tuple[_Cost, bytes, bytes]:
    try:
        kind, n, r, p, salt, key = kept.split("$")
        cost = _Cost(int(n), int(r), int(p))
        parts = cost, base64.b64decode(salt, validate=True), base64.b64decode(key, validate=True)
    except ValueError:  # malformed numbers, and malformed base64
        raise InvalidInput(_UNKNOWN_FORMAT) from None
    if kind != "scrypt" or not cost.sane or len(parts[2]) != _KEY:
        raise InvalidInput(_UNKNOWN_FORMAT)
    return parts


def _format(salt: bytes, key: bytes) -> str:
    cost = (str(_CURRENT.n), str(_CURRENT.r), str(_CURRENT.p))
    return "$".join(("scrypt", *cost, base64.b64encode(salt).decode(), base64.b64encode(key).decode()))


# The hash that `matches` compares with if a name does not exist. Even if a password matched it, `matches` would return
# False.
_DECOY = _format(bytes(_SALT), bytes(_KEY))
