"""Signatures of webhooks: made by the worker, checked by receivers. Pure: the instant is an argument.

The bytes signed are the bytes sent. What goes out for each scheme, and what the signature covers:

| scheme     | headers                                                               | signed, and with which key             |
|------------|-----------------------------------------------------------------------|----------------------------------------|
| `standard` | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,… v1a,…`    | `id.timestamp.body`; decoded base64    |
| `svix`     | `svix-id`, `svix-timestamp`, `svix-signature: v1,… v1a,…`             | `id.timestamp.body`; decoded base64    |
| `hex`      | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1=…,v1=…`     | `timestamp.body`; the secret as text   |
| `stripe`   | `webhook-id`, `Stripe-Signature: t=…,v1=…,v1=…`                       | `timestamp.body`; the secret as text   |
| `github`   | `webhook-id`, `X-GitHub-Delivery` (the same id), `X-Hub-Signature-256: sha256=…` | `body`; the secret as text  |

*Decoded base64*: `whsec_` is cut off and the rest decoded (HMAC-SHA256, `v1`), or it is an Ed25519 key (`whsk_`, `v1a`).
*The secret as text*: its UTF-8 bytes exactly as it is shown, a `whsec_` in front included, because that is what a
receiver pastes into its GitHub or Stripe library.

While a secret and its successor overlap, both sign. GitHub's header has room for one: there the current one signs.
Only `standard` and `svix` sign the id: in the other schemes it serves to de-duplicate and is not proof of anything.
`github` has no timestamp, so an old request can be sent again by whoever recorded it.
"""

from __future__ import annotations

import hmac
import re
import secrets as randomness
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from hookline.errors import InvalidInput, SignatureError, VerificationCode, VerificationError
from hookline.model import Scheme, Secret
from hookline.signing.headers import Headers
from hookline.signing.key_strength import weakness, weakness_of_text
from hookline.signing.signature_headers import (
    EVIDENCE,
    HMAC,
    TOLERANCE,
    Request,
    SignedParts,
    decode64,
    dotted_content,
    encode64,
    is_id,
    raw_body,
    signed_at,
    timed_content,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = [
    "TOLERANCE",
    "CheckingKey",
    "Signer",
    "base64_key",
    "check_match",
    "check_secret",
    "check_strength",
    "new_keypair",
    "new_secret",
    "public_key",
    "text_key",
    "verify",
    "with_prefix",
]

HMAC_PREFIX, PRIVATE_PREFIX, PUBLIC_PREFIX = "whsec_", "whsk_", "whpk_"

# Each Ed25519 check hashes the whole body, before anything is known of the sender.
_FEW = 4  # signatures that are checked however large the body is
_MAX_HASHED = 2 << 20  # bytes for more than these

_BASE64_SCHEMES = frozenset({Scheme.STANDARD, Scheme.SVIX})

_is_bare = re.compile(r"[A-Za-z0-9+/]{30,98}={0,2}").fullmatch  # a secret without the `whsec_` in front of it


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def new_secret() -> str:
    return HMAC_PREFIX + encode64(randomness.token_bytes(32))


def new_keypair() -> tuple[str, str]:
    """An Ed25519 pair: `whsk_…` stays here and signs, `whpk_…` is for the receiver."""
    seed = randomness.token_bytes(32)
    public = _ed25519().Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return PRIVATE_PREFIX + encode64(seed + public), PUBLIC_PREFIX + encode64(public)


def public_key(private: str) -> str:
    """The `whpk_…` of a `whsk_…`: what a receiver is shown. Raises `SignatureError` if it is not one."""
    return PUBLIC_PREFIX + encode64(_load_private(private).public_key().public_bytes_raw())


def with_prefix(key: str, scheme: Scheme) -> str:
    """Svix also takes the base64 alone. In the schemes whose secret is a text, a key is what it says."""
    return HMAC_PREFIX + key if scheme in _BASE64_SCHEMES and _is_bare(key) else key


def check_secret(key: str, scheme: Scheme = Scheme.STANDARD) -> None:
    """Refuse what a receiver's library might read in another way, and what is too weak to be a key."""
    if scheme not in _BASE64_SCHEMES:
        _check_text_secret(key, scheme)
    elif key.startswith(HMAC_PREFIX):
        _check_hmac_secret(key)
    elif key.startswith(PRIVATE_PREFIX):
        _check_private_key(key)
    elif key.startswith(PUBLIC_PREFIX):
        raise InvalidInput("a public key (whpk_) cannot sign: give the private one (whsk_)")
    else:
        raise InvalidInput("a secret is whsec_ and base64 (HMAC), or whsk_ and base64 (Ed25519)")


def check_strength(key: str, scheme: Scheme = Scheme.STANDARD) -> None:
    """Refuse a secret that can be guessed. For new ones: what was set before still signs and can be rotated away."""
    why = _weakness(key, scheme)
    if why is not None:
        raise InvalidInput(
            f"a secret that can be guessed is refused: this one {why}; leave it out, and one is made for you, "
            "or take `openssl rand -base64 32`"
        )


def _weakness(key: str, scheme: Scheme) -> str | None:
    if scheme not in _BASE64_SCHEMES:
        return weakness_of_text(key.removeprefix(HMAC_PREFIX))
    if key.startswith(PRIVATE_PREFIX):
        return weakness(_secret_bytes(key, PRIVATE_PREFIX)[:32])  # the seed: the rest follows from it
    return weakness(_secret_bytes(key, HMAC_PREFIX))


def _check_hmac_secret(key: str) -> None:
    _check_size(_check_base64(key, HMAC_PREFIX))


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
        raise InvalidInput(f"what follows {prefix} is not base64 with its padding")
    return raw


def _check_text_secret(key: str, scheme: Scheme) -> None:
    if key.startswith((PRIVATE_PREFIX, PUBLIC_PREFIX)):
        raise InvalidInput(f"the scheme {scheme} has no Ed25519 signatures: give a whsec_ secret or a text")
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise InvalidInput("a secret is printable ASCII, without spaces around it")
    if not 16 <= len(key) <= 256:
        raise InvalidInput(f"a secret of the scheme {scheme} has 16 to 256 characters, this one {len(key)}")


# ── keys: prepared once, because a worker signs many thousands of times a second ──────────────────────────────────


class HmacKey:
    __slots__ = ("_start",)
    version = HMAC

    def __init__(self, key: bytes, digest: str = "sha256") -> None:
        self._start = hmac.new(key, digestmod=digest)

    def sign(self, content: bytes) -> bytes:
        mac = self._start.copy()  # the padded key is hashed already: 0.6 µs less than hmac.digest
        mac.update(content)
        return mac.digest()

    def matches(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        expected, found = self.sign(content), False
        for signature in signatures:  # all of them: the time taken does not tell which one fits
            found |= hmac.compare_digest(expected, signature)
        return found


class PublicKey:
    __slots__ = ("_public",)
    version = "v1a"

    def __init__(self, public: Ed25519PublicKey) -> None:
        self._public = public

    def matches(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        most = max(_FEW, _MAX_HASHED // max(len(content), 1))
        return any(self._fits(content, signature) for signature in [*dict.fromkeys(signatures)][:most])

    def _fits(self, content: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(signature, content)
        except InvalidSignature:
            return False
        return True


class _PrivateKey(PublicKey):
    __slots__ = ("_private",)

    def __init__(self, private: Ed25519PrivateKey) -> None:
        super().__init__(private.public_key())
        self._private = private

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)


_SigningKey = HmacKey | _PrivateKey
CheckingKey = HmacKey | PublicKey


def _signing_key(scheme: Scheme, secret: object) -> _SigningKey:
    key = _secret_text(secret)
    if scheme not in _BASE64_SCHEMES:
        return text_key(key)
    if key.startswith(HMAC_PREFIX):
        return HmacKey(_secret_bytes(key, HMAC_PREFIX))
    if key.startswith(PRIVATE_PREFIX):
        return _PrivateKey(_load_private(key))
    raise SignatureError("a secret starts with whsec_ or whsk_")


def _checking_key(scheme: Scheme, secret: object) -> CheckingKey:
    key = _secret_text(secret)
    if scheme in _BASE64_SCHEMES and key.startswith(PUBLIC_PREFIX):
        return PublicKey(_load_public(key))
    return _signing_key(scheme, key)


def base64_key(secret: object) -> CheckingKey:
    """Of a receiver of Standard Webhooks: a secret may have lost its prefix or padding on the way, but is never a weak one."""
    key = with_prefix(_secret_text(secret), Scheme.STANDARD)
    if key.startswith(HMAC_PREFIX):
        _check_size(_secret_bytes(key, HMAC_PREFIX))
    return _checking_key(Scheme.STANDARD, key)


def _secret_text(secret: object) -> str:
    """A secret that was never set is the commonest fault of a receiver: `None`, or an empty text as the HMAC key."""
    if not isinstance(secret, str) or not secret:
        raise SignatureError("the secret is empty or not a text")
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
    """Padding may be missing: some senders show their secrets so, and their receivers have them so."""
    text = key.removeprefix(prefix)
    raw = decode64(text + "=" * (-len(text) % 4))
    if not raw or not key.startswith(prefix):
        raise SignatureError(f"a secret of this kind is {prefix} and base64")
    return raw


def _load_private(key: str) -> Ed25519PrivateKey:
    raw = _secret_bytes(key, PRIVATE_PREFIX)
    if len(raw) != 64:
        raise SignatureError(f"a whsk_ key has 64 bytes (seed and public key), this one {len(raw)}")
    private: Ed25519PrivateKey = _ed25519().Ed25519PrivateKey.from_private_bytes(raw[:32])
    if private.public_key().public_bytes_raw() != raw[32:]:
        raise SignatureError("the two halves of the whsk_ key do not belong together")
    return private


def _load_public(key: str) -> Ed25519PublicKey:
    raw = _secret_bytes(key, PUBLIC_PREFIX)
    if len(raw) != 32:
        raise SignatureError(f"a whpk_ key has 32 bytes, this one {len(raw)}")
    public: Ed25519PublicKey = _ed25519().Ed25519PublicKey.from_public_bytes(raw)
    return public


def _ed25519() -> ModuleType:
    """Only where such a key is used: HMAC, which nearly everybody has, needs nothing but the standard library."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SignatureError("Ed25519 keys need the package cryptography: pip install cryptography") from None
    return ed25519


# ── sign ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Signer:
    """The keys of one endpoint, prepared once per revision. A secret that cannot sign is reported when it should sign,
    so that preparing many endpoints never fails on one of them."""

    __slots__ = ("_fault", "_keys", "_lasting", "_lines")

    def __init__(self, scheme: Scheme, secrets: Sequence[Secret]) -> None:
        self._lines = _LINES[scheme]
        self._fault = "there is no secret to sign with"
        try:
            self._keys = [(_signing_key(scheme, secret.key), secret.expires_at) for secret in secrets]
        except SignatureError as fault:
            self._keys, self._fault = [], str(fault)
        all_last = all(until is None for _, until in self._keys)
        self._lasting = [key for key, _ in self._keys] if all_last else None

    def headers(self, message_id: str, timestamp: int, body: bytes, now: datetime) -> list[str]:
        """Ready lines, free of CR and LF: the id is checked, all else is digits, hex or base64."""
        if is_id(message_id) is None:
            raise SignatureError("a message id is printable ASCII without spaces and full stops")
        keys = self._current(now) if self._lasting is None else self._lasting
        if not keys:
            raise SignatureError(self._fault)
        return self._lines(keys, message_id, f"{timestamp:d}", body)

    def _current(self, now: datetime) -> list[_SigningKey]:
        return [key for key, until in self._keys if until is None or now < until]


def _dotted_lines(prefix: str, keys: Sequence[_SigningKey], message_id: str, stamp: str, body: bytes) -> list[str]:
    content = dotted_content(message_id, stamp, body)
    signatures = " ".join([f"{key.version},{encode64(key.sign(content))}" for key in keys])
    return [f"{prefix}-id: {message_id}", f"{prefix}-timestamp: {stamp}", f"{prefix}-signature: {signatures}"]


def _timed(keys: Sequence[_SigningKey], stamp: str, body: bytes) -> str:
    content = timed_content(stamp, body)
    return ",".join([f"v1={key.sign(content).hex()}" for key in keys])


def _hex_lines(keys: Sequence[_SigningKey], message_id: str, stamp: str, body: bytes) -> list[str]:
    return [
        f"webhook-id: {message_id}",
        f"webhook-timestamp: {stamp}",
        f"webhook-signature: {_timed(keys, stamp, body)}",
    ]


def _stripe_lines(keys: Sequence[_SigningKey], message_id: str, stamp: str, body: bytes) -> list[str]:
    return [f"webhook-id: {message_id}", f"Stripe-Signature: t={stamp},{_timed(keys, stamp, body)}"]


def _github_lines(keys: Sequence[_SigningKey], message_id: str, _stamp: str, body: bytes) -> list[str]:
    return [
        f"webhook-id: {message_id}",
        f"X-GitHub-Delivery: {message_id}",
        f"X-Hub-Signature-256: sha256={keys[0].sign(body).hex()}",
    ]


_LINES: dict[Scheme, Callable[[Sequence[_SigningKey], str, str, bytes], list[str]]] = {
    Scheme.STANDARD: partial(_dotted_lines, "webhook"),
    Scheme.SVIX: partial(_dotted_lines, "svix"),
    Scheme.HEX: _hex_lines,
    Scheme.STRIPE: _stripe_lines,
    Scheme.GITHUB: _github_lines,
}


# ── verify ────────────────────────────────────────────────────────────────────────────────────────────────────────


def verify(
    scheme: Scheme,
    secrets: Sequence[Secret],
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    tolerance: float = TOLERANCE,
) -> None:
    """Return if one of the secrets made one of the signatures, lately enough; else raise `SignatureError`, whatever came."""
    evidence = EVIDENCE[scheme](Request(Headers(headers), raw_body(body)))
    if evidence.stamp is not None:
        signed_at(evidence.stamp, now, tolerance)
    keys = [_checking_key(scheme, s.key) for s in secrets if s.expires_at is None or now < s.expires_at]
    if not keys:
        raise SignatureError("there is no secret to verify with")
    check_match(evidence, keys)


def check_match(evidence: SignedParts, keys: Iterable[CheckingKey]) -> None:
    found = False
    for key in keys:  # all of them, and every signature: the time taken does not tell which one fits
        for content in evidence.contents:
            found |= key.matches(content, evidence.signatures.get(key.version, ()))
    if not found:
        raise VerificationError(VerificationCode.NO_MATCH, "no signature matches")
