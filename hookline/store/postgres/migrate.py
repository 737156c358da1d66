"""Apply migrations to a PostgreSQL database."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from asyncpg import InsufficientPrivilegeError

from hookline.errors import ConfigError, MigrationNeeded
from hookline.store.bounds import SCHEMA_VERSION
from hookline.store.postgres import table_locks
from hookline.store.postgres.connection import close
from hookline.store.postgres.database import Connection, Database, translated

_INCLUDE = re.compile(r"^-- include: (\S+)$", re.MULTILINE)


class Schema:
    """The version of the schema, and its migrations."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._sql = database.sql

    async def version(self) -> int:
        async with self._db.any_scan() as connection:
            return await self._version(connection)

    async def _version(self, connection: Connection) -> int:
        if not await connection.fetchval(self._sql["migration_exists"]):
            return 0
        number: int = await connection.fetchval(self._sql["version"])
        return number

    async def migrate(self) -> list[int]:
        """Migrate on a separate connection. It holds a lock until all migrations are applied, so a second process
        waits."""
        connection = await self._db.connect()
        try:
            with translated():
                try:
                    await connection.execute(self._sql["migration_lock"])
                    return await self._migrate(connection)
                except InsufficientPrivilegeError as error:
                    raise _denied(error, await connection.fetchrow(self._sql["migration_owner"])) from error
        finally:
            await close(connection)

    async def _migrate(self, connection: Connection) -> list[int]:
        before = await self._version(connection)
        if before > SCHEMA_VERSION:
            raise MigrationNeeded(
                f"the database is at version {before}, newer than this release ({SCHEMA_VERSION}): upgrade"
            )
        if before == 0:
            await self._check_encoding(connection)
        missing = [(number, text) for number, text in migrations() if before < number <= SCHEMA_VERSION]
        for number, text in missing:
            await self._add_migration(connection, number, text)
        return [number for number, _ in missing]

    async def _add_migration(self, connection: Connection, number: int, text: str) -> None:
        """Apply one migration in its own transaction, so that its locks are released before the next migration waits
        for locks."""

        async def whole(connection: Connection) -> None:
            await connection.execute(self._sql["migration_table"])
            await connection.execute(text)
            await connection.execute(self._sql["migration_add"], number)

        async def blockers() -> list[Any]:
            return await self._db.fetch("migration_blockers", connection.get_server_pid())

        await table_locks.with_lock_retries(connection, whole, blockers, f"migration {number}")

    async def _check_encoding(self, connection: Connection) -> None:
        """Require UTF-8. With another encoding the driver may be unable to read some text, and a whole batch would
        fail."""
        encoding = await connection.fetchval(self._sql["encoding"])
        if encoding != "UTF8":
            raise ConfigError(
                f"the database's encoding is {encoding}, and Hookline needs UTF8: "
                "CREATE DATABASE hookline ENCODING 'UTF8' TEMPLATE template0"
            )


def _denied(error: InsufficientPrivilegeError, found: Any) -> MigrationNeeded:
    """Explain a missing privilege. A possible cause: an application created the outbox earlier, as another role."""
    me, owner = found["me"], found["owner"]
    if owner is None:
        return MigrationNeeded(f"{error}: run GRANT CREATE ON DATABASE {found['database']} TO {me}")
    return MigrationNeeded(
        f"{error}: the schema hookline belongs to {owner}; run GRANT {owner} TO {me}, or migrate with a URL of {owner}"
    )


def migrations() -> list[tuple[int, str]]:
    """Return the migrations by number: `0001_initial.sql` is number 1."""
    folder = resources.files("hookline.store") / "migrations" / "postgres"
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return sorted((int(file.name.partition("_")[0]), _expand(file.read_text(encoding="utf-8"))) for file in files)


def _expand(text: str) -> str:
    """Replace the includes of a migration. The outbox's SQL is a separate file, because an application's own database
    may have only the outbox."""
    return _INCLUDE.sub(lambda found: (resources.files("hookline") / found[1]).read_text(encoding="utf-8"), text)
