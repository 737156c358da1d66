"""The frame of every page: navigation, application switcher, time range, notice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from hookline.dashboard import components
from hookline.dashboard.icons import icon
from hookline.dashboard.page import Page
from hookline.dashboard.page_context import PORTAL, RANGES, PageContext
from hookline.dashboard.static import url
from hookline.model.catalogue import Application
from hookline.web.context import Brand
from hookline.web.html import Child, Safe, join, page, tag

MAX_SWITCHED = 200  # applications in the switcher; if there are more, it is a text field


class Entry(Struct, frozen=True):
    key: str
    words: str
    path: str
    letter: str  # keyboard shortcut: `g` and this letter open the page
    portal: bool = False  # customers see this entry too
    deployment: bool = False  # only operators of the default organization see this entry
    full: bool = False  # only viewers who may change something see this entry


RAIL = (
    Entry("overview", "Overview", "/", "o", portal=True),
    Entry("messages", "Messages", "/messages", "m", portal=True),
    Entry("dead", "Dead letters", "/dead-letters", "d", portal=True),
    Entry("endpoints", "Endpoints", "/endpoints", "e", portal=True),
    Entry("applications", "Applications", "/applications", "a"),
    Entry("event-types", "Event types", "/event-types", "t", portal=True),
    Entry("alerts", "Alerts", "/alerts", "l", deployment=True),
    Entry("keys", "API keys", "/api-keys", "k", full=True),
    Entry("audit", "Audit log", "/audit", "u"),
    Entry("settings", "Settings", "/settings", "s", deployment=True),
)


def document(
    title: str,
    *body: Child,
    brand: str = "Hookline",
    portal: bool = False,
    live: bool = False,
    now: datetime | None = None,
) -> Safe:
    """Return the whole HTML document, also for pages without a session. Scripts compute ages from `now`."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("script", src=url("early.js")),
        tag("title", f"{title} · {brand}"),
        tag("link", rel="icon", href=url("icon.svg"), type="image/svg+xml"),
        tag("link", rel="stylesheet", href=url("style.css")),
        tag("link", rel="stylesheet", href="/portal/brand.css") if portal else None,
        tag("script", src=url("main.js"), type="module"),
    )
    content = tag("body", *body, data_live=live, data_now=None if now is None else now.isoformat())
    return page(tag("html", head, content, lang="en"))


def framed(context: PageContext, shown: Page, apps: Sequence[Application], notice: str | None) -> Safe:
    title = tag("div", tag("h1", shown.title), shown.aside, class_="title")
    said = None if notice is None else tag("p", notice, class_="notice delivered", role="status")
    main = tag("main", said, title, *shown.body, id="content", tabindex="-1")
    return document(
        shown.title,
        tag("a", "Skip to content", href="#content", class_="skip"),
        _rail(context, shown),
        tag("div", _top(context, apps), main, class_="page"),
        brand=context.services.pages.brand.name if context.viewer.portal else "Hookline",
        portal=context.viewer.portal,
        live=shown.update_interval(context) is not None,
        now=context.now,
    )


def _rail(context: PageContext, shown: Page) -> Safe:
    current = _current(context) if shown.rail is None else shown.rail
    links = (tag("li", _rail_link(context, entry, current)) for entry in RAIL if _may_open(context, entry))
    return tag("nav", _brand(context), tag("ul", *links), class_="rail", aria_label="Main")


def _rail_link(context: PageContext, entry: Entry, current: str) -> Safe:
    here = "page" if entry.key == current else None
    inner = (icon(entry.key), tag("span", entry.words))
    return tag("a", *inner, href=context.link(entry.path), aria_current=here, data_go=entry.letter)


def _current(context: PageContext) -> str:
    """Return the key of the navigation entry for this page, found by the first part of its path."""
    first = context.request.url.path.removeprefix(PORTAL).strip("/").partition("/")[0]
    return next((entry.key for entry in RAIL if entry.path == f"/{first}"), "")


def _may_open(context: PageContext, entry: Entry) -> bool:
    """Return whether this viewer may open the page of a navigation entry."""
    in_portal = entry.portal or not context.viewer.portal
    return in_portal and (context.runs_deployment or not entry.deployment) and (context.may_change or not entry.full)


def _brand(context: PageContext) -> Safe:
    brand = context.services.pages.brand if context.viewer.portal else Brand()
    mark = tag("img", src="/portal/logo", alt="", class_="logo") if brand.logo else icon("hook")
    return tag("a", mark, tag("span", brand.name), href=context.link("/"), class_="brand")


def _top(context: PageContext, apps: Sequence[Application]) -> Safe:
    live_status = tag("span", class_="alive scripted", role="status", data_alive=True)
    where = tag("div", _switcher(context, apps), live_status, class_="where")
    time_range = _range(context) if context.uses_range else None
    return tag("header", where, time_range, _tools(), _account(context), class_="top")


def _tools() -> Safe:
    """Return the buttons that need scripts. They are hidden without scripts."""
    theme = tag("button", icon("theme"), type="button", class_="tool", data_theme_next=True, aria_label="Light or dark")
    keys = tag("button", icon("help"), type="button", class_="tool", data_help=True, aria_label="Keyboard shortcuts")
    return tag("div", theme, keys, class_="tools scripted")


def _switcher(context: PageContext, apps: Sequence[Application]) -> Safe | None:
    if context.viewer.portal:
        return None
    return tag(
        "form",
        tag("label", "Application", for_="switch-app", class_="unseen"),
        _typed_switch(context, apps[:MAX_SWITCHED]) if len(apps) > MAX_SWITCHED else _listed_switch(context, apps),
        components.hidden_fields((name, value) for name, value in context.kept.items() if name == "range"),
        components.submit("Go", "unscripted"),
        method="get",
        action=context.request.url.path,
        class_="switcher",
    )


def _listed_switch(context: PageContext, apps: Sequence[Application]) -> Safe:
    options = [tag("option", "All applications", value="")]
    options += [tag("option", app.name, value=app.id, selected=app.no == context.app_no) for app in apps]
    return tag("select", *options, name="app", id="switch-app", data_submit=True)


def _typed_switch(context: PageContext, apps: Sequence[Application]) -> Safe:
    """Return the text field of the switcher.

    The name of the current application is beside the field, because the field shows only its id.
    """
    words = (
        f"The list has the first {len(apps):,} applications. Type the id or uid to use another one. Empty means all."
    )
    entry = tag(
        "input",
        type="search",
        name="app",
        id="switch-app",
        value="" if context.app is None else context.app.uid or context.app.id,
        placeholder="All applications",
        list="switch-offered",
        title=words,
        aria_label=f"Application. {words}",
        autocomplete="off",
        data_submit=True,
    )
    named = None if context.app is None else tag("b", context.app.name)
    return join(named, entry, components.offered("switch-offered", ((app.id, app.name) for app in apps)))


def _range(context: PageContext) -> Safe:
    links = []
    for each in RANGES.values():
        current = "true" if each == context.range else None
        links.append(tag("a", each.name, href=context.here(range=each.name), title=each.words, aria_current=current))
    return tag("nav", *links, class_="range", aria_label="Time range")


def _account(context: PageContext) -> Safe:
    path = context.link("/logout", app=None, range=None)
    sign_out = components.form(context, path, components.submit("Sign out", "quiet"), class_="inline")
    return tag("div", tag("span", context.viewer.name, class_="quiet"), sign_out, class_="who")
