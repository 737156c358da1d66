"""Access to the portal, and revocation of tokens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hookline.api.wire.applications import ApplicationIn
from hookline.api.wire.base import In, Out, documented
from hookline.security.tokens import PORTAL_LIFETIME

HOUR, WEEK = 3600, int(PORTAL_LIFETIME)
CREATE_MESSAGES = "CreateMessages"


class AppPortalAccessIn(In, frozen=True, kw_only=True):
    application: Annotated[
        ApplicationIn | None, Meta(description="Made if there is no application of that id or uid yet; else ignored.")
    ] = None
    expiry: (
        Annotated[
            int,
            documented(minimum=HOUR, maximum=WEEK),
            Meta(description="Seconds that the token is valid; else 7 days."),
        ]
        | None
    ) = None
    read_only: Annotated[bool | None, Meta(description="Whether the token may only read.")] = None
    feature_flags: Annotated[
        tuple[str, ...] | None, Meta(description="Taken for compatibility; the portal shows every event type.")
    ] = None
    capabilities: Annotated[
        tuple[str, ...] | None,
        Meta(
            description=f"`{CREATE_MESSAGES}`: the token may create messages. Without it, it may not. Svix's own are not "
            "supported: use `readOnly`."
        ),
    ] = None
    session_id: Annotated[str | None, Meta(description="Taken for compatibility, and not kept.")] = None


class AppPortalAccessOut(Out, frozen=True, kw_only=True):
    url: Annotated[
        str, Meta(description="Signs in by itself. The token is behind the `#`, which browsers do not send.")
    ]
    token: Annotated[str, Meta(description="For this application only.")]

    def __repr__(self) -> str:
        return "AppPortalAccessOut(…)"


class ApplicationTokenExpireIn(In, frozen=True, kw_only=True):
    expiry: Annotated[int, Meta(ge=0, le=0, description="Tokens are void at once: 0, or nothing.")] | None = None
    session_ids: Annotated[tuple[str, ...], Meta(max_length=0, description="Not supported.")] | None = None
