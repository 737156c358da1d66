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

import binascii
import hmac
import re
import secrets as randomness
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hookline.clock import to_micros
from hookline.errors import InvalidInput, SignatureError
from hookline.model import Scheme, Secret

__all__ = ["TOLERANCE", "Signer", "check_secret", "new_keypair", "new_secret", "public_key", "verify", "with_prefix"]

TOLERANCE = 300.0  # seconds that a signed timestamp may lie from the receiver's clock, before or after

HMAC_PREFIX, PRIVATE_PREFIX, PUBLIC_PREFIX = "whsec_", "whsk_", "whpk_"

_BASE64_SCHEMES = frozenset({Scheme.STANDARD, Scheme.SVIX})

# No full stop: `a.1` + `2` + `x` and `a` + `1` + `2.x` would be signed as the same bytes. No space, no control character.
_is_id = re.compile(r"[!-\-/-~]{1,256}").fullmatch
_is_stamp = re.compile(r"[0-9]{1,12}").fullmatch  # int() also takes "+1", "1_0" and the digits of other scripts
_is_bare = re.compile(r"[A-Za-z0-9+/]{30,98}={0,2}").fullmatch  # a secret without the `whsec_` in front of it
_is_hex_digest = re.compile(r"[0-9a-f]{64}").fullmatch

_LONGEST_FIELD = 8192
_MOST_SIGNATURES = 32  # an Ed25519 check costs 100 µs; a header full of them must not cost a second


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def new_secret() -> str:
    return HMAC_PREFIX + _encode64(randomness.token_bytes(32))


def new_keypair() -> tuple[str, str]:
    """An Ed25519 pair: `whsk_…` stays here and signs, `whpk_…` is for the receiver."""
    seed = randomness.token_bytes(32)
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return PRIVATE_PREFIX + _encode64(seed + public), PUBLIC_PREFIX + _encode64(public)


def public_key(private: str) -> str:
    """The `whpk_…` of a `whsk_…`: what a receiver is shown. Raises `SignatureError` if it is not one."""
    return PUBLIC_PREFIX + _encode64(_load_private(private).public_key().public_bytes_raw())


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


def _check_hmac_secret(key: str) -> None:
    size = len(_check_base64(key, HMAC_PREFIX))
    if not 24 <= size <= 64:
        raise InvalidInput(f"a whsec_ secret has 24 to 64 bytes, this one {size}")


def _check_private_key(key: str) -> None:
    _check_base64(key, PRIVATE_PREFIX)
    try:
        _load_private(key)
    except SignatureError as fault:
        raise InvalidInput(str(fault)) from None


def _check_base64(key: str, prefix: str) -> bytes:
    raw = _decode64(key.removeprefix(prefix))
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


class _HmacKey:
    __slots__ = ("_start",)
    version = "v1"

    def __init__(self, key: bytes) -> None:
        self._start = hmac.new(key, digestmod="sha256")

    def sign(self, content: bytes) -> bytes:
        mac = self._start.copy()  # the padded key is hashed already: 0.6 µs less than hmac.digest
        mac.update(content)
        return mac.digest()

    def matches(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        expected, found = self.sign(content), False
        for signature in signatures:  # all of them: the time taken does not tell which one fits
            found |= hmac.compare_digest(expected, signature)
        return found


class _PublicKey:
    __slots__ = ("_public",)
    version = "v1a"

    def __init__(self, public: Ed25519PublicKey) -> None:
        self._public = public

    def matches(self, content: bytes, signatures: Sequence[bytes]) -> bool:
        return any(self._fits(content, signature) for signature in signatures)

    def _fits(self, content: bytes, signature: bytes) -> bool:
        try:
            self._public.verify(signature, content)
        except InvalidSignature:
            return False
        return True


class _PrivateKey(_PublicKey):
    __slots__ = ("_private",)

    def __init__(self, private: Ed25519PrivateKey) -> None:
        super().__init__(private.public_key())
        self._private = private

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)


_SigningKey = _HmacKey | _PrivateKey
_CheckingKey = _HmacKey | _PublicKey


def _signing_key(scheme: Scheme, secret: object) -> _SigningKey:
    key = _secret_text(secret)
    if scheme not in _BASE64_SCHEMES:
        return _text_key(key)
    if key.startswith(HMAC_PREFIX):
        return _HmacKey(_secret_bytes(key, HMAC_PREFIX))
    if key.startswith(PRIVATE_PREFIX):
        return _PrivateKey(_load_private(key))
    raise SignatureError("a secret starts with whsec_ or whsk_")


def _checking_key(scheme: Scheme, secret: object) -> _CheckingKey:
    key = _secret_text(secret)
    if scheme in _BASE64_SCHEMES and key.startswith(PUBLIC_PREFIX):
        return _PublicKey(_load_public(key))
    return _signing_key(scheme, key)


def _secret_text(secret: object) -> str:
    """A secret that was never set is the commonest fault of a receiver: `None`, or an empty text as the HMAC key."""
    if not isinstance(secret, str) or not secret:
        raise SignatureError("the secret is empty or not a text")
    return secret


def _text_key(key: str) -> _HmacKey:
    if key.startswith((PRIVATE_PREFIX, PUBLIC_PREFIX)):
        raise SignatureError("this scheme has no Ed25519 signatures")
    try:
        return _HmacKey(key.encode())
    except UnicodeEncodeError:
        raise SignatureError("the secret is not valid text") from None


def _secret_bytes(key: str, prefix: str) -> bytes:
    """Padding may be missing: some senders show their secrets so, and their receivers have them so."""
    text = key.removeprefix(prefix)
    raw = _decode64(text + "=" * (-len(text) % 4))
    if not raw or not key.startswith(prefix):
        raise SignatureError(f"a secret of this kind is {prefix} and base64")
    return raw


def _load_private(key: str) -> Ed25519PrivateKey:
    raw = _secret_bytes(key, PRIVATE_PREFIX)
    if len(raw) != 64:
        raise SignatureError(f"a whsk_ key has 64 bytes (seed and public key), this one {len(raw)}")
    private = Ed25519PrivateKey.from_private_bytes(raw[:32])
    if private.public_key().public_bytes_raw() != raw[32:]:
        raise SignatureError("the two halves of the whsk_ key do not belong together")
    return private


def _load_public(key: str) -> Ed25519PublicKey:
    raw = _secret_bytes(key, PUBLIC_PREFIX)
    if len(raw) != 32:
        raise SignatureError(f"a whpk_ key has 32 bytes, this one {len(raw)}")
    return Ed25519PublicKey.from_public_bytes(raw)


def _encode64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()


def _decode64(text: str) -> bytes | None:
    """Only the one spelling: the spare bits of the last letter would let a changed signature through."""
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    return raw if _encode64(raw) == text else None


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
        if _is_id(message_id) is None:
            raise SignatureError("a message id is printable ASCII without spaces and full stops")
        keys = self._current(now) if self._lasting is None else self._lasting
        if not keys:
            raise SignatureError(self._fault)
        return self._lines(keys, message_id, f"{timestamp:d}", body)

    def _current(self, now: datetime) -> list[_SigningKey]:
        return [key for key, until in self._keys if until is None or now < until]


def _dotted_lines(prefix: str, keys: Sequence[_SigningKey], message_id: str, stamp: str, body: bytes) -> list[str]:
    content = _dotted_content(message_id, stamp, body)
    signatures = " ".join([f"{key.version},{_encode64(key.sign(content))}" for key in keys])
    return [f"{prefix}-id: {message_id}", f"{prefix}-timestamp: {stamp}", f"{prefix}-signature: {signatures}"]


def _timed(keys: Sequence[_SigningKey], stamp: str, body: bytes) -> str:
    content = _timed_content(stamp, body)
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


def _dotted_content(message_id: str, stamp: str, body: bytes) -> bytes:
    return f"{message_id}.{stamp}.".encode() + body


def _timed_content(stamp: str, body: bytes) -> bytes:
    return f"{stamp}.".encode() + body


# ── verify ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Claim(NamedTuple):
    """What the headers of a request say: when it was signed (GitHub does not tell), what, and the signatures by version."""

    stamp: str | None
    content: bytes
    signatures: dict[str, list[bytes]]


def verify(
    scheme: Scheme,
    secrets: Sequence[Secret],
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    tolerance: float = TOLERANCE,
) -> None:
    """Return if one of the secrets made one of the signatures, lately enough; else raise `SignatureError`, whatever came."""
    claim = _CLAIMS[scheme](headers, _raw_body(body))
    if claim.stamp is not None:
        _check_time(claim.stamp, now, tolerance)
    keys = [_checking_key(scheme, s.key) for s in secrets if s.expires_at is None or now < s.expires_at]
    if not keys:
        raise SignatureError("there is no secret to verify with")
    matched = [key.matches(claim.content, claim.signatures.get(key.version, ())) for key in keys]
    if not any(matched):
        raise SignatureError("no signature matches")


def _raw_body(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise SignatureError("the body must be the bytes as they came, before any parsing")
    return bytes(body)


def _check_time(stamp: str, now: datetime, tolerance: float) -> None:
    if _is_stamp(stamp) is None:
        raise SignatureError("the timestamp is not a number of seconds")
    age = to_micros(now) / 1_000_000 - int(stamp)
    if not abs(age) <= tolerance:  # in this form a tolerance that is not a number refuses
        raise SignatureError("the timestamp is too old" if age > 0 else "the timestamp is in the future")


def _field(headers: Mapping[str, str], name: str) -> str:
    found: list[object] = [value for key, value in headers.items() if isinstance(key, str) and key.lower() == name]
    if not found:
        raise SignatureError(f"the header {name} is missing")
    if len(found) > 1:
        raise SignatureError(f"the header {name} was given more than once")
    value = found[0]
    if not isinstance(value, str) or not value.isascii() or not 0 < len(value) <= _LONGEST_FIELD:
        raise SignatureError(f"the header {name} is malformed")
    return value


def _dotted_claim(prefix: str, headers: Mapping[str, str], body: bytes) -> _Claim:
    message_id, stamp = _field(headers, f"{prefix}-id"), _field(headers, f"{prefix}-timestamp")
    if _is_id(message_id) is None:
        raise SignatureError(f"the header {prefix}-id is malformed")
    pairs = [part.partition(",") for part in _field(headers, f"{prefix}-signature").split(" ")]
    signatures = _by_version((version, _decode64(text)) for version, _, text in pairs)
    return _Claim(stamp, _dotted_content(message_id, stamp, body), signatures)


def _hex_claim(headers: Mapping[str, str], body: bytes) -> _Claim:
    stamp, pairs = _field(headers, "webhook-timestamp"), _pairs(_field(headers, "webhook-signature"))
    return _Claim(stamp, _timed_content(stamp, body), _by_version((name, _unhex(text)) for name, text in pairs))


def _stripe_claim(headers: Mapping[str, str], body: bytes) -> _Claim:
    pairs = _pairs(_field(headers, "stripe-signature"))
    stamps = [value for name, value in pairs if name == "t"]
    if len(stamps) != 1:
        raise SignatureError("the header stripe-signature needs exactly one timestamp")
    signatures = _by_version((name, _unhex(text)) for name, text in pairs)
    return _Claim(stamps[0], _timed_content(stamps[0], body), signatures)


def _github_claim(headers: Mapping[str, str], body: bytes) -> _Claim:
    name, _, text = _field(headers, "x-hub-signature-256").partition("=")
    version = _HmacKey.version if name == "sha256" else name
    return _Claim(None, body, _by_version([(version, _unhex(text))]))


_CLAIMS: dict[Scheme, Callable[[Mapping[str, str], bytes], _Claim]] = {
    Scheme.STANDARD: partial(_dotted_claim, "webhook"),
    Scheme.SVIX: partial(_dotted_claim, "svix"),
    Scheme.HEX: _hex_claim,
    Scheme.STRIPE: _stripe_claim,
    Scheme.GITHUB: _github_claim,
}


def _pairs(value: str) -> list[tuple[str, str]]:
    """`t=1,v1=ab` → pairs."""
    parts = [part.strip(" ").partition("=") for part in value.split(",")]
    return [(name, text) for name, _, text in parts]


def _unhex(text: str) -> bytes | None:
    return bytes.fromhex(text) if _is_hex_digest(text) else None


def _by_version(signatures: Iterable[tuple[str, bytes | None]]) -> dict[str, list[bytes]]:
    """Unknown versions and malformed signatures are passed over: a sender may add new ones beside those we know."""
    found: dict[str, list[bytes]] = {}
    for count, (version, signature) in enumerate(signatures):
        if count >= _MOST_SIGNATURES:
            raise SignatureError("too many signatures")
        if signature is not None:
            found.setdefault(version, []).append(signature)
    return found
