"""The JSON shapes of API keys."""

from __future__ import annotations

from typing import Annotated

from hookline.api.wire.base import NAMED, In, Instant, Out, doc, fill
from hookline.model.actors import ApiKey, Scope


class ApiKeyIn(In, frozen=True, kw_only=True):
    name: Annotated[str, doc("A name for people, such as the service that uses the key.", minLength=1, maxLength=256)]
    scope: Annotated[Scope, doc("What the key allows.")] = Scope.FULL
    app_id: Annotated[str, NAMED, doc("Limits the key to this application (id or uid).")] | None = None
    expires_at: Annotated[Instant | None, doc("When the key expires. Without it, the key never expires.")] = None


class ApiKeyOut(Out, frozen=True, kw_only=True):
    """An API key, without the key itself."""

    id: str
    name: str
    scope: Scope
    app_id: str | None
    hint: Annotated[str, doc("The last characters of the key.")]
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Annotated[Instant | None, doc("The last use, to the minute.")]


class ApiKeyMadeOut(ApiKeyOut, frozen=True, kw_only=True):
    key: Annotated[str, doc("The key. It is shown only here, because only its hash is stored.")]


def api_key(found: ApiKey) -> ApiKeyOut:
    return fill(ApiKeyOut, found)


def api_key_made(made: ApiKey, key: str) -> ApiKeyMadeOut:
    return fill(ApiKeyMadeOut, made, key=key)
