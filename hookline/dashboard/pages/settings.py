"""The settings page: the settings that this process was started with (read-only), and the operators."""

from __future__ import annotations

from collections.abc import Sequence

from hookline import __version__
from hookline.config import PREFIX
from hookline.dashboard import components
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.model.actors import Scope
from hookline.model.operators import Operator
from hookline.store import SCHEMA_VERSION
from hookline.store import Page as Rows
from hookline.web.context import ShownSetting
from hookline.web.html import Child, Safe, tag

MAX_OPERATORS = 200  # operators listed on the page
_ROLES = {Scope.FULL: "full", Scope.READ: "read only", Scope.PUBLISH: "publish only"}


@get("/settings", deployment=True)
async def show(context: PageContext) -> Page:
    settings = context.services.pages.settings
    schema = await context.store.version()
    body: list[Child] = [_verdict(settings, schema), _about(context, schema)]
    if context.may_change:
        found = await context.store.access.operators(None, Rows(limit=MAX_OPERATORS + 1))
        body.append(_operators(context, found))
    return Page(title="Settings", body=[*body, _table(settings)])


def _verdict(settings: Sequence[ShownSetting], schema: int) -> Safe:
    if schema != SCHEMA_VERSION:
        words = f"The database has schema {schema}, but this process expects {SCHEMA_VERSION}. Migrate it: `hookline migrate`"
        return components.verdict("scheduled", components.with_code(words))
    changed = sum(_changed(each) for each in settings)
    words = "Every setting has its default"
    if changed:
        differ = "differs from its default" if changed == 1 else "differ from their defaults"
        words = f"{components.count(changed, 'setting')} {differ}"
    return components.verdict("delivered", f"{words}. They are read from the environment when a process starts.")


def _about(context: PageContext, schema: int) -> Safe:
    engine = {"sqlite": "SQLite", "postgres": "PostgreSQL"}.get(context.store.engine, context.store.engine)
    return components.fields((("Version", __version__), ("Database", engine), ("Schema", f"{schema}")))


# ── operators ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _operators(context: PageContext, found: Sequence[Operator]) -> Safe:
    if not found:
        words = "No operators yet: people sign in with API keys and tokens. Add an operator with a password:"
        return components.section("Operators", components.empty(words, "hookline operators add ada --role read"))
    more = components.with_code("More operators: `hookline operators list`")
    change = components.with_code("Add or change operators on the command line: `hookline operators --help`")
    table = components.table(
        found[:MAX_OPERATORS],
        (
            ("Name", lambda each: each.name),
            ("Role", lambda each: _ROLES[each.role]),
            ("Organization", lambda each: components.ident(each.org_id)),
            ("Created", lambda each: components.ago(each.created_at, context.now)),
        ),
        caption="Operators, who sign in with a password",
    )
    note = components.quiet(more) if len(found) > MAX_OPERATORS else None
    return components.section("Operators", table, note, components.quiet(change))


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(settings: Sequence[ShownSetting]) -> Safe:
    table = components.table(
        settings,
        (
            (f"{PREFIX}…", lambda each: tag("code", each.variable.removeprefix(PREFIX))),
            ("Value", _value),
            ("Default", lambda each: tag("code", each.default) if each.default else None),
            ("What it does", lambda each: components.with_code(each.help)),
        ),
        caption="All settings; secrets are not shown",
        key=lambda each: each.variable,
    )
    return components.section("Environment", table)


def _value(each: ShownSetting) -> Safe:
    value = tag("code", each.value) if each.value else tag("span", "none", class_="quiet")
    return tag("b", value) if _changed(each) else value


def _changed(each: ShownSetting) -> bool:
    return each.value not in (each.default, "not set")
