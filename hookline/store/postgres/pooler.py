"""Connection poolers such as PgBouncer. A pooler must give each connection a session of its own (session mode).

Hookline needs session state: locks that end with their session, LISTEN, and prepared statements. In transaction mode
and in statement mode, each transaction may run in another session. A lock would then stay in a session that nobody
uses, and the next migration would wait for it without end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from asyncpg import exceptions as pg

from hookline.errors import ConfigError

NEEDS_SESSIONS = (
    "the connection pooler runs in transaction or statement mode, and Hookline needs session mode: "
    "set pool_mode = session for this database, or use the URL of PostgreSQL itself"
)
# Errors that say that a connection got another session of the server. A statement is prepared in one session only.
MOVED = (pg.InvalidSQLStatementNameError, pg.DuplicatePreparedStatementError)

_SESSION = "SELECT pg_backend_pid()"
_ROUNDS = 4  # number of comparisons; a busy pooler may give two connections different sessions for a while
_TRACKED = {"application_name", "timezone"}  # settings that PgBouncer always accepts


async def is_between(connection: Any) -> bool:
    """Return whether a pooler answers in place of the server. A pooler sends a process id of its own."""
    return bool(connection.get_server_pid() != await connection.fetchval(_SESSION))


async def check_sessions(one: Any, other: Any) -> None:
    """Raise `ConfigError` if the open connections `one` and `other` share a session, or if
    one of the two changes its session."""
    sessions = {(await one.fetchval(_SESSION), await other.fetchval(_SESSION)) for _ in range(_ROUNDS)}
    first, second = sessions.pop()
    if sessions or first == second:
        raise ConfigError(NEEDS_SESSIONS)


def advice(error: BaseException, settings: Iterable[str]) -> str | None:
    """Return what an operator must change if the error comes from the way in which a pooler is configured."""
    if isinstance(error, MOVED):
        return NEEDS_SESSIONS
    if isinstance(error, pg.ProtocolViolationError) and "startup parameter" in str(error):
        names = ", ".join(sorted(set(settings) - _TRACKED))
        return f"the connection pooler refuses a setting ({error}): in pgbouncer.ini, set ignore_startup_parameters = {names}"
    return None
