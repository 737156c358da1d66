"""API keys."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hookline.api.wire.base import NAMED, In, Instant, Out, documented, fill
from hookline.model import ApiKey, Scope


class ApiKeyIn(In, frozen=True, kw_only=True):
    name: Annotated[
        str, documented(minLength=1, maxLength=256), Meta(description="For people: who uses it, and where.")
    ]
    scope: Annotated[Scope, Meta(description="What its holder may do.")] = Scope.FULL
    app_id: (
        Annotated[str, NAMED, Meta(description="The only application it reaches, by id or uid; else all.")] | None
    ) = None
    expires_at: Annotated[Instant | None, Meta(description="From then on it is void; else it lasts.")] = None


class ApiKeyOut(Out, frozen=True, kw_only=True):
    """Without the key itself."""

    id: str
    name: str
    scope: Scope
    app_id: str | None
    hint: Annotated[str, Meta(description="The key's last characters.")]
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Annotated[Instant | None, Meta(description="To the minute.")]


class ApiKeyMadeOut(ApiKeyOut, frozen=True, kw_only=True):
    key: Annotated[str, Meta(description="Shown this once: only its hash is kept.")]


def api_key(found: ApiKey) -> ApiKeyOut:
    return fill(ApiKeyOut, found)


def api_key_made(made: ApiKey, key: str) -> ApiKeyMadeOut:
    return fill(ApiKeyMadeOut, made, key=key)
