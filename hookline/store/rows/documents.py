"""Columns that contain a document, as JSON or encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hookline.model.endpoints import Secret
from hookline.model.policy import PolicyOverride
from hookline.rules.operational_events import MANAGEMENT
from hookline.security.vault import Vault

_policy_decoder = msgspec.json.Decoder(PolicyOverride)
_strings_decoder = msgspec.json.Decoder(dict[str, str])
_secrets_decoder = msgspec.json.Decoder(tuple[Secret, ...])


def policy_text(policy: PolicyOverride | None) -> str | None:
    """Encode a policy as JSON; None if it overrides nothing."""
    if policy is None:
        return None
    text = msgspec.json.encode(policy).decode()
    return None if text == "{}" else text


def read_policy(text: str | None) -> PolicyOverride | None:
    return None if text is None else _policy_decoder.decode(text)


def storable(*texts: str | None) -> bool:
    """Return whether both engines can store these texts."""
    return not any(letter == "\x00" or "\ud800" <= letter <= "\udfff" for letter in "".join(filter(None, texts)))


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def headers_blob(headers: dict[str, str]) -> bytes | None:
    """Encode the response headers that are stored. They are bytes, because endpoints may send invalid text."""
    return _json_bytes(headers) if headers else None


def read_headers(blob: bytes | None) -> dict[str, str]:
    return {} if not blob else _strings_decoder.decode(blob)


def _json_bytes(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # the text contains a lone surrogate
        return msgspec.json.encode({without_surrogates(name): without_surrogates(text) for name, text in value.items()})


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which no database can store."""
    return text.encode("utf-8", "replace").decode("utf-8")


# ── encrypted ───────────────────────────────────────────────────────────────────────────────────────────────────────


def seal_secrets(vault: Vault, endpoint_id: str, secrets: Sequence[Secret]) -> bytes:
    return vault.seal(msgspec.json.encode(list(secrets)), endpoint_id)


def seal_headers(vault: Vault, endpoint_id: str, headers: dict[str, str]) -> bytes | None:
    """Encrypt headers with `<endpoint id>/headers` as associated data. `seal_secrets` uses the endpoint's id alone. So
    neither of the two encrypted values of one row decrypts in place of the other."""
    return vault.seal(msgspec.json.encode(headers), f"{endpoint_id}/headers") if headers else None


def open_secrets(vault: Vault, endpoint_id: str, sealed: bytes) -> tuple[Secret, ...]:
    return _secrets_decoder.decode(vault.open(sealed, endpoint_id))


def open_headers(vault: Vault, endpoint_id: str, sealed: bytes | None) -> dict[str, str]:
    if sealed is None:
        return {}
    return _strings_decoder.decode(vault.open(sealed, f"{endpoint_id}/headers"))


def place_url(vault: Vault, org_id: str, endpoint_id: str, url: str) -> tuple[str, bytes | None]:
    """Return the values of the columns `url` and `sealed_url`. URLs of alert channels and operational webhooks are
    encrypted, because they can contain secrets (Slack's do)."""
    if org_id != MANAGEMENT:
        return url, None
    return _host_of(url), vault.seal(url.encode(), f"{endpoint_id}/url")


def open_url(vault: Vault, endpoint_id: str, shown: str, sealed: bytes | None) -> str:
    return shown if sealed is None else vault.open(sealed, f"{endpoint_id}/url").decode()


def _host_of(url: str) -> str:
    """Return scheme, host and port of a URL. People can recognize the URL by them, and the guard can check them."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…"


# bits of the random number that fences a lease on an idempotency key; both engines can store an integer of this size
CLAIM_BITS = 62


def seal_answer(vault: Vault, key: bytes, response: bytes) -> bytes:
    """Encrypt a stored response, because some responses contain a secret that is shown once."""
    return vault.seal(response, f"answer/{key.hex()}")


def open_answer(vault: Vault, key: bytes, sealed: bytes | None) -> bytes:
    return b"" if sealed is None else vault.open(sealed, f"answer/{key.hex()}")
