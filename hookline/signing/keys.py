"""Make and check the secrets of endpoints, and turn them into the keys that sign and verify.

Each key is prepared once, because a worker signs many thousands of times a second.
"""

from __future__ import annotations

import hmac
import re
import secrets as randomness
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from hookline.errors import InvalidInput, SignatureError
from hookline.model.endpoints import Scheme
from hookline.signing.key_strength import weakness, weakness_of_text
from hookline.signing.signature_headers import HMAC, decode64, encode64

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

HMAC_PREFIX, PRIVATE_PREFIX, PUBLIC_PREFIX = "whsec_", "whsk_", "whpk_"

# A request may carry many signatures, and each Ed25519 check hashes the whole body. The sender may be an attacker, so
# the number of checks is limited. A key always checks the first `_MIN_CHECKED` different signatures of a request. It
# checks further signatures only while all its checks of the request together hash at most `_MAX_HASHED` bytes.
_MIN_CHECKED = 4
_MAX_HASHED = 2 << 20

_BASE64_SCHEMES = frozenset({Scheme.STANDARD, Scheme.SVIX})

_is_bare = re.compile(r"[A-Za-z0-9+/]{30,98}={0,2}").fullmatch  # a secret without its prefix `whsec_`


def new_secret() -> str:
    return HMAC_PREFIX + encode64(randomness.token_bytes(32))


def new_keypair() -> tuple[str, str]:
    """Make an Ed25519 pair: the private key (`whsk_…`), which signs, and the public key (`whpk_…`) for the
    receiver."""
    seed = randomness.token_bytes(32)
    public = _ed25519().Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return PRIVATE_PREFIX + encode64(seed + public), PUBLIC_PREFIX + encode64(public)


def public_key(private: str) -> str:
    """Return the public key (`whpk_…`) of a private key (`whsk_…`). Raises `SignatureError` if the private key is
    invalid."""
    return PUBLIC_PREFIX + encode64(_load_private(private).public_key().public_bytes_raw())


def with_prefix(key: str, scheme: Scheme) -> str:
    """Add the prefix `whsec_` to a bare base64 secret, as Svix does. The schemes hex, github and stripe take a text
    as the secret, so their secrets stay as they are."""
    return HMAC_PREFIX + key if scheme in _BASE64_SCHEMES and _is_bare(key) else key


def check_secret(key: str, scheme: Scheme = Scheme.STANDARD) -> None:
    """Refuse a secret that is malformed, too short or too long. A receiver's library might decode a malformed secret
    differently."""
    if scheme not in _BASE64_SCHEMES:
        _check_text_secret(key, scheme)
    elif key.startswith(HMAC_PREFIX):
        _check_size(_check_base64(key, HMAC_PREFIX))
    elif key.startswith(PRIVATE_PREFIX):
        _check_private_key(key)
    elif key.startswith(PUBLIC_PREFIX):
        raise InvalidInput("a public key (whpk_) cannot sign: give the private key (whsk_)")
    else:
        raise InvalidInput("a secret is whsec_ followed by base64 (HMAC), or whsk_ followed by base64 (Ed25519)")


def check_strength(key: str, scheme: Scheme = Scheme.STANDARD) -> None:
    """Refuse a new secret that can be guessed. A weak secret that was saved earlier still signs until it is
    rotated."""
    why = _weakness(key, scheme)
    if why is not None:
        raise InvalidInput(
            f"the secret can be guessed: it {why}; leave it out to have one generated, or use `openssl rand -base64 32`"
        )


def _weakness(key: str, scheme: Scheme) -> str | None:
    if scheme not in _BASE64_SCHEMES:
        return weakness_of_text(key.removeprefix(HMAC_PREFIX))
    if key.startswith(PRIVATE_PREFIX):
        # The first 32 bytes are the seed. The public key follows, which is derived from the seed.
        return weakness(_secret_bytes(key, PRIVATE_PREFIX)[:32])
    return weakness(_secret_bytes(key, HMAC_PREFIX))


def _check_size(raw: bytes) -> None:
    if not 24 <= len(raw) <= 64:
        raise InvalidInput(f"a whsec_ secret has 24 to 64 bytes, this one {len(raw)}")


def _check_private_key(key: str) -> None:
    _check_base64(key, PRIVATE_PREFIX)
    try:
        _load_private(key)
    except SignatureError as fault:
        raise InvalidInput(str(fault)) from None


def _check_base64(key: str, prefix: str) -> bytes:
    raw = decode64(key.removeprefix(prefix))
    if raw is None:
        raise InvalidInput(f"the text after {prefix} is not base64 with padding")
    return raw


def _check_text_secret(key: str, scheme: Scheme) -> None:
    if key.startswith((PRIVATE_PREFIX, PUBLIC_PREFIX)):
        raise InvalidInput(f"the scheme {scheme} has no Ed25519 signatures: give a whsec_ secret or plain text")
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise InvalidInput("a secret is printable ASCII, without spaces around it")
    if not 16 <= len(key) <= 256:
        raise InvalidInput(f"a secret of the scheme {scheme} has 16 to 256 characters, this one {len(key)}")


class HmacKey:
    version = HMAC

    def __init__(self, key: bytes, digest: str = "sha256") -> None:
        self._start = hmac.new(key, digestmod=digest)

    def sign(self, content: bytes) -> bytes:
        mac = self._start.copy()  # `_start` has already hashed the padded key: 0.6 µs faster than hmac.digest
        mac.update(content)
        return mac.digest()

    def matches(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        expected, matched = self.sign(content), False
        for signature in signatures:  # compare all of them, so that the time taken does not reveal which one matched
            matched |= hmac.compare_digest(expected, signature)
        return matched


class PublicKey:
    version = "v1a"

    def __init__(self, public: Ed25519PublicKey) -> None:
        self._public = public

    def matches(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        limit = max(_MIN_CHECKED, _MAX_HASHED // max(len(content), 1))
        return any(self._is_valid(content, signature) for signature in [*dict.fromkeys(signatures)][:limit])

    def _is_valid(self, content: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(signature, content)
        except InvalidSignature:
            return False
        return True


class PrivateKey(PublicKey):
    def __init__(self, private: Ed25519PrivateKey) -> None:
        super().__init__(private.public_key())
        self._private = private

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)


SigningKey = HmacKey | PrivateKey
CheckingKey = HmacKey | PublicKey


def signing_key(scheme: Scheme, secret: object) -> SigningKey:
    key = _secret_text(secret)
    if scheme not in _BASE64_SCHEMES:
        return text_key(key)
    if key.startswith(HMAC_PREFIX):
        return HmacKey(_secret_bytes(key, HMAC_PREFIX))
    if key.startswith(PRIVATE_PREFIX):
        return PrivateKey(_load_private(key))
    raise SignatureError("a secret starts with whsec_ or whsk_")


def checking_key(scheme: Scheme, secret: object) -> CheckingKey:
    key = _secret_text(secret)
    if scheme in _BASE64_SCHEMES and key.startswith(PUBLIC_PREFIX):
        return PublicKey(_load_public(key))
    return signing_key(scheme, key)


def base64_key(secret: object) -> CheckingKey:
    """Return the key with which a receiver of Standard Webhooks verifies. The secret's prefix and padding may be
    missing."""
    key = with_prefix(_secret_text(secret), Scheme.STANDARD)
    if key.startswith(HMAC_PREFIX):
        _check_size(_secret_bytes(key, HMAC_PREFIX))
    return checking_key(Scheme.STANDARD, key)


def _secret_text(secret: object) -> str:
    """Refuse `None` and the empty string. An unset secret is the most common mistake of receivers."""
    if not isinstance(secret, str) or not secret:
        raise SignatureError("the secret is empty or not a string")
    return secret


def text_key(secret: object, digest: str = "sha256") -> HmacKey:
    key = _secret_text(secret)
    if key.startswith((PRIVATE_PREFIX, PUBLIC_PREFIX)):
        raise SignatureError("this scheme has no Ed25519 signatures")
    try:
        return HmacKey(key.encode(), digest)
    except UnicodeEncodeError:
        raise SignatureError("the secret is not valid text") from None


def _secret_bytes(key: str, prefix: str) -> bytes:
    """Decode the base64 that follows `prefix` in `key`. The padding may be missing, because some senders show their
    secrets without it."""
    text = key.removeprefix(prefix)
    raw = decode64(text + "=" * (-len(text) % 4))
    if not raw or not key.startswith(prefix):
        raise SignatureError(f"this kind of secret is {prefix} followed by base64")
    return raw


def _load_private(key: str) -> Ed25519PrivateKey:
    raw = _secret_bytes(key, PRIVATE_PREFIX)
    if len(raw) != 64:
        raise SignatureError(f"a whsk_ key has 64 bytes (seed and public key), this one {len(raw)}")
    private: Ed25519PrivateKey = _ed25519().Ed25519PrivateKey.from_private_bytes(raw[:32])
    if private.public_key().public_bytes_raw() != raw[32:]:
        raise SignatureError("the public half of the whsk_ key does not match its private half")
    return private


def _load_public(key: str) -> Ed25519PublicKey:
    raw = _secret_bytes(key, PUBLIC_PREFIX)
    if len(raw) != 32:
        raise SignatureError(f"a whpk_ key has 32 bytes, this one {len(raw)}")
    public: Ed25519PublicKey = _ed25519().Ed25519PublicKey.from_public_bytes(raw)
    return public


def _ed25519() -> ModuleType:
    """Import cryptography only for Ed25519 keys. HMAC secrets, which are far more common, need the standard library
    only."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SignatureError("Ed25519 keys need the package cryptography: pip install cryptography") from None
    return ed25519
