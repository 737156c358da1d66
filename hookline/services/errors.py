"""How each error is shown: the HTTP status of the API and the dashboard, and the exit code of a command."""

from __future__ import annotations

from hookline.errors import (
    BlockedAddress,
    Busy,
    ConfigError,
    Conflict,
    Forbidden,
    HooklineError,
    InvalidInput,
    MigrationNeeded,
    NotFound,
    SignatureError,
    SourceUnavailable,
    StoreUnavailable,
    VaultError,
)

_OTHER = (500, 1)

# The HTTP status and the exit code by error class; a subclass has those of its base. Errors with 500 are faults of the
# deployment, or cannot occur in a request.
_SHOWN: dict[type[HooklineError], tuple[int, int]] = {
    InvalidInput: (422, 2),
    BlockedAddress: (422, 2),
    SignatureError: (401, 1),
    Forbidden: (403, 1),
    NotFound: (404, 3),
    Conflict: (409, 5),
    Busy: (503, 1),
    StoreUnavailable: (503, 4),
    SourceUnavailable: (500, 4),
    MigrationNeeded: (500, 4),
    ConfigError: (500, 2),
    VaultError: (500, 2),
}


def http_status(error: Exception | None) -> int:
    return 200 if error is None else _shown(error)[0]


def exit_code(error: Exception) -> int:
    return _shown(error)[1]


def _shown(error: Exception) -> tuple[int, int]:
    return next((found for kind, found in _SHOWN.items() if isinstance(error, kind)), _OTHER)
