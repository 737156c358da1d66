"""Verify webhooks of Twilio. Twilio signs the URL and the form fields with HMAC-SHA1, without a timestamp.

Twilio does not sign a JSON body directly. It adds the SHA-256 of the body to the URL, as the parameter `bodySHA256`.

The id of a webhook is the header `I-Twilio-Idempotency-Token`, which is the same on every retry. If it is missing, the
id is the `MessageSid` or `CallSid` with a part of the signature, because many requests of one message or call have the
same sid.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl

from hookline.errors import VerificationCode, VerificationError
from hookline.receive.labels import Label, as_label, in_header
from hookline.signing.signature_headers import HMAC, Request, SignedParts, decode64, signatures

_MAX_FIELDS = 1000
_LONGEST_URL = 16 * 1024
_LONGEST_FORM = 128 * 1024  # maximum bytes of a form; decoding is slow, and the form is not verified yet
_FORM = "application/x-www-form-urlencoded"
_PORTS = {"http": "80", "https": "443"}
_SIDS = ("MessageSid", "CallSid")
_TYPES = ("EventType", "StatusCallbackEvent", "MessageStatus", "SmsStatus", "CallStatus")

_parts = re.compile(r"(https?)://((?:[^/?#]*@)?)([^/?#@]+?)((?::[0-9]*)?)((?:[/?#].*)?)", re.DOTALL).fullmatch

Form = list[tuple[str, str]]


def twilio(request: Request) -> SignedParts:
    name, url = "x-twilio-signature", _checked_url(request.url)
    found = signatures(name, [(HMAC, decode64(request.headers.field(name)))])
    fields = "".join(key + value for key, value in sorted(set(_signed_fields(url, request))))
    return SignedParts([(spelling + fields).encode() for spelling in _spellings(url)], found)


def label_of_twilio(request: Request, signed: SignedParts) -> Label:
    fields = dict(_signed_fields(_checked_url(request.url), request))
    token, sid = in_header(request, "i-twilio-idempotency-token"), _first(fields, _SIDS)
    own = None if sid is None else f"{sid}.{signed.signatures[HMAC][0].hex()[:16]}"
    return Label(token or own, _first(fields, _TYPES))


def _signed_fields(url: str, request: Request) -> Form:
    """Return the form fields that are signed after the URL. There are none if the URL has the hash of the body."""
    hashes = [value for key, value in _fields(_query(url), VerificationCode.MALFORMED_URL) if key == "bodySHA256"]
    if not hashes:
        return _form(request)
    if {each.lower() for each in hashes} != {hashlib.sha256(request.body).hexdigest()}:
        raise VerificationError(VerificationCode.NO_MATCH, "the body does not match the bodySHA256 in the URL")
    return []


def _form(request: Request) -> Form:
    kind = (request.headers.optional("content-type") or _FORM).partition(";")[0].strip().lower()
    if request.body and kind != _FORM:
        reason = f"the URL has no bodySHA256, but a body of type {kind} needs it"
        raise VerificationError(VerificationCode.MALFORMED_URL, reason)
    if len(request.body) > _LONGEST_FORM:
        raise VerificationError(VerificationCode.MALFORMED_BODY, "the form is too long")
    try:
        return _fields(request.body.decode(), VerificationCode.MALFORMED_BODY)
    except UnicodeDecodeError:
        raise VerificationError(VerificationCode.MALFORMED_BODY, "the body is not a form") from None


def _fields(text: str, code: VerificationCode) -> Form:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:  # not UTF-8, or too many fields
        raise VerificationError(code, "the form or the query of the URL cannot be read") from None


def _first(fields: dict[str, str], names: Iterable[str]) -> str | None:
    return next((label for name in names if (label := as_label(fields.get(name)))), None)


# ── the URL ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _checked_url(url: object) -> str:
    if not isinstance(url, str) or len(url) > _LONGEST_URL or not _parts(url):
        reason = "Twilio signs the URL: give the whole URL that Twilio called (url=...)"
        raise VerificationError(VerificationCode.MALFORMED_URL, reason)
    try:
        url.encode()
    except UnicodeEncodeError:
        raise VerificationError(VerificationCode.MALFORMED_URL, "the URL is not valid text") from None
    return url


def _spellings(url: str) -> list[str]:
    """Return the URLs that Twilio may have signed: as given, without a port, and with the default port.

    Proxies change the port. Twilio's own libraries try the same URLs.
    """
    found = _parts(url)
    assert found is not None
    scheme, user, host, _, rest = found.groups()
    bare = f"{scheme}://{user}{host}"
    return list(dict.fromkeys([url, f"{bare}{rest}", f"{bare}:{_PORTS[scheme]}{rest}"]))


def _query(url: str) -> str:
    return url.partition("#")[0].partition("?")[2]
