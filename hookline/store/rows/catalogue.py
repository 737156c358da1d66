"""Rows of organizations, applications, event types, endpoints and API keys."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.errors import VaultError
from hookline.model import (
    ApiKey,
    Application,
    Endpoint,
    EventType,
    Organization,
)
from hookline.security.vault import Vault
from hookline.store.rows.documents import open_headers, open_secrets, open_url, read_metadata, read_policy
from hookline.store.rows.reading import Reading, Row, maybe, struct_of


def organization(row: Row, read: Reading) -> Organization:
    return struct_of(Organization, row, read)


def application(row: Row, read: Reading) -> Application:
    return struct_of(Application, row, read, metadata=read_metadata(row["metadata"]))


def event_type(row: Row, read: Reading) -> EventType:
    schemas = maybe(msgspec.json.decode, row["schemas"])
    return struct_of(EventType, row, read, schemas=schemas, policy=read_policy(row["policy"]))


def endpoint(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """Read an endpoint and decrypt its secrets. Raises `VaultError` if no key decrypts them; see `endpoint_or_fault`."""
    return _endpoint(
        row,
        read,
        url=open_url(vault, row["id"], row["url"], row["sealed_url"]),
        secrets=open_secrets(vault, row["id"], row["secrets"]),
        headers=open_headers(vault, row["id"], row["headers"]),
    )


def endpoint_or_fault(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """Read an endpoint for a worker. If no key decrypts its secrets, it has none and `status_reason` has the error."""
    try:
        return endpoint(row, read, vault)
    except VaultError as fault:
        return _endpoint(row, read, secrets=(), headers={}, status_reason=str(fault))


def _endpoint(row: Row, read: Reading, **given: Any) -> Endpoint:
    metadata, policy = read_metadata(row["metadata"]), read_policy(row["policy"])
    return struct_of(Endpoint, row, read, metadata=metadata, policy=policy, **given)


def api_key(row: Row, read: Reading) -> ApiKey:
    return struct_of(ApiKey, row, read)
