"""Rows of organizations, applications, event types, endpoints and API keys."""

from __future__ import annotations

import msgspec

from hookline.errors import VaultError
from hookline.model import (
    ApiKey,
    Application,
    Endpoint,
    EventType,
    OnDeath,
    Ordering,
    Organization,
    Scheme,
    Scope,
    Secret,
)
from hookline.model.states import EndpointStatus
from hookline.security.vault import Vault
from hookline.store.rows.documents import open_headers, open_secrets, open_url, read_metadata, read_policy
from hookline.store.rows.reading import Reading, Row, maybe


def organization(row: Row, read: Reading) -> Organization:
    return Organization(
        id=row["id"],
        name=row["name"],
        created_at=read.instant(row["created_at"]),
        tokens_valid_after=maybe(read.instant, row["tokens_valid_after"]),
    )


def application(row: Row, read: Reading) -> Application:
    return Application(
        no=row["no"],
        id=row["id"],
        org_id=row["org_id"],
        name=row["name"],
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
        uid=row["uid"],
        throttle_rate=row["throttle_rate"],
        metadata=read_metadata(row["metadata"]),
        tokens_valid_after=maybe(read.instant, row["tokens_valid_after"]),
    )


def event_type(row: Row, read: Reading) -> EventType:
    return EventType(
        org_id=row["org_id"],
        name=row["name"],
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
        description=row["description"],
        archived=bool(row["archived"]),
        deprecated=bool(row["deprecated"]),
        schemas=maybe(msgspec.json.decode, row["schemas"]),
        feature_flags=read.texts(row["feature_flags"]),
        group_name=row["group_name"],
        policy=read_policy(row["policy"]),
        validated=bool(row["validated"]),
    )


def endpoint(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """Read an endpoint and decrypt its secrets. Raises `VaultError` if no key decrypts them; see `endpoint_or_fault`."""
    return _endpoint(
        row,
        read,
        url=open_url(vault, row["id"], row["url"], row["sealed_url"]),
        secrets=open_secrets(vault, row["id"], row["secrets"]),
        headers=open_headers(vault, row["id"], row["headers"]),
        status_reason=row["status_reason"],
    )


def endpoint_or_fault(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """Read an endpoint for a worker. If no key decrypts its secrets, it has none and `status_reason` has the error."""
    try:
        return endpoint(row, read, vault)
    except VaultError as fault:
        return _endpoint(row, read, url=row["url"], secrets=(), headers={}, status_reason=str(fault))


def _endpoint(
    row: Row,
    read: Reading,
    *,
    url: str,
    secrets: tuple[Secret, ...],
    headers: dict[str, str],
    status_reason: str | None,
) -> Endpoint:
    return Endpoint(
        no=row["no"],
        id=row["id"],
        app_no=row["app_no"],
        app_id=row["app_id"],
        org_id=row["org_id"],
        url=url,
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
        uid=row["uid"],
        description=row["description"],
        version=row["version"],
        event_types=maybe(read.texts, row["event_types"]),
        channels=maybe(read.texts, row["channels"]),
        status=EndpointStatus(row["status"]),
        status_reason=status_reason,
        throttle_rate=row["throttle_rate"],
        concurrency=row["concurrency"],
        ordering=Ordering(row["ordering"]),
        on_death=OnDeath(row["on_death"]),
        scheme=Scheme(row["scheme"]),
        secrets=secrets,
        headers=headers,
        metadata=read_metadata(row["metadata"]),
        policy=read_policy(row["policy"]),
        revision=row["revision"],
    )


def api_key(row: Row, read: Reading) -> ApiKey:
    return ApiKey(
        id=row["id"],
        org_id=row["org_id"],
        name=row["name"],
        scope=Scope(row["scope"]),
        hint=row["hint"],
        created_at=read.instant(row["created_at"]),
        app_id=row["app_id"],
        expires_at=maybe(read.instant, row["expires_at"]),
        last_used_at=maybe(read.instant, row["last_used_at"]),
    )
