"""Encrypts (seals) secrets at rest with AES-256-GCM, and decrypts (opens) them.

A sealed value is `version (1) | key id (4) | nonce (12) | ciphertext and tag`. The associated data of the encryption is
the version, the key id and a name: the id of the value's row, for some columns with the name of the column (such as
`<endpoint id>/headers`). The value opens only with the same associated data. So a value that was moved to another row
or column, or that names another key, does not open.

The first key seals, and every key opens. To rotate keys, put the new key first, run `hookline reseal`, and then remove
the old key. With several processes, first add the new key behind the old one in every process.
"""

from __future__ import annotations

import binascii
import hashlib
import secrets as randomness
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hookline.errors import ConfigError, VaultError
from hookline.signing.key_strength import weakness

_VERSION = b"\x01"
_KEY_ID, _NONCE, _TAG = 4, 12, 16
_HEAD = len(_VERSION) + _KEY_ID
_KEY = 32


def new_key() -> str:
    return binascii.b2a_base64(randomness.token_bytes(_KEY), newline=False).decode()


class Vault:
    __slots__ = ("_head", "_keys")

    def __init__(self, keys: Sequence[str]) -> None:
        """Take the keys, each 32 bytes in base64. Raises `ConfigError`, whose text never contains a key."""
        self._keys: dict[bytes, AESGCM] = {}
        for key in map(_parse_key, keys):
            if _key_id(key) in self._keys:
                raise ConfigError("a secret key is given twice")
            self._keys[_key_id(key)] = AESGCM(key)
        if not self._keys:
            raise ConfigError("there is no secret key to seal with")
        self._head = _VERSION + next(iter(self._keys))

    @property
    def heads(self) -> tuple[bytes, ...]:
        """The first bytes of the values that each key has sealed, in the order of the keys. The first key seals new
        values."""
        return tuple(_VERSION + key_id for key_id in self._keys)

    def __repr__(self) -> str:
        return f"Vault({len(self._keys)} keys)"

    def seal(self, plain: bytes, row: str) -> bytes:
        # Random nonces are safe for 2^32 values with one key. A deployment seals two or three values per change of an
        # endpoint, and one response per POST that has an idempotency key and creates no message.
        nonce = randomness.token_bytes(_NONCE)
        cipher = self._keys[self._head[len(_VERSION) :]]
        return self._head + nonce + cipher.encrypt(nonce, plain, self._head + row.encode())

    def open(self, sealed: bytes, row: str) -> bytes:
        head, nonce, rest = sealed[:_HEAD], sealed[_HEAD : _HEAD + _NONCE], sealed[_HEAD + _NONCE :]
        if len(rest) < _TAG or not head.startswith(_VERSION):
            raise VaultError(f"the value stored for {row} was not sealed by this release")
        cipher = self._keys.get(head[len(_VERSION) :])
        if cipher is None:
            raise VaultError(f"the value stored for {row} was sealed with a key that is not configured")
        try:
            return cipher.decrypt(nonce, rest, head + row.encode())
        except InvalidTag:
            raise VaultError(f"the value stored for {row} was changed, or belongs to another row") from None


def check_sealing(key: str) -> None:
    """Refuse a sealing key that can be guessed. Such a key may still open values that it has sealed before."""
    if why := weakness(_parse_key(key)):
        raise ConfigError(
            f"the first key can be guessed: it {why}; put a key from `openssl rand -base64 32` in front of it"
        )


def _parse_key(text: str) -> bytes:
    try:
        key = binascii.a2b_base64(text.strip(), strict_mode=True)
    except ValueError:
        key = b""
    if len(key) != _KEY:
        raise ConfigError("a secret key is 32 bytes in base64, as `openssl rand -base64 32` prints them")
    return key


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_KEY_ID]
