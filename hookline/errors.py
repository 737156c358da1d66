"""Every error that Hookline raises on purpose. Catch `HooklineError` for all of them."""

from __future__ import annotations

from enum import StrEnum


class HooklineError(Exception):
    """Base of all errors; its text is fit to be shown to a user."""


class ConfigError(HooklineError):
    """A setting has a wrong value. The text names the variable and what it takes."""


class IllegalMove(HooklineError):
    """A delivery was asked to go where `states.MOVES` does not let it: a bug."""


class AboutField(HooklineError):
    """Base of errors that may be about one field of the input. The text begins with the field's name."""

    def __init__(self, words: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {words}" if field else words)
        self.words = words  # the text without the field
        self.field = field  # empty: about no single field; dots lead into nested ones


class InvalidInput(AboutField):
    """The caller gave something that cannot be accepted; nothing was changed."""


class Forbidden(HooklineError):
    """The caller may not do this, whatever they name."""


class NotFound(HooklineError):
    """There is no such thing, or it belongs to somebody else."""


class NoSuch(NotFound):
    """No object of that kind has this name, as far as the caller may reach."""

    def __init__(self, kind: str, ref: str) -> None:
        super().__init__(f"no {kind} {ref!r}")
        self.kind = kind


class Conflict(HooklineError):
    """It exists already (a uid or event id that is taken), or is not in a state in which this can be done."""


class TooManyEndpoints(Conflict):
    """The application has as many endpoints as its customer may make."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the application has reached its limit of {most} endpoints: delete one first")


class Overtaken(Conflict):
    """Somebody else changed it between the look and the write."""


class BlockedAddress(AboutField):
    """The guard refuses this URL or address."""


class VaultError(HooklineError):
    """A stored secret cannot be opened: no configured key fits, or the row was tampered with."""


class SignatureError(HooklineError):
    """A signature, timestamp, secret or header is not valid."""


class VerificationCode(StrEnum):
    MISSING_HEADER = "missing_header"
    MALFORMED_HEADER = "malformed_header"  # or one that came twice
    MALFORMED_BODY = "malformed_body"  # not the raw bytes; not a form; not the JSON that was asked for
    MALFORMED_URL = "malformed_url"  # only Twilio signs the URL
    TIMESTAMP_TOO_OLD = "timestamp_too_old"
    TIMESTAMP_TOO_NEW = "timestamp_too_new"
    NO_MATCH = "no_match"  # all is well formed, and no secret made any of the signatures


class VerificationError(SignatureError):
    """A webhook that nobody with one of the secrets has signed, or not lately, or that cannot be read."""

    def __init__(self, code: VerificationCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[VerificationError], tuple[VerificationCode, str]]:
        return type(self), (self.code, str(self))


class Busy(HooklineError):
    """There is too much to do at this moment. Nothing was changed; try again."""


class StoreUnavailable(HooklineError):
    """The database cannot be reached now. Nothing is known to be lost; try again."""


class SourceUnavailable(HooklineError):
    """An application's own database, whose outbox is relayed, cannot be reached now. What is in it waits there."""


class MigrationNeeded(HooklineError):
    """The database is older or newer than this release. The text says which, and what to run."""
