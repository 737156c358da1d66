"""Reads the headers that carry a signature: the timestamp, the signed content and the signatures.

This module checks the age of a timestamp (`signed_at`), but verifies no signature.
`signing/__init__.py` has the table of schemes. `Signer` writes these headers, and `receive` reads them.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from hookline.clock import EPOCH
from hookline.errors import VerificationCode, VerificationError
from hookline.model.endpoints import Scheme
from hookline.signing.headers import Headers, malformed

TOLERANCE = 300.0  # seconds by which a signed timestamp may differ from the receiver's clock, in the past or future
HMAC = "v1"  # the version under which `SignedParts.signatures` holds HMAC signatures in every scheme

# An id has no full stop: `a.1` + `2` + `x` and `a` + `1` + `2.x` would be signed as the same bytes. It has no spaces
# or control characters either.
is_id = re.compile(r"[!-\-/-~]{1,256}").fullmatch
_is_stamp = re.compile(r"[0-9]{1,11}").fullmatch  # int() also accepts "+1", "1_0" and the digits of other scripts
_is_hex = re.compile(r"(?:[0-9a-f]{2})+").fullmatch

_MAX_SIGNATURES = 32  # per header, because the check of each Ed25519 signature takes 100 µs


class Request(NamedTuple):
    headers: Headers
    body: bytes
    url: str | None = None


class SignedParts(NamedTuple):
    contents: Sequence[bytes]  # the signed content; several candidates for Twilio, whose URL has several spellings
    signatures: Mapping[str, Sequence[bytes]]  # the signatures of each version
    stamp: str | None = None  # the timestamp as received; GitHub, Shopify and Twilio send none


# ── one function per scheme that reads the signature headers ──────────────────────────────────────────────────────


def _dotted(prefix: str, request: Request) -> SignedParts:
    headers, name = request.headers, f"{prefix}-signature"
    message_id, stamp = headers.field(f"{prefix}-id"), headers.field(f"{prefix}-timestamp")
    if is_id(message_id) is None:
        raise malformed(f"the header {prefix}-id is malformed")
    parts = [part.partition(",") for part in headers.field(name).split(" ")]
    found = signatures(name, ((version, decode64(text)) for version, _, text in parts))
    return SignedParts([dotted_content(message_id, stamp, request.body)], found, stamp)


def _hex(request: Request) -> SignedParts:
    name, stamp = "webhook-signature", request.headers.field("webhook-timestamp")
    found = signatures(name, ((version, unhex(text)) for version, text in _pairs(request.headers.field(name))))
    return SignedParts([timed_content(stamp, request.body)], found, stamp)


def _stripe(request: Request) -> SignedParts:
    name = "stripe-signature"
    parts = list(_pairs(request.headers.field(name)))
    stamps = [text for key, text in parts if key == "t"]
    if len(stamps) != 1:
        raise malformed(f"the header {name} needs exactly one timestamp")
    found = signatures(name, ((key, unhex(text)) for key, text in parts if key != "t"))
    return SignedParts([timed_content(stamps[0], request.body)], found, stamps[0])


def _github(request: Request) -> SignedParts:
    name = "x-hub-signature-256"
    method, _, text = request.headers.field(name).partition("=")
    return SignedParts([request.body], signatures(name, [(HMAC, unhex(text) if method == "sha256" else None)]))


READERS: dict[Scheme, Callable[[Request], SignedParts]] = {
    Scheme.STANDARD: partial(_dotted, "webhook"),
    Scheme.SVIX: partial(_dotted, "svix"),
    Scheme.HEX: _hex,
    Scheme.STRIPE: _stripe,
    Scheme.GITHUB: _github,
}


# ── what the functions of several schemes use ─────────────────────────────────────────────────────────────────────


def dotted_content(message_id: str, stamp: str, body: bytes) -> bytes:
    return f"{message_id}.{stamp}.".encode() + body


def timed_content(stamp: str, body: bytes) -> bytes:
    return f"{stamp}.".encode() + body


def signatures(name: str, found: Iterable[tuple[str, bytes | None]]) -> dict[str, list[bytes]]:
    """Group the signatures by version. Malformed signatures are skipped. Signatures of unknown
    versions are kept, but no key verifies them."""
    known: dict[str, list[bytes]] = {}
    for count, (version, signature) in enumerate(found):
        if count >= _MAX_SIGNATURES:
            raise malformed(f"too many signatures in the header {name}")
        if signature:
            known.setdefault(version, []).append(signature)
    if not known:
        raise malformed(f"the header {name} is malformed: no signature in it")
    return known


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    """Split `t=1,v1=ab` into pairs of name and text."""
    for part in value.split(","):
        name, _, text = part.strip(" ").partition("=")
        yield name, text


def unhex(text: str) -> bytes | None:
    return bytes.fromhex(text) if _is_hex(text) else None


def encode64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()


def decode64(text: str) -> bytes | None:
    """Decode canonical base64, or return None. Other spellings of the same bytes are refused."""
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    return raw if encode64(raw) == text else None


def raw_body(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise VerificationError(
            VerificationCode.MALFORMED_BODY, "the body must be the bytes as received, before any parsing"
        )
    return bytes(body)


def signed_at(stamp: str, now: datetime, tolerance: float) -> datetime:
    """Return the time of the timestamp. Raises `VerificationError` if it differs from `now` by more than the
    tolerance."""
    if _is_stamp(stamp) is None:
        raise malformed("the timestamp is not a number of seconds")
    at = EPOCH + timedelta(seconds=int(stamp))
    age = (now - at).total_seconds()
    if not abs(age) <= tolerance:  # written this way, a tolerance of NaN refuses every timestamp
        if age > 0:
            raise VerificationError(VerificationCode.TIMESTAMP_TOO_OLD, "the timestamp is too old")
        raise VerificationError(VerificationCode.TIMESTAMP_TOO_NEW, "the timestamp is in the future")
    return at
