"""Create many encrypted values, and find every encrypted value in the database."""

from __future__ import annotations

from pathlib import Path

from hookline.model.endpoints import Secret
from hookline.security.vault import Vault
from hookline.store.rows.documents import seal_headers, seal_secrets
from tests.support import factory
from tests.support.raw import Raw
from tests.support.scene import Scene

SHORTEST = 33  # length in bytes of version, key id, nonce and tag


async def add_sealed_endpoints(scene: Scene, vault: Vault, count: int) -> None:
    """Create endpoints in an application that gets no messages."""
    app = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    secrets = (Secret(key=factory.secret_key()),)
    rows = []
    for number in range(count):
        id_ = f"ep_crowd{number:06}"
        sealed = (seal_secrets(vault, id_, secrets), seal_headers(vault, id_, {"x-number": str(number)}))
        rows.append((id_, app.no, "https://hooks.example.com/", *sealed, factory.instant()))
    await scene.raw.many(
        "INSERT INTO endpoint (id, app_no, url, secrets, headers, created_at, updated_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $6)",
        rows,
    )


async def everything(raw: Raw, database_url: str) -> bytes:
    """Return everything in the database, as a person with a copy of it can read it."""
    if raw.engine == "sqlite":
        file = Path(database_url.removeprefix("sqlite:///"))
        return b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*") if path.suffix != ".keys")
    held = b""
    tables = await raw.rows("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'hookline'")
    for table in tables:
        for row in await raw.rows(f"SELECT t.* FROM {table['name']} t"):
            held += b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in row.values())
    return held


async def sealed_columns(raw: Raw) -> dict[str, list[bytes]]:
    """Return the values that look encrypted, by `table.column`."""
    found: dict[str, list[bytes]] = {}
    for table, column in await raw.blobs():
        rows = await raw.rows(f'SELECT "{column}" AS value FROM {table} WHERE "{column}" IS NOT NULL')
        values = [row["value"] for row in rows if row["value"][:1] == b"\x01" and len(row["value"]) >= SHORTEST]
        if values:
            found[f"{table}.{column}"] = values
    return found


async def heads(raw: Raw) -> list[bytes]:
    return [value[:5] for values in (await sealed_columns(raw)).values() for value in values]
