"""API keys: who holds which, a new one (shown once), and revoking one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hookline import ids
from hookline.dashboard import components
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput, NotFound
from hookline.model import ApiKey, Application, Scope
from hookline.services import api_keys
from hookline.services.errors import http_status
from hookline.store.protocols import Page as Rows
from hookline.web.errors import Refused
from hookline.web.html import Child, Safe, tag

SHOWN = 50
MAX_LISTED = 200  # applications to choose from; any other can be typed
SOON = timedelta(days=7)

_SCOPES = {
    Scope.FULL: "full: everything",
    Scope.PUBLISH: "publish: accept messages, and nothing else",
    Scope.READ: "read: look, and change nothing",
}
_LIVES = {"": "until it is revoked", "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year"}


def _check(context: PageContext) -> None:
    """As in the API: who holds which key is the business of those who may make one."""
    if not context.may_change:
        raise Refused(403, "API keys are shown to those who may make them: you may only look at the rest")


# ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def show(context: PageContext) -> Page:
    _check(context)
    after = context.param("after")
    if after is not None and not after.startswith(ids.API_KEY):
        raise InvalidInput("is not a place in this listing", field="after")
    found = await context.store.api_keys(context.org_id, Rows(limit=SHOWN + 1, iterator=after))
    keys = found[:SHOWN]
    names = await context.store.application_names(
        context.org_id, {key.app_id for key in keys if key.app_id is not None}
    )
    listed = _table(context, keys, names) if keys else _nothing()
    return Page(
        title="API keys",
        rail="keys",
        aside=components.link_button(context.link("/api-keys/new"), "New API key", kind="main"),
        body=[
            context.live("verdict", _verdict(context, keys)),
            context.live("keys", listed),
            components.more(context, keys[-1].id if len(found) > SHOWN else None, "More"),
        ],
        refresh_seconds=10.0,
    )


def _verdict(context: PageContext, keys: Sequence[ApiKey]) -> Safe:
    over = [key for key in keys if key.expires_at is not None and key.expires_at <= context.now]
    soon = [key for key in keys if key.expires_at is not None and context.now < key.expires_at <= context.now + SOON]
    if over:
        have = "has" if len(over) == 1 else "have"
        return components.verdict(
            "dead", f"{components.count(len(over), 'key')} {have} expired: replace what uses it, and revoke it."
        )
    if soon:
        expires = "expires" if len(soon) == 1 else "expire"
        return components.verdict(
            "scheduled", f"{components.count(len(soon), 'key')} {expires} within {SOON.days} days."
        )
    return components.verdict("delivered", "No key expires soon." if keys else "No API keys yet.")


def _nothing() -> Safe:
    return components.empty(
        "An API key opens the API and this dashboard. Make one here, or:",
        'hookline keys create "checkout service" --scope publish',
    )


def _table(context: PageContext, keys: Sequence[ApiKey], names: Mapping[str, str]) -> Safe:
    return components.table(
        ("Name", "May", "Application", "Key", "Last used", "Expires", "Made", ""),
        [_row(context, key, names) for key in keys],
        caption="API keys that were not revoked",
        keys=[key.id for key in keys],
    )


def _row(context: PageContext, key: ApiKey, names: Mapping[str, str]) -> list[Child]:
    return [
        key.name,
        key.scope.value,
        "all" if key.app_id is None else names.get(key.app_id, key.app_id),
        tag("span", f"hk_…{key.hint}", class_="id", title=key.id),
        "never" if key.last_used_at is None else components.ago(key.last_used_at, context.now),
        _expiry(context, key.expires_at),
        components.ago(key.created_at, context.now),
        components.link_button(
            context.link(f"/api-keys/{key.id}/revoke"), "Revoke…", kind="danger", aria_label=f"Revoke {key.name}"
        ),
    ]


def _expiry(context: PageContext, at: datetime | None) -> Child:
    if at is None:
        return tag("span", "never", class_="quiet")
    if at <= context.now:
        return components.state("dead", tag("span", "expired ", components.ago(at, context.now)))
    shown = components.ago(at, context.now)
    return components.state("scheduled", shown) if at <= context.now + SOON else shown


# ── a new one ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_new(context: PageContext) -> Page:
    _check(context)
    return await _form(context, {"scope": Scope.PUBLISH.value, "app": "" if context.app is None else context.app.id})


async def create(context: PageContext, form: Form) -> Page:
    typed = {name: form.text(name) for name in ("name", "scope", "app", "days")}
    try:
        made, key = await _create(context, typed)
    except (InvalidInput, NotFound) as error:
        return await _form(context, typed, error)
    return Page(
        title="API key made",
        rail="keys",
        body=[
            components.verdict("scheduled", "Copy the key now: it is shown this once, and only its hash is kept."),
            components.code(key, name="key"),
            tag("p", f"{made.name} may {_SCOPES[made.scope].partition(': ')[2]}."),
            tag("p", components.link_button(context.link("/api-keys"), "I have copied it", kind="main")),
        ],
        refresh_seconds=None,
    )


async def _create(context: PageContext, typed: Mapping[str, str]) -> tuple[ApiKey, str]:
    if typed["scope"] not in set(Scope):
        raise InvalidInput(f"takes one of {', '.join(Scope)}", field="scope")
    if typed["days"] not in _LIVES:
        raise InvalidInput(f"takes one of {', '.join(filter(None, _LIVES))}, or nothing", field="days")
    return await api_keys.create(
        context.deps,
        context.caller,
        name=typed["name"],
        scope=Scope(typed["scope"]),
        app=typed["app"] or None,
        expires_at=context.services.wall() + timedelta(days=int(typed["days"])) if typed["days"] else None,
    )


def _fault(error: InvalidInput | NotFound) -> tuple[str, str]:
    """The field that it is about, and what is wrong with it."""
    if isinstance(error, NotFound):
        return "app", str(error)
    return error.field or "name", error.words


async def _form(context: PageContext, typed: Mapping[str, str], error: InvalidInput | NotFound | None = None) -> Page:
    faults = {} if error is None else dict([_fault(error)])
    apps = await context.store.applications(context.org_id, Rows(limit=MAX_LISTED + 1))
    form = components.form(
        context,
        context.link("/api-keys/new"),
        components.field(
            "name",
            "Name",
            typed.get("name", ""),
            hint="For people: who uses it, and where.",
            error=faults.get("name"),
            required=True,
            maxlength="256",
            autofocus=True,
        ),
        components.choice(
            "scope", "May", ((scope.value, words) for scope, words in _SCOPES.items()), typed.get("scope", "")
        ),
        _applications(apps, typed.get("app", ""), faults.get("app")),
        components.choice("days", "Lasts", _LIVES.items(), typed.get("days", "")),
        tag("button", "Make the key", class_="button main"),
        class_="stacked",
    )
    wrong = components.verdict(
        "dead", "Nothing was made: ", "; ".join(f"{name}: {text}" for name, text in faults.items()), "."
    )
    return Page(
        title="New API key",
        rail="keys",
        aside=tag("a", "Back to the keys", href=context.link("/api-keys")),
        body=[wrong if faults else None, form],
        status=http_status(error),
        refresh_seconds=None,
    )


def _applications(apps: Sequence[Application], value: str, error: str | None) -> Safe:
    options, more = [(app.id, app.name) for app in apps[:MAX_LISTED]], len(apps) > MAX_LISTED
    every = "all applications"
    return components.chooser(
        "app", "Reaches", options, value, more=more, nothing=every, hint=f"Empty: {every}.", error=error
    )


# ── revoking ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_revoke(context: PageContext) -> Page:
    """What it touches, before it is done."""
    _check(context)
    key = await api_keys.find(context.deps, context.caller, context.path("key_id"))
    used = (
        "It was never used."
        if key.last_used_at is None
        else tag("span", "Last used ", components.ago(key.last_used_at, context.now), ".")
    )
    own = context.viewer.caller.key_id == key.id
    return Page(
        title="Revoke an API key",
        rail="keys",
        body=[
            components.verdict("dead", f"Whoever uses {key.name} is refused from now on. It cannot be undone."),
            components.fields(
                (
                    ("Name", key.name),
                    ("May", key.scope.value),
                    ("Key", tag("span", f"hk_…{key.hint}", class_="id")),
                    ("Use", used),
                    ("You", "You have signed in with this key: revoking it signs you out." if own else None),
                )
            ),
            components.actions(
                components.button(
                    context, context.link(f"/api-keys/{key.id}/revoke"), "Revoke this key", kind="danger"
                ),
                components.link_button(context.link("/api-keys"), "Keep it"),
            ),
        ],
        refresh_seconds=None,
    )


async def revoke(context: PageContext, _form: Form) -> Done:
    key = await api_keys.revoke(context.deps, context.caller, context.path("key_id"))
    return Done(to=context.link("/api-keys"), notice=f"{key.name} is revoked.")


VIEWS = (
    View(path="/api-keys", show=show),
    View(path="/api-keys/new", show=show_new),
    View(path="/api-keys/{key_id}/revoke", show=show_revoke),
)
ACTIONS = (
    Action(path="/api-keys/new", do=create),
    Action(path="/api-keys/{key_id}/revoke", do=revoke),
)
