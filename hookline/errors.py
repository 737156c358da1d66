"""The errors that Hookline raises. Catch `HooklineError` for all of them."""

from __future__ import annotations

from enum import StrEnum


class HooklineError(Exception):
    """Base class of all errors. Its text may be shown to users."""


class ConfigError(HooklineError):
    """A setting has an invalid value. The text names the variable and the values that it accepts."""


class IllegalMove(HooklineError):
    """A delivery would make a transition that `states.MOVES` does not allow. This is a bug in Hookline."""


class AboutField(HooklineError):
    """Base of errors that may be about one field of the input. If there is a `field`, the text begins with it."""

    def __init__(self, words: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {words}" if field else words)
        self.words = words  # the text without the field's name
        self.field = field  # name of the field, such as `schemas.1`; empty if the error is not about one field


class InvalidInput(AboutField):
    """The caller's input is invalid. Nothing was changed."""


class Forbidden(HooklineError):
    """The caller is not allowed to do this action, whatever the object."""


class NotFound(HooklineError):
    """The object does not exist, or it belongs to another organization or application."""


class NoSuch(NotFound):
    """The caller can access no object of this kind with this id or name."""

    def __init__(self, kind: str, ref: str) -> None:
        shown = ref if len(ref) <= 60 else f"{ref[:60]}…"
        super().__init__(f"no {kind} {shown!r}")
        self.kind = kind


class Conflict(HooklineError):
    """The object already exists (its uid or event id is taken), or its state does not allow the action."""


class TooManyEndpoints(Conflict):
    """The application already has the maximum number of endpoints that its customer may create."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the application has reached its limit of {limit} endpoints: delete one first")


class Overtaken(Conflict):
    """Another request changed the object between the read and the write."""


class BlockedAddress(AboutField):
    """The guard refuses this URL or IP address as a destination of webhooks."""


class VaultError(HooklineError):
    """A stored secret cannot be decrypted: none of the configured keys sealed it, or the row was changed."""


class SignatureError(HooklineError):
    """A signature, timestamp, secret or header is invalid."""


class VerificationCode(StrEnum):
    MISSING_HEADER = "missing_header"
    MALFORMED_HEADER = "malformed_header"  # a header has the wrong format, or is repeated
    # One of three checks failed: the verifier needs the body as bytes and not as a parsed value, the body of a webhook
    # from Twilio must be a form, and `Webhook.json` needs JSON of the expected type.
    MALFORMED_BODY = "malformed_body"
    MALFORMED_URL = "malformed_url"  # only for Twilio, which signs the URL
    TIMESTAMP_TOO_OLD = "timestamp_too_old"
    TIMESTAMP_TOO_NEW = "timestamp_too_new"
    NO_MATCH = "no_match"  # the request is well-formed, but no signature was made with one of the secrets


class VerificationError(SignatureError):
    """A received webhook cannot be verified: it is malformed, too old, too new, or not signed with one of the
    secrets."""

    def __init__(self, code: VerificationCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[VerificationError], tuple[VerificationCode, str]]:
        return type(self), (self.code, str(self))


class Busy(HooklineError):
    """The server is overloaded. Nothing was changed; try again."""


class StoreUnavailable(HooklineError):
    """Hookline's database is not reachable. The caller cannot know whether its change was saved. It can
    try again."""


class SourceUnavailable(HooklineError):
    """The relay cannot read an application's own database at the moment. The rows wait in its outbox."""


class MigrationNeeded(HooklineError):
    """The database schema is older or newer than this release. The text says which, and which command to run."""
