"""How each error is shown: the HTTP status of the API and the dashboard, and the exit code of a command."""

from __future__ import annotations

from hookline import errors

_OTHER = (500, 1)

# The HTTP status and the exit code by error class. A subclass has the same values as its base class. Errors with 500
# are faults of the deployment, or cannot occur in a request.
_SHOWN: dict[type[errors.HooklineError], tuple[int, int]] = {
    errors.InvalidInput: (422, 2),
    errors.BlockedAddress: (422, 2),
    errors.SignatureError: (401, 1),
    errors.Forbidden: (403, 1),
    errors.NotFound: (404, 3),
    errors.Conflict: (409, 5),
    errors.Busy: (503, 1),
    errors.StoreUnavailable: (503, 4),
    errors.SourceUnavailable: (500, 4),
    errors.MigrationNeeded: (500, 4),
    errors.ConfigError: (500, 2),
    errors.VaultError: (500, 2),
}


def http_status(error: Exception | None) -> int:
    return 200 if error is None else _shown(error)[0]


def exit_code(error: Exception) -> int:
    return _shown(error)[1]


def _shown(error: Exception) -> tuple[int, int]:
    return next((found for kind, found in _SHOWN.items() if isinstance(error, kind)), _OTHER)
