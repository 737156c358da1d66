"""API keys: the list, the form that creates one (the key is shown once), and revoking one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hookline import ids
from hookline.dashboard import components, forms
from hookline.dashboard.forms import Field, values
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput, NotFound
from hookline.model.actors import ApiKey, Scope
from hookline.services import api_keys
from hookline.web.errors import Refused
from hookline.web.html import Child, Safe, tag

SHOWN = 50  # keys on one page
SOON = timedelta(days=7)  # keys that expire within this time are marked

_SCOPES = {
    Scope.FULL: "full: read and change everything",
    Scope.PUBLISH: "publish: publish messages, and nothing else",
    Scope.READ: "read: read everything, and change nothing",
}
_LIFETIMES = {"": "until revoked", "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year"}

_FIELDS = (
    Field("name", "Name", hint="Who uses the key, and where.", required=True, maxlength="256", autofocus=True),
    Field("scope", "Scope", options=_SCOPES),
    Field("days", "Valid for", options=_LIFETIMES),
)


# ── list ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/api-keys")
async def show(context: PageContext) -> Page:
    if not context.may_change:  # the API refuses these callers too
        raise Refused(403, "you have read-only access: only those who may create API keys can see them")
    after = context.param("after")
    if after is not None and not after.startswith(ids.API_KEY):
        raise InvalidInput("is not a position in this list", field="after")
    found = await context.store.access.api_keys(context.org_id, context.rows(SHOWN))
    keys = found[:SHOWN]
    limited_to = {key.app_id for key in keys if key.app_id is not None}
    names = await context.store.catalogue.application_names(context.org_id, limited_to)
    listed = _table(context, keys, names) if keys else _empty()
    return Page(
        title="API keys",
        aside=components.link_button(context.link("/api-keys/new"), "New API key", kind="main"),
        body=[
            context.live("verdict", _verdict(context, keys)),
            context.live("keys", listed),
            components.more(context, keys[-1].id if len(found) > SHOWN else None, "More"),
        ],
        refresh=10.0,
    )


def _verdict(context: PageContext, keys: Sequence[ApiKey]) -> Safe:
    ends = [key.expires_at for key in keys if key.expires_at is not None]
    if expired := sum(at <= context.now for at in ends):
        have = "has" if expired == 1 else "have"
        words = f"{components.count(expired, 'key')} {have} expired. Replace and revoke expired keys."
        return components.verdict("dead", words)
    if soon := sum(at <= context.now + SOON for at in ends):
        expire = "expires" if soon == 1 else "expire"
        return components.verdict("scheduled", f"{components.count(soon, 'key')} {expire} within {SOON.days} days.")
    return components.verdict("delivered", "No key expires soon." if keys else "No API keys yet.")


def _empty() -> Safe:
    return components.empty(
        "An API key gives access to the API and to this dashboard. Create one here, or with:",
        'hookline keys create "checkout service" --scope publish',
    )


def _table(context: PageContext, keys: Sequence[ApiKey], names: Mapping[str, str]) -> Safe:
    return components.table(
        keys,
        (
            ("Name", lambda key: key.name),
            ("Scope", lambda key: key.scope.value),
            ("Application", lambda key: "all" if key.app_id is None else names.get(key.app_id, key.app_id)),
            ("Key", lambda key: tag("span", f"hk_…{key.hint}", class_="id", title=key.id)),
            ("Last used", lambda key: components.ago(key.last_used_at, context.now) if key.last_used_at else "never"),
            ("Expires", lambda key: _expiry(context, key.expires_at)),
            ("Created", lambda key: components.ago(key.created_at, context.now)),
            ("", lambda key: _revoke_button(context, key)),
        ),
        caption="API keys, without revoked ones",
        key=lambda key: key.id,
    )


def _revoke_button(context: PageContext, key: ApiKey) -> Safe:
    href = context.link(f"/api-keys/{key.id}/revoke")
    return components.link_button(href, "Revoke…", kind="danger", aria_label=f"Revoke {key.name}")


def _expiry(context: PageContext, at: datetime | None) -> Child:
    if at is None:
        return tag("span", "never", class_="quiet")
    if at <= context.now:
        return components.state("dead", tag("span", "expired ", components.ago(at, context.now)))
    shown = components.ago(at, context.now)
    return components.state("scheduled", shown) if at <= context.now + SOON else shown


# ── creating ─────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/api-keys/new")
async def show_new(context: PageContext) -> Page:
    app = "" if context.app is None else context.app.id
    return await _form(context, Form({"scope": [Scope.PUBLISH], "app": [app]}))


@post("/api-keys/new")
async def create(context: PageContext, form: Form) -> Page:
    try:
        typed = values(_FIELDS, form)
        days = typed.pop("days")
        expires_at = None if days is None else context.services.wall() + timedelta(days=int(days))
        app = form.text("app") or None
        made, key = await api_keys.create(context.deps, context.caller, app=app, expires_at=expires_at, **typed)
    except (InvalidInput, NotFound) as error:
        return await _form(context, form, error)
    words = "Copy the key now. It is shown only once, because only its hash is stored."
    return Page(
        title="API key created",
        body=[
            components.verdict("scheduled", words),
            components.code(key, name="key"),
            tag("p", f"{made.name} may {_SCOPES[made.scope].partition(': ')[2]}."),
            tag("p", components.link_button(context.link("/api-keys"), "I have copied it", kind="main")),
        ],
    )


async def _form(context: PageContext, form: Form, error: InvalidInput | NotFound | None = None) -> Page:
    errors = {} if error is None else dict([_field_error(error)])
    name, scope, days = (field.draw(form, errors) for field in _FIELDS)
    app = await forms.application_field(
        context,
        "app",
        form.text("app"),
        nothing="all applications",
        hint="Empty: all applications.",
        error=errors.get("app"),
    )
    return forms.page(
        context,
        "New API key",
        "/api-keys/new",
        name,
        scope,
        app,
        days,
        back=("/api-keys", "Back to the keys"),
        press="Create the key",
        error=error,
        message="".join(f"No key was created: {name}: {text}." for name, text in errors.items()),
    )


def _field_error(error: InvalidInput | NotFound) -> tuple[str, str]:
    """Return the form field that the error is about, and its text."""
    if isinstance(error, NotFound):
        return "app", str(error)
    return error.field or "name", error.words


# ── revoking ──────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/api-keys/{key_id}/revoke")
async def show_revoke(context: PageContext) -> Page:
    """Ask before a key is revoked, and show when it was last used."""
    key = await api_keys.find(context.deps, context.caller, context.path("key_id"))
    used: Child = "The key was never used."
    if key.last_used_at is not None:
        used = tag("span", "Last used ", components.ago(key.last_used_at, context.now), ".")
    own = context.viewer.caller.key_id == key.id
    details = (
        ("Name", key.name),
        ("Scope", key.scope.value),
        ("Key", tag("span", f"hk_…{key.hint}", class_="id")),
        ("Use", used),
        ("You", "You are signed in with this key. Revoking it signs you out." if own else None),
    )
    return forms.confirmation(
        context,
        "Revoke an API key",
        f"Requests with the key {key.name} will be refused. You cannot undo this.",
        components.fields(details),
        to=context.link(f"/api-keys/{key.id}/revoke"),
        press="Revoke this key",
        cancel=context.link("/api-keys"),
    )


@post("/api-keys/{key_id}/revoke")
async def revoke(context: PageContext, _form: Form) -> Done:
    key = await api_keys.revoke(context.deps, context.caller, context.path("key_id"))
    return Done(to=context.link("/api-keys"), notice=f"{key.name} is revoked.")
