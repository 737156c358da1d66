"""Signs a webhook: makes the header lines that carry its signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from hookline.errors import SignatureError
from hookline.model.endpoints import Scheme, Secret
from hookline.signing.keys import SigningKey, signing_key
from hookline.signing.signature_headers import dotted_content, encode64, is_id, timed_content


class Signer:
    """Signs the requests to one endpoint. Its keys are prepared once per revision of the endpoint.

    An invalid secret raises an error in `headers`, not in the constructor. So if many
    endpoints are prepared together, an invalid secret of one does not affect the others.
    """

    def __init__(self, scheme: Scheme, secrets: Sequence[Secret]) -> None:
        self._lines = _LINES[scheme]
        self._error = "there is no secret to sign with"
        try:
            self._keys = [(signing_key(scheme, secret.key), secret.expires_at) for secret in secrets]
        except SignatureError as error:
            self._keys, self._error = [], str(error)

    def headers(self, message_id: str, timestamp: int, body: bytes, now: datetime) -> list[str]:
        """Return the header lines. They contain no CR or LF: the id is checked, and the rest is digits, hex or
        base64."""
        if is_id(message_id) is None:
            raise SignatureError("a message id is printable ASCII without spaces and full stops")
        keys = [key for key, until in self._keys if until is None or now < until]
        if not keys:
            raise SignatureError(self._error)
        return self._lines(keys, message_id, f"{timestamp:d}", body)


def _dotted_lines(prefix: str, keys: Sequence[SigningKey], message_id: str, stamp: str, body: bytes) -> list[str]:
    content = dotted_content(message_id, stamp, body)
    signatures = " ".join([f"{key.version},{encode64(key.sign(content))}" for key in keys])
    return _three_lines(prefix, message_id, stamp, signatures)


def _three_lines(prefix: str, message_id: str, stamp: str, signatures: str) -> list[str]:
    return [f"{prefix}-id: {message_id}", f"{prefix}-timestamp: {stamp}", f"{prefix}-signature: {signatures}"]


def _timed(keys: Sequence[SigningKey], stamp: str, body: bytes) -> str:
    content = timed_content(stamp, body)
    return ",".join([f"v1={key.sign(content).hex()}" for key in keys])


def _hex_lines(keys: Sequence[SigningKey], message_id: str, stamp: str, body: bytes) -> list[str]:
    return _three_lines("webhook", message_id, stamp, _timed(keys, stamp, body))


def _stripe_lines(keys: Sequence[SigningKey], message_id: str, stamp: str, body: bytes) -> list[str]:
    return [f"webhook-id: {message_id}", f"Stripe-Signature: t={stamp},{_timed(keys, stamp, body)}"]


def _github_lines(keys: Sequence[SigningKey], message_id: str, _stamp: str, body: bytes) -> list[str]:
    return [
        f"webhook-id: {message_id}",
        f"X-GitHub-Delivery: {message_id}",
        f"X-Hub-Signature-256: sha256={keys[0].sign(body).hex()}",
    ]


_LINES: dict[Scheme, Callable[[Sequence[SigningKey], str, str, bytes], list[str]]] = {
    Scheme.STANDARD: partial(_dotted_lines, "webhook"),
    Scheme.SVIX: partial(_dotted_lines, "svix"),
    Scheme.HEX: _hex_lines,
    Scheme.STRIPE: _stripe_lines,
    Scheme.GITHUB: _github_lines,
}
