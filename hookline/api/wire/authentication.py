"""Access to the portal, and revocation of tokens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hookline.api.wire.applications import ApplicationIn
from hookline.api.wire.base import In, Out, doc
from hookline.security.tokens import PORTAL_LIFETIME

HOUR, WEEK = 3600, int(PORTAL_LIFETIME)
CREATE_MESSAGES = "CreateMessages"


class AppPortalAccessIn(In, frozen=True, kw_only=True):
    application: Annotated[
        ApplicationIn | None, doc("Created if no application has the id or uid in the path. Otherwise ignored.")
    ] = None
    expiry: (
        Annotated[
            int,
            doc("Lifetime of the token in seconds. The default is 7 days.", minimum=HOUR, maximum=WEEK),
        ]
        | None
    ) = None
    read_only: Annotated[bool | None, doc("Whether the token may only read.")] = None
    feature_flags: Annotated[
        tuple[str, ...] | None, doc("Accepted for compatibility. The portal shows every event type.")
    ] = None
    capabilities: Annotated[
        tuple[str, ...] | None,
        doc(
            f"With `{CREATE_MESSAGES}`, the token may create messages. The capabilities of Svix are not "
            "supported: use `readOnly`."
        ),
    ] = None
    session_id: Annotated[str | None, doc("Accepted for compatibility, and ignored.")] = None


class AppPortalAccessOut(Out, frozen=True, kw_only=True):
    url: Annotated[str, doc("A link that signs in. The token is after the `#`, which browsers do not send.")]
    token: Annotated[str, doc("A token for this application only.")]

    def __repr__(self) -> str:
        return "AppPortalAccessOut(…)"


class ApplicationTokenExpireIn(In, frozen=True, kw_only=True):
    expiry: Annotated[int, Meta(ge=0, le=0, description="Only 0: tokens are revoked at once.")] | None = None
    session_ids: Annotated[tuple[str, ...], Meta(max_length=0, description="Not supported.")] | None = None
